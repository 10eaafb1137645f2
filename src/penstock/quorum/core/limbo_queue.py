"""The limbo's queue: transactions between the client's append and its answer. Design: quorum-log.md P5-P9, qsync.rst.

The queue knows nothing of leadership, quorums or time: its owner (`limbo.py`) reports appends, commits and rollbacks,
and it says which clients to answer, in which order. An entry goes

    VOLATILE ──admit──▶ SUBMITTED ──commit──▶ (COMMITTED, while it waits for an ack level) ──▶ ANSWERED

VOLATILE entries were never appended: the log, and so the rest of the world, does not know them. SUBMITTED ones are in
the log, uncommitted. What always holds:

- VOLATILE is FIFO: an entry is admitted only after its predecessor, by an active owner, into free space (I20).
- Aborting a VOLATILE entry aborts every younger one, newest first (I20).
- OKs come in offset order (per ack level), aborts of one ROLLBACK newest first, each exactly once (I15).
- A repeat is answered when the state machine has ruled about its pair: a commit or an abort of this copy says nothing
  of the pair, for an earlier copy may have decided (P10). Until then it waits, COMMITTED, whatever became of the copy.
- length and bytes are the sums over SUBMITTED (I21).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import groupby
from typing import Any

import msgspec

from penstock.kernel.ids import Epoch, Instant, Offset, RequestId
from penstock.quorum.records.answers import Answers, Cause, Fate
from penstock.quorum.records.effects import APPLIED

__all__ = ["LimboEntry", "LimboLimits", "LimboQueue", "LimboState"]

NEVER_APPENDED = Offset(0)


class LimboState(Enum):
    """The state of an entry; see the module's picture."""

    VOLATILE = "volatile"
    SUBMITTED = "submitted"
    COMMITTED = "committed"
    ANSWERED = "answered"


class LimboLimits(msgspec.Struct, frozen=True):
    """How much may wait, and where. What finds no room even as VOLATILE is refused: back-pressure, not failure."""

    length_max: int = 16_384
    bytes_max: int = 16 << 20
    volatile_length_max: int = 16_384
    volatile_bytes_max: int = 16 << 20
    async_window_bytes: int = 4 << 20  # acknowledged and not yet committed: what an epoch change may lose at most


class LimboEntry(msgspec.Struct, gc=False, eq=False):
    """One waiting transaction."""

    request: RequestId | None  # None: no client waits any more (detached)
    body: Any  # the entry to append when it is admitted
    size: int
    is_sync: bool = True
    level: int = 0  # 0: a majority; else a name of the owner's for what must be reached beyond the commit
    deadline: Instant = Instant(0)  # the owner's business
    rolls_back: bool = False  # the owner's business: what a time-out does
    is_repeat: bool = False  # a copy of its pair may be in the log already
    has_timed_out: bool = False  # its own time is over, and a ROLLBACK is under way for it
    is_ruled: bool = False  # a repeat: the state machine has said what became of its pair
    ruling: Any = None
    state: LimboState = LimboState.VOLATILE
    epoch: Epoch = Epoch(0)
    offset: Offset = NEVER_APPENDED


class LimboQueue:
    """The queue. Methods that answer return effects in the order in which clients must learn of them."""

    __slots__ = (
        "_acknowledged", "_levels", "_ranges", "_submitted", "_unruled", "_volatile",
        "acknowledged_bytes", "committed", "is_frozen", "limits", "size", "volatile_size",
    )  # fmt: skip

    def __init__(self, limits: LimboLimits = LimboLimits()) -> None:  # noqa: B008 (frozen)
        self.limits = limits
        self.is_frozen = False
        self.committed = Offset(0)
        self.size = 0  # bytes over SUBMITTED
        self.volatile_size = 0
        self.acknowledged_bytes = 0  # async: answered, not yet committed
        self._volatile: deque[LimboEntry] = deque()
        self._submitted: deque[LimboEntry] = deque()
        self._levels: dict[int, deque[LimboEntry]] = {}  # committed, waiting for an ack level, in offset order
        self._unruled: dict[Offset, LimboEntry] = {}  # repeats among those, by offset
        self._acknowledged: deque[tuple[Offset, int]] = deque()
        self._ranges: list[tuple[Offset, Offset]] = []  # ROLLBACK(f)@j not yet committed, as (f, j), by j

    def __len__(self) -> int:
        return len(self._submitted)

    @property
    def volatile_length(self) -> int:
        return len(self._volatile)

    @property
    def is_empty(self) -> bool:
        """Does nobody wait for anything?"""
        return not (self._submitted or self._volatile or self._levels)

    @property
    def oldest(self) -> LimboEntry | None:
        """The first entry the log has not committed."""
        return self._submitted[0] if self._submitted else None

    def pending(self) -> Iterator[LimboEntry]:
        """SUBMITTED entries in offset order. For people, checks and tests: no step walks the queue."""
        return iter(self._submitted)

    def waiting(self) -> Iterator[LimboEntry]:
        """VOLATILE entries, oldest first. For people, checks and tests."""
        return iter(self._volatile)

    def waiting_for_level(self) -> Iterator[LimboEntry]:
        """Committed entries whose ack level is not reached yet. For people, checks and tests."""
        for waiting in self._levels.values():
            yield from (entry for entry in waiting if entry.state is LimboState.COMMITTED)

    def levels(self) -> list[int]:
        """The ack levels which committed entries wait for."""
        return list(self._levels)

    # in

    def offer(self, entries: Sequence[LimboEntry]) -> list[LimboEntry]:
        """Let entries in, as VOLATILE. Returns those there is no room for: nothing happened to them.

        Once one does not fit, no later one of the same call does either: their order is a promise.
        """
        if self.is_frozen:
            return list(entries)
        limits, volatile = self.limits, self._volatile
        for count, entry in enumerate(entries):
            size = self.volatile_size + entry.size
            if len(volatile) >= limits.volatile_length_max or (size > limits.volatile_bytes_max and volatile):
                return list(entries[count:])
            volatile.append(entry)
            self.volatile_size = size
        return []

    def admit(self, epoch: Epoch, next_offset: Offset, *, is_active: bool) -> list[LimboEntry]:
        """VOLATILE entries that may be appended now, from `next_offset` on, without a hole.

        Asked again at every wake-up, whatever its reason: activity, space and the predecessor are checked here only.
        """
        admitted: list[LimboEntry] = []
        if self.is_frozen or not is_active:
            return admitted
        volatile, submitted, offset = self._volatile, self._submitted, next_offset
        while volatile and self._has_space(volatile[0].size):
            entry = volatile.popleft()
            self.volatile_size -= entry.size
            self.size += entry.size
            entry.epoch, entry.offset, entry.state = epoch, offset, LimboState.SUBMITTED
            submitted.append(entry)
            admitted.append(entry)
            offset = Offset(offset + 1)
        return admitted

    def _has_space(self, size: int) -> bool:
        """An entry larger than the whole limbo is let in alone, or it would wait for ever."""
        if len(self._submitted) >= self.limits.length_max:
            return False
        return self.size + size <= self.limits.bytes_max or not self._submitted

    def doom(self, first: Offset, at: Offset) -> None:
        """ROLLBACK(first) was appended at offset `at`. Nothing is decided until a commit reaches `at`."""
        assert first < at, (first, at)
        assert first > self.committed, "only uncommitted entries can be rolled back"
        self._ranges.append((first, at))

    # out

    def commit(self, upto: Offset) -> list[Answers]:
        """The log is committed up to `upto`, a point which lies in no doomed range: answer everything that settles."""
        assert upto >= self.committed, (upto, self.committed)
        self.committed = upto
        answers: list[Answers] = []
        ranges = self._settled_ranges(upto)
        for first, at in ranges:
            self._pop_committed(Offset(first - 1), answers)
            self._pop_aborted(at, answers)
        self._pop_committed(upto, answers)
        while self._acknowledged and self._acknowledged[0][0] <= upto:
            self.acknowledged_bytes -= self._acknowledged.popleft()[1]
        return answers

    def _settled_ranges(self, upto: Offset) -> list[tuple[Offset, Offset]]:
        """Doomed ranges that `upto` commits, outermost only, in order; they are forgotten here."""
        if not self._ranges:
            return []
        settled: list[tuple[Offset, Offset]] = []
        for first, at in self._ranges:
            if at > upto:
                break
            while settled and settled[-1][0] >= first:
                settled.pop()
            settled.append((first, at))
        self._ranges = [each for each in self._ranges if each[1] > upto]
        return settled

    def _pop_committed(self, upto: Offset, answers: list[Answers]) -> None:
        submitted = self._submitted
        done: list[LimboEntry] = []
        size = 0
        while submitted and submitted[0].offset <= upto:
            entry = submitted.popleft()
            size += entry.size
            if entry.request is not None and (entry.level or entry.is_repeat):
                self._wait_for_level(entry, entry.level or APPLIED)
            elif entry.request is not None:
                done.append(entry)
            else:
                entry.state = LimboState.ANSWERED
        self.size -= size
        _answer(Fate.COMMITTED, done, answers)

    def _wait_for_level(self, entry: LimboEntry, level: int) -> None:
        """Keep an entry whose copy is settled until its answer is, too."""
        entry.state, entry.level = LimboState.COMMITTED, level
        self._levels.setdefault(level, deque()).append(entry)
        if entry.is_repeat:
            self._unruled[entry.offset] = entry

    def _pop_aborted(self, before: Offset, answers: list[Answers]) -> None:
        submitted = self._submitted
        doomed: list[LimboEntry] = []
        while submitted and submitted[0].offset < before:
            entry = submitted.popleft()
            self.size -= entry.size
            if entry.request is None:
                entry.state = LimboState.ANSWERED
            elif entry.is_repeat:
                self._wait_for_level(entry, entry.level or APPLIED)
            else:
                doomed.append(entry)
        doomed.reverse()
        for has_timed_out, run in groupby(doomed, key=_has_timed_out):
            _answer(Fate.ABORTED, list(run), answers, Cause.QUORUM_TIMEOUT if has_timed_out else Cause.ROLLBACK)

    def acknowledge(self, durable: Offset) -> list[Answers]:
        """Answer async entries durable here, up to the first pending sync one and as far as the async window goes.

        The owner calls this only while it is active and its epoch's barrier is committed (P8).
        """
        submitted, window = self._submitted, self.limits.async_window_bytes
        done: list[LimboEntry] = []
        while submitted:
            entry = submitted[0]
            if entry.is_sync or entry.is_repeat or entry.offset > durable or self._is_doomed(entry.offset):
                break
            if self.acknowledged_bytes + entry.size > window:
                break
            submitted.popleft()
            self.size -= entry.size
            self.acknowledged_bytes += entry.size
            self._acknowledged.append((entry.offset, entry.size))
            if entry.request is None:
                entry.state = LimboState.ANSWERED
            else:
                done.append(entry)
        answers: list[Answers] = []
        _answer(Fate.ACKNOWLEDGED, done, answers)
        return answers

    def _is_doomed(self, offset: Offset) -> bool:
        return any(first <= offset < at for first, at in self._ranges)

    def level_reached(self, level: int, upto: Offset) -> list[Answers]:
        """Committed entries which waited for `level` have it up to `upto`."""
        answers: list[Answers] = []
        _answer(Fate.COMMITTED, self.take_level(level, upto), answers)
        return answers

    def take_level(self, level: int, upto: Offset) -> list[LimboEntry]:
        """Take out the entries that have `level`, in offset order; the caller must answer them."""
        waiting = self._levels.get(level)
        done: list[LimboEntry] = []
        while waiting and waiting[0].offset <= upto:
            if _is_unruled(waiting[0]):
                break  # later entries wait as well: answers keep their order
            entry = waiting.popleft()
            if entry.state is LimboState.COMMITTED:  # else its time-out was first
                done.append(entry)
        if waiting is not None and not waiting:
            del self._levels[level]
        return done

    def rule(self, first: Offset, upto: Offset, results: tuple[Any, ...]) -> bool:
        """Note the results of the state machine up to `upto`. Return whether a repeat was among them."""
        if not self._unruled:
            return False
        ruled = [offset for offset in self._unruled if offset <= upto]
        for offset in ruled:
            entry = self._unruled.pop(offset)
            assert offset >= first, "the results cover each settled entry"
            entry.is_ruled, entry.ruling = True, results[offset - first]
        return bool(ruled)

    def time_out(self, entry: LimboEntry) -> list[Answers]:
        """The waiter of this entry has waited long enough: answer it with the known part, whatever that is.

        A VOLATILE entry ends here, with all younger ones; a SUBMITTED one is detached: it stays, without a waiter.
        """
        answers: list[Answers] = []
        if entry.state is LimboState.VOLATILE:
            return self._abort_volatile(entry, Cause.NO_ROOM)
        if entry.state is LimboState.SUBMITTED and entry.request is not None:
            _answer(Fate.INDETERMINATE, [entry], answers, Cause.QUORUM_TIMEOUT)
            entry.state, entry.request = LimboState.SUBMITTED, None
        elif entry.state is LimboState.COMMITTED:
            if self._unruled.pop(entry.offset, None) is None:
                _answer(Fate.COMMITTED_BELOW_LEVEL, [entry], answers)
            else:
                _answer(Fate.INDETERMINATE, [entry], answers, Cause.QUORUM_TIMEOUT)
            self.drop_answered(entry.level)
        return answers

    def drop_answered(self, level: int) -> None:
        """A level that is never reached must not keep its answered entries."""
        waiting = self._levels[level]
        while waiting and waiting[0].state is LimboState.ANSWERED:
            waiting.popleft()
        if not waiting:
            del self._levels[level]

    def _abort_volatile(self, oldest: LimboEntry | None, cause: Cause) -> list[Answers]:
        """Abort VOLATILE entries from the newest down to `oldest`, or all: definite, for no log knows them."""
        aborted: list[LimboEntry] = []
        while self._volatile:
            entry = self._volatile.pop()
            self.volatile_size -= entry.size
            aborted.append(entry)
            if entry is oldest:
                break
        answers: list[Answers] = []
        _answer(Fate.ABORTED, aborted, answers, cause)
        return answers

    def freeze(self) -> list[Answers]:
        """Ownership is lost: VOLATILE entries abort, all others are INDETERMINATE, and nothing happens any more."""
        answers = self._abort_volatile(None, Cause.FENCED)
        waiters = [entry for entry in self._submitted if entry.request is not None]
        for level in sorted(self._levels):
            waiters += [entry for entry in self._levels[level] if entry.state is LimboState.COMMITTED]
        waiters.sort(key=lambda entry: entry.offset)
        _answer(Fate.INDETERMINATE, waiters, answers, Cause.FENCED)
        self.is_frozen = True
        self.size = self.acknowledged_bytes = 0
        self._submitted.clear()
        self._levels.clear()
        self._unruled.clear()
        self._acknowledged.clear()
        self._ranges.clear()
        return answers

    # for observers

    def copy(self) -> "LimboQueue":
        """An equal queue which shares nothing that changes."""
        twin = LimboQueue(self.limits)
        for name in ("is_frozen", "committed", "size", "volatile_size", "acknowledged_bytes"):
            setattr(twin, name, getattr(self, name))
        twin._volatile = deque(map(msgspec.structs.replace, self._volatile))
        twin._submitted = deque(map(msgspec.structs.replace, self._submitted))
        twin._levels = {level: deque(map(msgspec.structs.replace, each)) for level, each in self._levels.items()}
        twin._unruled = {each.offset: each for lane in twin._levels.values() for each in lane if _is_unruled(each)}
        twin._acknowledged = deque(self._acknowledged)
        twin._ranges = list(self._ranges)
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the queue's behaviour, as a hashable value."""
        return (
            self.is_frozen,
            self.committed,
            tuple(map(_entry_fingerprint, self._volatile)),
            tuple(map(_entry_fingerprint, self._submitted)),
            tuple((level, tuple(map(_entry_fingerprint, self._levels[level]))) for level in sorted(self._levels)),
            tuple(self._acknowledged),
            tuple(self._ranges),
        )

    def check(self) -> None:
        """I15, I20 and I21, as far as one moment shows them."""
        submitted, volatile = list(self._submitted), list(self._volatile)
        assert self.size == sum(entry.size for entry in submitted)
        assert self.volatile_size == sum(entry.size for entry in volatile)
        assert self.acknowledged_bytes == sum(size for _, size in self._acknowledged)
        assert self.acknowledged_bytes <= self.limits.async_window_bytes
        assert len(submitted) <= self.limits.length_max
        assert self.size <= self.limits.bytes_max or len(submitted) == 1
        assert len(volatile) <= self.limits.volatile_length_max
        assert all(entry.state is LimboState.SUBMITTED for entry in submitted)
        assert all(entry.state is LimboState.VOLATILE and entry.offset == NEVER_APPENDED for entry in volatile)
        offsets = [offset for offset, _ in self._acknowledged] + [entry.offset for entry in submitted]
        assert offsets == sorted(set(offsets)), "entries in offset order"
        assert all(offset > self.committed for offset in offsets), "nothing settled stays"
        unruled = {each.offset for lane in self._levels.values() for each in lane if _is_unruled(each)}
        assert self._unruled.keys() == unruled, "the repeats without a ruling"
        for level, waiting in self._levels.items():
            assert waiting, level
            assert all(entry.level == level and entry.offset <= self.committed for entry in waiting)
        requests = [entry.request for entry in (*submitted, *volatile) if entry.request is not None]
        assert len(requests) == len(set(requests)), "a request waits once"
        assert self._ranges == sorted(self._ranges, key=lambda each: each[1])
        assert not any(first <= self.committed < at for first, at in self._ranges), "no commit inside a doomed range"
        if self.is_frozen:
            assert not any((submitted, volatile, self._levels, self._unruled, self._acknowledged, self._ranges))


def _has_timed_out(entry: LimboEntry) -> bool:
    return entry.has_timed_out


def _is_unruled(entry: LimboEntry) -> bool:
    return entry.is_repeat and not entry.is_ruled and entry.state is LimboState.COMMITTED


def _answer(fate: Fate, entries: list[LimboEntry], answers: list[Answers], cause: Cause = Cause.NONE) -> None:
    """Answer entries in the given order, one effect per run of the same epoch; each can be answered only once."""
    if not entries:
        return
    epoch = entries[0].epoch
    requests: list[RequestId] = []
    offsets: list[Offset] = []
    for entry in entries:
        assert entry.state is not LimboState.ANSWERED
        assert entry.request is not None
        entry.state = LimboState.ANSWERED
        if entry.epoch != epoch:
            answers.append(Answers(fate, epoch, tuple(requests), tuple(offsets), cause=cause))
            epoch, requests, offsets = entry.epoch, [], []
        requests.append(entry.request)
        offsets.append(entry.offset)
    answers.append(Answers(fate, epoch, tuple(requests), tuple(offsets), cause=cause))


def _entry_fingerprint(entry: LimboEntry) -> tuple[Any, ...]:
    return (
        entry.request, entry.size, entry.is_sync, entry.level, entry.state, entry.epoch, entry.offset,
        entry.is_repeat, entry.is_ruled, entry.has_timed_out,
    )  # fmt: skip
