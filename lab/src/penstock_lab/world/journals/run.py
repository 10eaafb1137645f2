"""One seed of the journals' world: work under faults, calm, and the judge."""

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import read_committed
from penstock.kernel.errors import PenstockError
from penstock_lab.world.faults import plan
from penstock_lab.world.journals.clients import read_whole
from penstock_lab.world.journals.judge import judge
from penstock_lab.world.journals.site import MESSAGES, JournalsSite
from penstock_lab.world.world import World

__all__ = ["ABOUT", "run_journals"]

ABOUT = "brokers, their spools and the shipped client: acknowledged records are read, once, and no others"
ANSWER_S = 15.0  # E4


def run_journals(world: World, faults: tuple[str, ...], counts: dict[str, int]) -> None:
    """Run a seed. The world fails with the first broken rule."""
    site = JournalsSite(world, faults)
    settings = site.settings
    begin_s = world.now_ns / 1e9
    plan(site.scene, faults, begin_s=begin_s + 0.5, end_s=begin_s + settings.run_s)
    site.scene.run(settings.run_s)
    site.is_over = True
    site.scene.calm()
    site.scene.run(settings.calm_s)
    counts.update(site.ledger.counts())
    ask(site)


def ask(site: JournalsSite) -> None:
    """Ask the shipped client, and judge."""
    journals = {}
    for name in [*(spec.name for spec in site.settings.journals), *site.made]:
        if name in site.deleted or name in site.excused:
            continue
        content = _answered(site, name)
        if content is None:
            return
        if name != MESSAGES:
            journals[name] = content
    found = judge(site.ledger, journals) or (_judge_messages(site) if MESSAGES not in site.excused else None)
    if found is not None:
        site.world.fail(found)


def _answered(site: JournalsSite, journal: str) -> bytes | None:
    """E4: the journal takes an append, and a read of all of it ends. None: it does not, and the world has failed."""
    sent = site.ledger.record(journal, 40)

    async def append_and_read() -> tuple[str, bytes]:
        async with Journals(site.addresses(site.admin.rng), ports=site.admin.ports) as journals:
            try:
                content = b"" if journal == MESSAGES else sent.content
                done = await journals.append(journal, content, timeout=ANSWER_S)
                if content:
                    site.ledger.acknowledged(sent, done.begin, done.end, site.world.now_ns)
            except PenstockError as error:
                return f"takes no append: {error}", b""
            try:
                return "", await read_whole(journals, journal)
            except PenstockError as error:
                return f"cannot be read: {error}", b""

    found = site.scene.do(site.admin, append_and_read(), 2 * ANSWER_S)
    if found is None or found[0]:
        site.world.fail(f"E4: after the calm {journal} {found[0] if found else 'does not answer'}")
        return None
    return found[1]


def _judge_messages(site: JournalsSite) -> str | None:
    """Check that each acknowledged message is read once, and no refused one."""

    async def read() -> list[int]:
        async with Journals(site.addresses(site.admin.rng), ports=site.admin.ports) as journals:
            return [message.value["number"] async for message in read_committed(journals, MESSAGES)]

    found = site.scene.do(site.admin, read(), ANSWER_S)
    if found is None:
        return "E4: after the calm a read of committed messages does not end"
    for number, fate in site.ledger.published.items():
        count = found.count(number)
        if fate == "acknowledged" and count != 1:
            return f"E1: message {number} was acknowledged, and was read {count} times"
        if count > 1 or (fate == "refused" and count):
            return f"E2: message {number}, {fate}, was read {count} times"
    return None
