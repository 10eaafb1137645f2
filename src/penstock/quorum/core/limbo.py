"""The limbo of a leader: who waits for what, until when, and when a ROLLBACK may be written.

Design: quorum-log.md P5 to P9; qsync.rst. The queue's order is `limbo_queue.py`; here is its owner's side: admission,
time-outs, rollback, ack levels, the async window, and the freeze. A limbo lives as long as one leadership; frozen, it
says nothing any more (I19). The rules P5 and P6:

- ROLLBACK(f) only for a pending, not doomed, sync TXN of the current epoch above the commit index.
- A time-out detaches, or (opt-in) tries a ROLLBACK and then waits for that to commit, until a second deadline.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from penstock.kernel.effects import Effect
from penstock.kernel.ids import EntryId, Epoch, Instant, Offset, RequestId
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.deadlines import Deadlines
from penstock.quorum.core.limbo_queue import LimboEntry, LimboQueue, LimboState
from penstock.quorum.core.machines.state_machine import Duplicate, Expired, Retired
from penstock.quorum.core.replica import Replica
from penstock.quorum.records.answers import Answers, Cause, Fate
from penstock.quorum.records.effects import ALL, APPLIED, MAJORITY, AppendRequest
from penstock.quorum.records.entry import OVERHEAD_BYTES, Rollback, Txn
from penstock.quorum.records.member import majority

__all__ = ["Limbo"]

NOT_APPENDED = Epoch(0)


def _timeout_of(entry: LimboEntry) -> int:
    timeout_ns: int = entry.body.timeout_ns
    return timeout_ns


def _judged(entry: LimboEntry, result: Any, ok: Fate) -> tuple[Fate, Cause, EntryId, Any]:
    """Return the answer to a copy by the result of its pair: fate, cause, entry, result."""
    here = EntryId(entry.epoch, entry.offset)
    match result:
        case Duplicate(where, first_result):
            return ok, Cause.NONE, where, first_result
        case Retired():
            return Fate.ABORTED, Cause.QUORUM_TIMEOUT if entry.has_timed_out else Cause.ROLLBACK, here, None
        case Expired():
            return Fate.EXPIRED, Cause.NONE, here, None
        case _:
            return ok, Cause.NONE, here, result


class Limbo:
    """The waiting transactions of one leadership."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.queue = LimboQueue(replica.config.limbo)
        self.queue.committed = replica.commit
        self._deadlines = Deadlines(replica.config.timeout_grain_ns)
        self._armed_at: Instant | None = None  # when the timer fires, if it is set

    @property
    def config(self) -> NodeConfig:
        return self.replica.config

    # in

    def offer(self, requests: Sequence[AppendRequest], ensemble_size: int, now: Instant) -> None:
        """Let requests in; what finds no room, or asks for a level there is not, is refused."""
        entries: list[LimboEntry] = []
        invalid: list[RequestId] = []
        for each in requests:
            level = self._checked_level(each, ensemble_size) if each.level else MAJORITY
            if level is None:
                invalid.append(each.request)
            else:
                size = OVERHEAD_BYTES + len(each.ops)
                entries.append(
                    LimboEntry(
                        each.request, each, size, each.is_sync, level,
                        rolls_back=each.rolls_back, is_repeat=each.is_repeat,
                    )
                )  # fmt: skip
        overflow = self.queue.offer(entries)
        if overflow:
            del entries[-len(overflow) :]
            self._refuse(Fate.OVERLOADED, [entry.body.request for entry in overflow])
        self._refuse(Fate.INVALID, invalid)
        self._set_deadlines(entries, now)

    def _set_deadlines(self, entries: list[LimboEntry], now: Instant) -> None:
        """Most of a batch, and mostly all of it, waits equally long."""
        config, deadlines = self.config, self._deadlines
        for timeout_ns, run in groupby(entries, key=_timeout_of):
            timeout = deadlines.rounded(min(timeout_ns or config.append_timeout_ns, config.append_timeout_ns_max))
            deadlines.add(list(run), timeout, now)
            if self._armed_at is not None and now + timeout < self._armed_at:
                self._armed_at = None  # the timer would fire too late

    def _checked_level(self, request: AppendRequest, ensemble_size: int) -> int | None:
        """Levels below the majority, above the ensemble, or of async transactions do not exist (P7)."""
        level = request.level
        if not request.is_sync:
            return None
        is_one = level in (ALL, APPLIED) or majority(ensemble_size) <= level <= ensemble_size
        return level if is_one else None  # not MAJORITY where it is one: a contraction makes that a lower number

    def _refuse(self, fate: Fate, requests: list[RequestId]) -> None:
        if requests:
            self.replica.emit(Answers(fate, NOT_APPENDED, tuple(requests), (Offset(0),) * len(requests)))

    def admit(self, *, is_active: bool) -> None:
        """Append every waiting transaction there is room for."""
        replica = self.replica
        epoch = replica.epoch
        admitted = self.queue.admit(epoch, Offset(replica.log.end + 1), is_active=is_active)
        if admitted:
            bodies = [entry.body for entry in admitted]
            sizes = [entry.size for entry in admitted]
            txns = [Txn(epoch, body.client, body.seq, body.ops, body.is_sync) for body in bodies]
            replica.append_transactions(txns, sum(sizes), max(sizes))

    # out

    def committed(self, upto: Offset) -> None:
        self._emit(self.queue.commit(upto))

    def acknowledge_async(self, durable: Offset) -> None:
        oldest = self.queue.oldest
        if oldest is not None and not oldest.is_sync:
            self._emit(self.queue.acknowledge(durable))

    def levels_reached(self, level_offset: Callable[[int], Offset]) -> None:
        """Answer committed transactions whose ack level is reached. Rarely is there more than one level in use."""
        for level in self.queue.levels():
            if level != APPLIED:
                reached = self.queue.take_level(level, level_offset(level))
                self._tell([(entry, entry.ruling) for entry in reached], Fate.COMMITTED)

    def applied(self, first: Offset, upto: Offset, results: tuple[Any, ...]) -> bool:
        """Answer clients that waited for the state machine. `first` is the offset of the first result.

        Return whether a repeat that waits for an ack level got its result.
        """
        queue = self.queue
        is_news = queue.rule(first, upto, results)
        told = queue.take_level(APPLIED, upto)
        if told:
            self._tell([(each, each.ruling if each.is_repeat else results[each.offset - first]) for each in told])
        return is_news

    def _tell(self, entries: list[tuple[LimboEntry, Any]], ok: Fate = Fate.COMMITTED) -> None:
        """Answer each by what the state machine says of its pair: one effect for each run of equal answers (P10)."""
        run: list[tuple[RequestId, Offset, Any]] = []
        told_last: tuple[Fate, Cause, Epoch, bool] | None = None
        for entry, result in entries:
            assert entry.request is not None
            entry.state = LimboState.ANSWERED
            is_asked = entry.body.level == APPLIED
            fate, cause, id_, result = _judged(entry, result, ok)
            told = (fate, cause, id_.epoch, is_asked and fate is ok)
            if told_last not in (None, told):
                self._emit_run(told_last, run)
                run = []
            told_last = told
            run.append((entry.request, id_.offset, result))
        if run:
            self._emit_run(told_last, run)

    def _emit_run(self, told: tuple[Fate, Cause, Epoch, bool] | None, run: list[tuple[RequestId, Offset, Any]]) -> None:
        assert told is not None
        (fate, cause, epoch, has_results), (requests, offsets, results) = told, zip(*run, strict=True)
        self.replica.emit(Answers(fate, epoch, requests, offsets, results if has_results else (), cause))

    def _emit(self, effects: Sequence[Effect]) -> None:
        if effects:
            self.replica.emit(*effects)

    def freeze(self) -> None:
        """Leadership is lost (P9): at once, and for good."""
        self._emit(self.queue.freeze())
        self._deadlines.clear()

    # time

    def timer_due(self) -> Instant | None:
        """Return when to set the timer for, if it must be set again."""
        if self._armed_at is not None or self.queue.is_empty:
            return None
        self._armed_at = self._deadlines.earliest()
        return self._armed_at

    def expire(self, now: Instant) -> Offset | None:
        """Answer every waiter whose time is over with the known part; roll back entries that may and want to be (P6).

        Returns where a ROLLBACK was appended, if one was.
        """
        self._armed_at = None
        first: Offset | None = None
        for entry in self._deadlines.expired(now):
            if entry.state is LimboState.SUBMITTED and entry.rolls_back and self._can_end_by_rollback(entry):
                entry.rolls_back, entry.has_timed_out = False, True
                self._deadlines.add([entry], self._deadlines.rounded(self.config.rollback_grace_ns), now)
                if self.may_roll_back(entry):
                    first = entry.offset if first is None else Offset(min(first, entry.offset))
            elif entry.state is LimboState.COMMITTED and entry.is_ruled:
                self._tell([(entry, entry.ruling)], Fate.COMMITTED_BELOW_LEVEL)
                self.queue.drop_answered(entry.level)
            else:
                self._emit(self.queue.time_out(entry))
        return None if first is None else self.roll_back(first)

    def _can_end_by_rollback(self, entry: LimboEntry) -> bool:
        return self.may_roll_back(entry) or self.replica.log.is_doomed(entry.offset)

    def may_roll_back(self, entry: LimboEntry) -> bool:
        """P5. Transactions of prior epochs are never rolled back, only confirmed through the barrier."""
        replica = self.replica
        is_pending = entry.offset > replica.commit and not replica.log.is_doomed(entry.offset)
        return entry.is_sync and entry.epoch == replica.epoch and is_pending

    def roll_back(self, first: Offset) -> Offset:
        """Append ROLLBACK(first). No client learns of it before it commits."""
        at = self.replica.append((Rollback(self.replica.epoch, first),))
        self.queue.doom(first, at)
        return at

    # for observers

    def waiters(self) -> Iterable[LimboEntry]:
        yield from self.queue.pending()
        yield from self.queue.waiting()
        yield from self.queue.waiting_for_level()

    def copy(self, replica: Replica) -> "Limbo":
        """An equal limbo on a copied replica."""
        twin = Limbo.__new__(type(self))
        twin.replica = replica
        twin.queue = self.queue.copy()
        twin._armed_at = self._armed_at
        twins = dict(zip(map(id, self.waiters()), Limbo.waiters(twin), strict=True))
        twin._deadlines = self._deadlines.copy(lambda entry: twins[id(entry)])
        return twin

    def check(self) -> None:
        """The queue's invariants, no waiter without a deadline (I14), and the commit index they share."""
        self.queue.check()
        self._deadlines.check(self.waiters())
        assert self.queue.is_frozen or self.queue.committed == self.replica.commit
        for entry in self.queue.pending():
            assert self.replica.log.epoch_at(entry.offset) == entry.epoch
