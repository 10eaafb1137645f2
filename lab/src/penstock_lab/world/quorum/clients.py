"""The clients of the quorum log's world: shipped clients, with the retries and time-outs that users get.

Each process has one client of the shard, some writers of different habits, a reader and a subscriber. A writer notes
each transaction before it sends it, and each answer.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from penstock.kernel.errors import Compacted, PenstockError
from penstock.kernel.ids import Offset
from penstock.quorum.client.quorum import Ack, QuorumLog
from penstock.quorum.core.machines.builtin import AppendTo, Get, encode_op
from penstock.quorum.records.answers import Fate
from penstock_lab.world.process import Life
from penstock_lab.world.quorum.ledger import SentAppend, ShownTxn, ValueRead

if TYPE_CHECKING:
    from penstock_lab.world.quorum.site import QuorumSite

__all__ = ["append_noted", "quorum_client", "subscribe_noted", "written_at_once"]

LATE_S: Final = 1.0  # that a call may take longer than it was given
READ_S: Final = 5.0
Writer = Callable[["QuorumSite", Life, QuorumLog], Coroutine[Any, Any, None]]


def quorum_client(site: "QuorumSite", number: int) -> Callable[[Life], Coroutine[Any, Any, None]]:
    """Return the program of a client. Every second one keeps its `client_id` through restarts."""

    async def main(life: Life) -> None:
        rng = life.rng
        name = life.name if number % 2 else None
        async with site.client(life, client_id=name) as log:
            work = [_plain, _repeats, _rolls_back, _asynchronous, _at_once]
            tasks = [
                asyncio.create_task(work[(number + each) % len(work)](site, life, log), name=f"writer {each}")
                for each in range(site.settings.writers)
            ]
            tasks += [asyncio.create_task(_reads(site, life, log), name="reader")]
            tasks += [asyncio.create_task(_subscribes(site, life, log, rng.random() < 0.5), name="subscriber")]
            await asyncio.gather(*tasks)

    return main


async def append_noted(
    site: "QuorumSite",
    life: Life,
    log: QuorumLog,
    sent: SentAppend,
    *,
    timeout: float,
    ack: Ack = "majority",
    roll_back: bool = False,
    seq: int | None = None,
) -> None:
    """Append a transaction once, and note the answer. It must come in time (E4)."""
    began_ns = life.world.now_ns
    sent.client, sent.calls = log.client_id, sent.calls + 1
    try:
        if seq is None:
            await log.begin_session(timeout=timeout)
            seq = log.next_seq()
        sent.seq = seq
        ops = encode_op(AppendTo(sent.key, sent.record))
        done = await log.append(ops, sync=sent.is_sync, ack=ack, timeout=timeout, roll_back=roll_back, seq=seq)
        site.ledger.answered(sent, done, life.world.now_ns)
        if ack == "applied" and sent.fate == "committed" and sent.result is None and done.fate is Fate.COMMITTED:
            life.world.fail(f"E1: transaction {sent.number} was applied, and its answer has no result")
        life.note("client", f"{sent.fate} {sent.number} at {done.entry}")
    except PenstockError as error:
        site.ledger.failed(sent, error, life.world.now_ns)
        life.note("client", f"failed {sent.number}: {error.code} {error.written.value}")
        life.world.tell(life.name, f"client   {error}")
    took_s = (life.world.now_ns - began_ns) / 1e9
    if took_s > 2.02 * timeout + (6.0 if roll_back else 1.0) + LATE_S:
        life.world.fail(f"E4: an append with {timeout} s had its answer after {took_s:.1f} s")
    site.check_bounds(life, log)


async def _pause(site: "QuorumSite", life: Life) -> None:
    await asyncio.sleep(life.rng.uniform(0, 2 * site.settings.pause_s))


def _timeout(site: "QuorumSite", life: Life) -> float:
    return life.rng.choice(site.settings.timeouts_s)


async def _plain(site: "QuorumSite", life: Life, log: QuorumLog) -> None:
    """Append with any ack level. It repeats nothing."""
    acks: list[Ack] = ["majority", "applied", "applied", "all", 2]
    while not site.is_written:
        ack = life.rng.choice(acks if site.settings.nodes > 1 else acks[:4])
        await append_noted(site, life, log, site.record(life.rng), timeout=_timeout(site, life), ack=ack)
        await _pause(site, life)


async def _repeats(site: "QuorumSite", life: Life, log: QuorumLog) -> None:
    """Append, and send a transaction of unknown fate again until its fate is known."""
    while not site.is_written:
        try:
            await log.begin_session(timeout=READ_S)
        except PenstockError:
            continue
        sent, seq = site.record(life.rng), log.next_seq()
        while sent.fate in ("open", "unknown") and not site.is_over:
            ack: Ack = life.rng.choice(("majority", "applied"))
            await append_noted(site, life, log, sent, timeout=_timeout(site, life), seq=seq, ack=ack)
        await _pause(site, life)


async def _rolls_back(site: "QuorumSite", life: Life, log: QuorumLog) -> None:
    """Append with a short time, and have the leader roll back what no quorum held."""
    while not site.is_written:
        timeout = life.rng.choice((0.02, 0.1, 0.5))
        await append_noted(site, life, log, site.record(life.rng), timeout=timeout, roll_back=True)
        await _pause(site, life)


async def _asynchronous(site: "QuorumSite", life: Life, log: QuorumLog) -> None:
    while not site.is_written:
        sent = site.record(life.rng, is_sync=life.rng.random() < 0.2)
        await append_noted(site, life, log, sent, timeout=_timeout(site, life))
        await _pause(site, life)


async def _at_once(site: "QuorumSite", life: Life, log: QuorumLog) -> None:
    while not site.is_written:
        await written_at_once(site, life, log, life.rng.randint(2, 12))
        await _pause(site, life)


async def written_at_once(site: "QuorumSite", life: Life, log: QuorumLog, count: int) -> None:
    """Append some transactions at the same time."""
    timeout = _timeout(site, life)
    together = [append_noted(site, life, log, site.record(life.rng), timeout=timeout) for _ in range(count)]
    await asyncio.gather(*together)


async def _reads(site: "QuorumSite", life: Life, log: QuorumLog) -> None:
    rng = life.rng
    while not site.is_over:
        key, began_ns = rng.choice(site.settings.keys), life.world.now_ns
        is_linearizable = rng.random() < 0.8
        try:
            found = await log.read(encode_op(Get(key)), linearizable=is_linearizable, timeout=READ_S)
            read = ValueRead(key, found.result or b"", began_ns, life.world.now_ns, is_linearizable)
            site.ledger.reads.append(read)
            life.note("client", f"read {key}", read.value)
        except PenstockError as error:
            site.unread += 1
            life.note("client", f"did not read {key}: {error.code}")
        if (life.world.now_ns - began_ns) / 1e9 > READ_S + LATE_S:
            life.world.fail(f"E4: a read with {READ_S} s ended after {(life.world.now_ns - began_ns) / 1e9:.1f} s")
        await asyncio.sleep(rng.uniform(0, 0.4))


async def _subscribes(site: "QuorumSite", life: Life, log: QuorumLog, is_gapless: bool) -> None:
    """Follow the log. A subscriber that the log has overtaken begins again where the log does."""
    rng, first = life.rng, 1
    while not site.is_over:
        try:
            await subscribe_noted(site, life, log, first, is_gapless=is_gapless, pause_s=rng.choice((0.0, 0.05, 0.5)))
        except Compacted as error:
            first = int(error.details.get("first", 1))
        except PenstockError:
            await asyncio.sleep(0.1)


async def subscribe_noted(
    site: "QuorumSite",
    life: Life,
    log: QuorumLog,
    first: int,
    *,
    is_gapless: bool = False,
    pause_s: float = 0.0,
    chance: float = 0.2,
) -> None:
    """Subscribe until clients end, and note each transaction."""
    shown: list[ShownTxn] = []
    site.ledger.subscriptions.append(shown)
    async for offset, txn in log.subscribe(Offset(first), is_gapless=is_gapless):
        note = site.shown(offset, txn)
        if note is not None:
            shown.append(note)
            life.note("client", f"shown {offset}", txn.ops)
        if site.is_over:
            return
        if pause_s and life.rng.random() < chance:
            await asyncio.sleep(pause_s)
