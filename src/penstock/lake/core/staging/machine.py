"""The staging state machine: a pure function from a queue of records to a state. Design: lake.md L1, L2, L3, L13, L17.

`apply(position, stamp, record)` folds one record in and returns its result. Every member applies the same records in
the same order and has the same state, byte for byte. It reads no clock, draws nothing at random, and raises nothing
whatever a record says: a bad one has a result like any other.

The sentence which carries the proof: only PUT, DELETE, RESET and head moves change what a branch shows.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from penstock.lake.core.staging import records
from penstock.lake.core.staging.garbage import GarbageState
from penstock.lake.core.staging.records import Atomic, Cancel, Changing, Record, Request, StateHash, Sync, Tick, Version
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import Plan

__all__ = ["StagingMachine"]


class StagingMachine(GarbageState):
    """All the rules together, and the order in which they are asked."""

    def apply(self, position: int, stamp: int, record: Record) -> Result | None:
        """Fold in the record at a position; None if it was folded in before (L1)."""
        if not self._is_next(position):
            return None
        self.applied = position
        self._pass_time(stamp)
        if isinstance(record, (Sync, Tick, StateHash)):
            self.requests.evict(self.limits, self.now)
            return Result(Status.SYNCED)
        return self._apply_request(record)

    def _is_next(self, position: int) -> bool:
        assert position <= self.applied + 1, f"the queue left something out before {position}: applied {self.applied}"
        return position == self.applied + 1

    def _pass_time(self, stamp: int) -> None:
        """L3: forward only, and by no more than a step; the very first stamp says when it is."""
        latest = self.now + self.limits.now_step_ns if self.now else stamp
        self.now = max(self.now, min(stamp, latest))

    def _apply_request(self, record: Changing) -> Result:
        """L2, in this order: known; live; forgotten; then the rules."""
        request = record.request
        known = self.requests.get(request.id)
        if known is not None:
            return known
        if self.requests.is_forgotten(request) and not self._is_live(record):
            return Result(Status.EXPIRED)
        if not self._is_issued(request):
            return Result(Status.EXPIRED, detail="issued in the future")
        outcome = self._verify(record)
        result = outcome if isinstance(outcome, Result) else outcome()
        if self._is_recorded(result):
            self.finish(request, result)
        return result

    def _is_issued(self, request: Request) -> bool:
        """A request from the future would raise the floor, once evicted, over all those yet to come (decision 401)."""
        return request.issued <= self.now

    def _is_live(self, record: Changing) -> bool:
        """A live attempt remembers its request itself."""
        return (
            isinstance(record, (records.Perform, records.Abort, records.Extend)) and record.request.id in self.attempts
        )

    def _is_recorded(self, result: Result) -> bool:
        return result.status.is_final

    def _verify(self, record: Changing) -> Result | Plan:
        handler: Callable[[Any], Result | Plan] = getattr(self, self._handlers[type(record)])
        return handler(record)

    _handlers: ClassVar[dict[type, str]] = {
        records.Put: "_put",
        records.Delete: "_delete",
        records.Reset: "_reset",
        records.HardReset: "_hard_reset",
        records.Announce: "_announce",
        records.Perform: "_perform",
        records.Abort: "_abort",
        records.Extend: "_extend",
        records.Cancel: "_cancel",
        records.CreateRepository: "_create_repository",
        records.DeleteRepository: "_delete_repository",
        records.SetProtection: "_set_protection",
        records.CreateBranch: "_create_branch",
        records.DeleteBranch: "_delete_branch",
        records.CreateTag: "_create_tag",
        records.DeleteTag: "_delete_tag",
        records.SinkRewind: "_sink_rewind",
        records.GcFence: "_gc_fence",
        records.Condemn: "_condemn",
        records.Atomic: "_atomic",
        records.Version: "_version",
    }

    def _cancel(self, cancel: Cancel) -> Result | Plan:
        return Result(Status.CANCELLED)

    def _version(self, version: Version) -> Result | Plan:
        def switched() -> Result:
            self.version, self.limits = max(self.version, version.version), version.limits
            for repository in self.repositories.values():
                self.forget_touched(repository)
            return Result(Status.OK, detail=str(self.version))

        return switched

    def _atomic(self, atomic: Atomic) -> Result | Plan:
        """L13: verify all, then apply all. One instance each, so that no part changes what another was verified on."""
        parts = [msgspec.structs.replace(part, request=_part(atomic.request)) for part in atomic.records]
        named = [name for part in parts for name in _named(part)]
        if len(set(named)) < len(named):
            return Result(Status.MALFORMED, detail="an instance is named twice")
        plans: list[Plan] = []
        for part in parts:
            outcome = self._verify(part)
            if isinstance(outcome, Result):
                return outcome
            plans.append(outcome)

        def applied() -> Result:
            results = [plan() for plan in plans]
            return Result(Status.OK, next((each.commit for each in results if each.commit), records.CommitId("")))

        return applied

    # invariants

    def check(self) -> None:
        """Assert the parts of I5 and I12 that one member can see, and that the sum is the sum over the state."""
        assert sum(self.items()) % (1 << 128) == self.total.value, "L17: the state's sum is wrong"
        for branch in self.branches.values():
            tokens = branch.tokens
            assert len(set(tokens)) == len(tokens), f"I5: a token comes twice: {tokens}"
            assert all(not area.memtable for area in branch.areas[:-1]), "I5: a sealed area has a memtable"
        assert len(self.requests) <= self.limits.requests_max, "I12"
        for repository in self.repositories.values():
            assert len(repository.touched) <= self.limits.touched_max, "I12"


def _part(request: Request) -> Request:
    """A part of an ATOMIC has no request of its own, so no attempt is ever its own either."""
    return Request("", request.issued)


def _named(part: Any) -> list[tuple[str, ...]]:
    """Return the names that a part changes."""
    match part:
        case records.CreateBranch():
            return [("name", part.repository, part.name), ("branch", part.instance)]
        case records.CreateTag():
            return [("tag", part.repository, part.name)]
        case records.DeleteTag():
            return [("tag", part.instance)]
        case _:
            return [("branch", part.instance)]
