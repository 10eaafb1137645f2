"""One seed of the consumers' world: messages under faults, calm, and the judge.

E1  Each acknowledged message is in its journal, once.
E4  After the calm each shard consumes every message within 20 s.
E7  The effects of a shard, in its store and in the journal it publishes to, are those of each committed message, once.
"""

from collections import Counter

from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import read_committed
from penstock_lab.world.consumers.site import COUNTED, ConsumersSite
from penstock_lab.world.faults import plan
from penstock_lab.world.world import World

__all__ = ["ABOUT", "ask_consumers", "run_consumers"]

ABOUT = "consumers, their shards and brokers: each committed message has its effects once"
ANSWER_S = 20.0  # E4
STEP_S = 0.5


def run_consumers(world: World, faults: tuple[str, ...], counts: dict[str, int]) -> None:
    """Run a seed. The world fails with the first broken rule."""
    site = ConsumersSite(world)
    settings = site.settings
    begin_s = world.now_ns / 1e9
    plan(site.scene, faults, begin_s=begin_s + 0.5, end_s=begin_s + settings.run_s)
    site.trouble_database()
    site.scene.run(settings.run_s)
    site.is_over = True
    site.scene.calm()
    site.scene.run(settings.calm_s)
    counts.update(Counter(fate for _, fate in site.published.values()))
    counts["commits"] = sum(row.commits for row in site.database.rows.values())
    ask_consumers(site)


def ask_consumers(site: ConsumersSite) -> None:
    """Wait until the shards have consumed everything, and judge."""
    committed = _read(site, *site.settings.sources)
    if committed is None:
        return
    for number, (journal, fate) in site.published.items():
        count = committed.count(number)
        if (fate == "acknowledged" and count != 1) or count > 1 or (fate == "refused" and count):
            site.world.fail(f"E1: message {number} of {journal}, {fate}, was read {count} times")
            return
    found = ""
    for _ in range(int(ANSWER_S / STEP_S)):
        found = _effects(site, committed)
        if not found or found.startswith("E7"):
            break
        site.scene.run(STEP_S)
    if found:
        site.world.fail(found)


def _effects(site: ConsumersSite, committed: list[int]) -> str:
    """Compare stores and the published journal with the messages."""
    counted: Counter[int] = Counter()
    for row in site.database.rows.values():
        counted.update({int(number): count for number, count in row.state.items()})
    said = _read(site, COUNTED)
    if said is None:
        return "E4: the journal that the shards publish to does not answer"
    for what, found in (("counted", counted), ("published", Counter(said))):
        for number, count in sorted(found.items()):
            if count > 1 or number not in committed:
                return f"E7: message {number} was {what} {count} times"
    for what, numbers in (("counted", set(counted)), ("published", set(said))):
        missing = sorted(set(committed) - numbers)
        if missing:
            return f"E4: message {missing[0]} and {len(missing) - 1} others were not {what}"
    return ""


def _read(site: ConsumersSite, *names: str) -> list[int] | None:
    """Return the numbers of all committed messages; None if a read does not end, and the world has failed."""

    async def read() -> list[int]:
        async with Journals(site.addresses, ports=site.admin.ports) as journals:
            return [message.value["number"] for name in names async for message in read_committed(journals, name)]

    found: list[int] | None = site.do(read(), ANSWER_S)
    if found is None:
        site.world.fail("E4: after the calm a read of committed messages does not end")
    return found
