"""One seed of the quorum log's world: work under faults, changes of the ensemble, calm, and the judge."""

import asyncio
from typing import Final

from penstock.kernel.errors import PenstockError
from penstock.quorum.core.machines.builtin import ScanKeys, encode_op
from penstock.quorum.records.api import ShardStatus
from penstock.quorum.records.resolution import Resolution
from penstock_lab.world.faults import plan
from penstock_lab.world.process import Life
from penstock_lab.world.quorum.clients import append_noted
from penstock_lab.world.quorum.judge import judge_quorum
from penstock_lab.world.quorum.site import SHARD, QuorumSite
from penstock_lab.world.world import World

__all__ = ["ABOUT", "ask_quorum", "run_quorum"]

ABOUT = "nodes, operators and the shipped client: each transaction has one fate, which its client learns"
ANSWER_S: Final = 15.0  # E4
RESOLVED_MAX: Final = 8


def run_quorum(world: World, faults: tuple[str, ...], counts: dict[str, int]) -> None:
    """Run a seed. The world fails with the first broken rule."""
    site = QuorumSite(world)
    settings = site.settings
    begin_s = world.now_ns / 1e9
    plan(site.scene, faults, begin_s=begin_s + 0.5, end_s=begin_s + settings.run_s)
    if settings.changes_s:
        site.admin.spawn(_changes(site, site.admin), "changes")
    site.scene.run(settings.run_s)
    site.is_over = True
    site.scene.calm()
    site.scene.run(settings.calm_s)
    counts.update(site.ledger.counts())
    ask_quorum(site)


async def _changes(site: QuorumSite, life: Life) -> None:
    """Ask for hand-overs and other ensembles, as a person does. They take a refusal for an answer."""
    rng, settings = life.rng, site.settings
    async with site.asking(life) as operators:
        while not site.is_over:
            await asyncio.sleep(rng.uniform(0.3, 1.7) * settings.changes_s)
            one, other = rng.choice(site.names), rng.choice(site.names)
            try:
                match rng.choice(("elect", "elect", "prefer", "swap", "expand", "contract", "abort", "snapshot")):
                    case "elect":
                        await operators.elect(SHARD, timeout=3)
                    case "prefer":
                        await operators.elect(SHARD, one, timeout=3)
                    case "swap":
                        await operators.swap(SHARD, one, other, timeout=4)
                    case "expand":
                        await operators.expand(SHARD, one, timeout=4)
                    case "contract" if settings.nodes > 3:
                        await operators.contract(SHARD, one, timeout=4)
                    case "abort":
                        await operators.elect(SHARD, aborts=True, timeout=3)
                    case _:
                        async with site.client(life) as log:
                            await log.take_snapshot()
            except PenstockError as error:
                life.note("admin", f"{error.code}")
                life.world.tell(life.name, f"admin    {error}")


def ask_quorum(site: QuorumSite) -> None:
    """Ask the shipped client, and judge."""
    values = _answered(site)
    if values is None:
        return
    site.values = values
    found = judge_quorum(site.ledger, values) or _resolved(site, values) or _agreed(site)
    if found is not None:
        site.world.fail(found)


def _answered(site: QuorumSite) -> dict[str, bytes] | None:
    """E4: the shard takes an append and ends a read in time. None: it does not, and the world has failed."""
    sent = site.ledger.record(site.settings.keys[0], 40)

    async def append_and_read() -> tuple[str, dict[str, bytes]]:
        async with site.client(site.admin) as log:
            await append_noted(site, site.admin, log, sent, timeout=ANSWER_S)
            if sent.fate != "committed":
                return f"takes no append: {sent.fate}", {}
            found = await log.read(encode_op(ScanKeys()), timeout=ANSWER_S)
            return "", dict(found.result)

    found = site.scene.do(site.admin, append_and_read(), 2 * ANSWER_S)
    if found is None or found[0]:
        site.world.fail(f"E4: after the calm the shard {found[0] if found else 'does not answer'}")
        return None
    return found[1]


def _resolved(site: QuorumSite, values: dict[str, bytes]) -> str | None:
    """Check that entries of unknown fate resolve to what became of them."""
    unknown = [each for each in site.ledger.sent if each.fate == "unknown" and each.entry is not None]

    async def resolve() -> str:
        async with site.client(site.admin) as log:
            for sent in unknown[:RESOLVED_MAX]:
                assert sent.entry is not None
                fate = await log.resolve(sent.entry, timeout=ANSWER_S)
                has_effect = sent.record in values.get(sent.key, b"")
                if fate is Resolution.PENDING:
                    return f"E4: entry {sent.entry} of unknown fate stays pending"
                if sent.calls == 1 and fate is not Resolution.EXPIRED and has_effect != (fate is Resolution.COMMITTED):
                    return f"E2: entry {sent.entry} resolves as {fate.value}, has an effect: {has_effect}"
        return ""

    found = site.scene.do(site.admin, resolve(), ANSWER_S)
    return "E4: unknown fates are not resolved" if found is None else found or None


def _agreed(site: QuorumSite) -> str | None:
    """E4: all members come to the same state, and none says that it is wrong."""

    async def agree() -> str:
        async with site.client(site.admin) as log, site.asking(site.admin) as operators:
            why = "no metadata"
            for _ in range(int(ANSWER_S / 0.5)):
                metadata = (await operators.status()).shards.get(SHARD, (None, ""))[0]
                answers = await log.status()
                found = [each for answer in answers.values() if isinstance(answer, list) for each, _ in answer]
                members = metadata.ensemble if metadata is not None else ()
                inside = [status for status in found if status.member in members]
                why = _why_not_one(inside, len(members))
                if members and not why:
                    return ""
                await asyncio.sleep(0.5)
            return why

    found = site.scene.do(site.admin, agree(), 2 * ANSWER_S)
    return "E4: the members do not answer" if found is None else f"E4: {found}" if found else None


def _why_not_one(members: list[ShardStatus], count: int) -> str:
    if len(members) < count:
        return f"{len(members)} of {count} members answer"
    for status in members:
        if status.failed or status.diverged or status.suspected:
            return f"{status.member.node}: {status.failed or status.diverged or status.suspected}"
    if len({status.head for status in members}) > 1:
        return f"their logs end at {[str(status.head) for status in members]}"
    if len({status.checksum for status in members}) > 1:
        return f"their states differ, applied {[status.applied for status in members]}"
    return ""
