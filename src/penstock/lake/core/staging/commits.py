"""ANNOUNCE, PERFORM, ABORT, EXTEND: how the head of a branch moves. Design: lake.md L7 to L10, L13 to L15.

An announcement seals the uncommitted changes and says which of them a commit will cover; it locks nothing. Correctness
rests on PERFORM alone: it takes effect only if the head is still its parent and its areas are still the oldest ones. A
merge, a revert, an import or a sink is a PERFORM without an announcement and without areas.
"""

import msgspec

from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.branch import Attempt, Branch, SinkState
from penstock.lake.core.staging.changes import Changes
from penstock.lake.core.staging.records import (
    Abort,
    Announce,
    Extend,
    HardReset,
    Perform,
    SinkPart,
    SinkRewind,
    StagingToken,
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import Plan

__all__ = ["Commits"]


TTL_NS_MAX = 24 * 3600 * 1_000_000_000


def _bounded(ttl_ns: int) -> int:
    """Whatever a record says, its attempt ends within a day, unless it is extended (I12)."""
    return max(0, min(ttl_ns, TTL_NS_MAX))


class Commits(Changes):
    """The rules of heads."""

    # ANNOUNCE

    def _announce(self, announce: Announce) -> Result | Plan:
        branch = self.branches.get(announce.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        live = self.attempts.get(announce.request.id)
        if live is not None and live.number > announce.attempt:
            return Result(Status.SUPERSEDED, detail=str(live.number))
        if live is not None and live.number == announce.attempt:
            return Result(Status.ANNOUNCED, live.parent, live.range)
        blocked = self.is_blocked(branch, "commit")
        if blocked is not None:
            return blocked
        if announce.expected_head not in (None, branch.head):
            return Result(Status.PRECONDITION_FAILED, branch.head)
        if announce.token in branch.tokens:
            return Result(Status.STALE_TOKEN)
        if live is None and len(self.attempts) >= self.limits.attempts_max:
            return Result(Status.BUSY)
        return lambda: self._seal(branch, announce)

    def _seal(self, branch: Branch, announce: Announce) -> Result:
        """Seal the areas. The state, not the record, decides which are covered: all of them, so a dead proposer orphans
        nothing.
        """
        covered = branch.tokens
        if len(branch.last):
            self._flush(branch)
            with self.changing(branch):
                branch.areas.append(StagingArea(branch.instance, announce.token))
        else:
            covered = covered[:-1]  # an empty area need not be sealed
        attempt = Attempt(
            announce.request,
            announce.attempt,
            branch.instance,
            branch.head,
            covered,
            self.now + _bounded(announce.ttl_ns),
            self.repositories[branch.repository].gce,
        )
        self.set_attempt(announce.request.id, attempt)
        return Result(Status.ANNOUNCED, attempt.parent, attempt.range)

    # PERFORM

    def _perform(self, perform: Perform) -> Result | Plan:
        branch = self.branches.get(perform.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        refusal = self._refuse_attempt(perform)
        if refusal is None and perform.sink is not None:
            refusal = self._refuse_sink(branch, perform.sink)
        if refusal is None:
            refusal = self._refuse_protected(branch, perform)
        if refusal is None and not self._fits(branch, perform):
            refusal = Result(Status.LOST, branch.head, self._rest(branch, perform))
        if refusal is None and perform.is_clean and branch.rows:
            refusal = Result(Status.DIRTY)
        return refusal or self._refuse_garbage(branch, perform) or (lambda: self._move(branch, perform))

    def _refuse_attempt(self, perform: Perform) -> Result | None:
        live = self.attempts.get(perform.request.id)
        if perform.attempt is None:
            is_head_move = not perform.range and live is None
            return None if is_head_move else Result(Status.MALFORMED, detail="a range without an attempt")
        if live is None or live.instance != perform.instance:
            return Result(Status.ABORTED)
        return None if live.number == perform.attempt else Result(Status.SUPERSEDED, detail=str(live.number))

    def _refuse_protected(self, branch: Branch, perform: Perform) -> Result | None:
        """Refuse a commit of staged changes, and a sink's batch. Merges are the way into a protected branch."""
        is_direct = perform.attempt is not None or perform.sink is not None
        return self.is_blocked(branch, "commit") if is_direct else None

    def _fits(self, branch: Branch, perform: Perform) -> bool:
        return perform.parent == branch.head and perform.range == branch.tokens[:-1][: len(perform.range)]

    def _rest(self, branch: Branch, perform: Perform) -> tuple[StagingToken, ...]:
        live = self.attempts.get(perform.request.id)
        return () if live is None else tuple(token for token in live.range if token in branch.tokens)

    def _refuse_garbage(self, branch: Branch, perform: Perform) -> Result | None:
        """L15: its own files must be young enough, and it must refer to nothing condemned."""
        repository = self.repositories[branch.repository]
        live = self.attempts.get(perform.request.id)
        epoch = perform.link_epoch if live is None else min(perform.link_epoch, live.gce)
        if not perform.is_empty and epoch < repository.link_floor:
            return Result(Status.STALE_GC)
        if all(self.may_reference(repository, commit) for commit in perform.sources):
            return None
        return Result(Status.EXPIRED_COMMIT if live is None else Status.STALE_GC)

    def _move(self, branch: Branch, perform: Perform) -> Result:
        for commit in perform.sources:
            self.touch(self.repositories[branch.repository], commit)
        if perform.range:
            self.replace_areas(branch, branch.areas[len(perform.range) :])
        if perform.is_empty:
            result = Result(Status.NO_CHANGES, branch.head)
        else:
            with self.changing(branch):
                branch.head = perform.commit
            result = Result(Status.OK, perform.commit)
        if perform.sink is not None:
            self.set_sink(branch, perform.sink.query, SinkState(perform.sink.batch, perform.sink.end, result.commit))
        return result

    # sinks (L14)

    def _refuse_sink(self, branch: Branch, sink: SinkPart) -> Result | None:
        """Only the batch after the last one commits, and only if it begins where that one ended."""
        last = branch.sinks.get(sink.query)
        if last is None:
            return None
        if sink.batch < last.batch:
            return Result(Status.ALREADY)
        if sink.batch == last.batch:
            return Result(Status.OK, last.commit) if sink.end == last.end else Result(Status.FENCED)
        is_next = sink.batch == last.batch + 1 and self._continues(last, sink)
        return None if is_next else Result(Status.FENCED)

    def _continues(self, last: SinkState, sink: SinkPart) -> bool:
        return sink.start == last.end

    def _sink_rewind(self, rewind: SinkRewind) -> Result | Plan:
        branch = self.branches.get(rewind.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        state = None if rewind.batch is None else SinkState(rewind.batch, rewind.end, branch.head)

        def rewound() -> Result:
            self.set_sink(branch, rewind.query, state)
            return Result(Status.OK)

        return rewound

    # the end of an attempt

    def _abort(self, abort: Abort) -> Result | Plan:
        live = self.attempts.get(abort.request.id)
        if live is not None and live.number != abort.attempt:
            return Result(Status.SUPERSEDED, detail=str(live.number))
        if live is not None and not abort.by_owner and self.now < live.deadline:
            return Result(Status.NOT_YET)
        return Result(Status.ABORTED)

    def _extend(self, extend: Extend) -> Result | Plan:
        live = self.attempts.get(extend.request.id)
        if live is None or live.number != extend.attempt:
            return Result(Status.SUPERSEDED, detail="" if live is None else str(live.number))

        def extended() -> Result:
            deadline = max(live.deadline, self.now + _bounded(extend.ttl_ns))
            self.set_attempt(extend.request.id, msgspec.structs.replace(live, deadline=deadline))
            return Result(Status.EXTENDED)

        return extended

    # HARD_RESET

    def _hard_reset(self, reset: HardReset) -> Result | Plan:
        branch = self.branches.get(reset.instance)
        if branch is None:
            return Result(Status.NO_BRANCH)
        blocked = self.is_blocked(branch, "commit", "staging_write")
        if blocked is not None:
            return blocked
        repository = self.repositories[branch.repository]
        if not self.may_reference(repository, reset.commit):
            return Result(Status.EXPIRED_COMMIT)
        if reset.token in branch.tokens:
            return Result(Status.STALE_TOKEN)

        def moved() -> Result:
            self.touch(repository, reset.commit)
            self.replace_areas(branch, [StagingArea(branch.instance, reset.token)])
            with self.changing(branch):
                branch.head = reset.commit
            return Result(Status.OK, reset.commit)

        return moved
