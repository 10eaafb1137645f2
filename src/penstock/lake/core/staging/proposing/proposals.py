"""The proposer: commits and head moves from request to reply, as a state machine. Design: lake.md L7 to L10, L13, L15.

A commit is announced, built by the shell, and performed. Correctness rests on PERFORM alone, so a proposer may die
anywhere: any member aborts its attempt after its deadline, and its changes stay uncommitted.

- A lost race is not built again: the finished metarange is laid over the new head (L9). It then refers to objects of
  the old parent too, so that one is named among the sources (decision 404).
- If a reset of a path has changed an area of the attempt, the rest of the range is not everything that must be
  committed: it is announced again (403).
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from penstock.kernel.effects import Effect, Reply, Requested, SetTimer
from penstock.kernel.ids import Instant, RequestId
from penstock.kernel.probes import reached
from penstock.lake.core.staging.branch import Attempt
from penstock.lake.core.staging.proposing.port import Build, BuildFailed, BuildMove, Built, Commit, Move, Rebuild
from penstock.lake.core.staging.records import (
    Abort,
    Announce,
    Changing,
    CommitId,
    Extend,
    Instance,
    Perform,
    Request,
    StagingToken,
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.snapshot import Snapshot

if TYPE_CHECKING:
    from penstock.lake.core.staging.proposing.member import Member

__all__ = ["Proposal", "ProposalPhase", "Proposals"]

LOSSES_BEFORE_BACKOFF = 3
NO_COMMIT = CommitId("")
NO_TOKEN = StagingToken("")
NEVER = Instant(0)
BACKOFF_DOUBLINGS_MAX = 6


class ProposalPhase(Enum):
    """What a proposal waits for."""

    SYNCING = "syncing"  # a head move's fresh view
    IN_LINE = "in-line"  # a head move's turn to be built
    ANNOUNCING = "announcing"
    BUILDING = "building"
    PERFORMING = "performing"
    BACKING_OFF = "backing-off"  # waits before it continues
    ENDING = "ending"  # its ABORT or CANCEL


@dataclass(slots=True)
class Proposal:
    """One commit or head move under way on this member."""

    waiting: RequestId
    wish: Commit | Move
    phase: ProposalPhase
    attempt: int = 0
    parent: CommitId = NO_COMMIT
    range: tuple[StagingToken, ...] = ()
    opened: StagingToken = NO_TOKEN  # the area after the range: changes made before it must be committed
    link_epoch: int = 0
    snapshot: Snapshot | None = None  # of the announcement
    built: Built | None = None
    old_parents: tuple[CommitId, ...] = ()
    losses: int = 0
    is_rested: bool = False  # it has backed off since it last lost
    is_on_tip: bool = False  # its parent was not applied when it began to be built
    chain: int = 0
    wants_head: bool = False  # it failed on such a parent: only the branch's head may judge it
    extended_at: Instant = NEVER


@dataclass(slots=True)
class BranchLine:
    """The head moves of one branch on this member, in order. One is built at a time, on the commit of the one before.

    A move does not wait until the one before is applied: its PERFORM names the parent, so it takes effect only there.
    """

    moves: dict[RequestId, Proposal] = field(default_factory=dict)
    building: RequestId | None = None
    tip: CommitId | None = None  # the newest commit whose PERFORM is on its way; none: the branch's head
    chain: int = 0  # moves of one chain are built on each other

    def lose(self, move: Proposal) -> None:
        """Begin a new chain on the branch's head: a move of this chain was not applied."""
        if move.chain == self.chain:
            self.tip, self.chain = None, self.chain + 1


class Proposals:
    """All proposals of a member."""

    def __init__(self, member: "Member") -> None:
        self.member = member
        self._proposals: dict[RequestId, Proposal] = {}
        self._lines: dict[Instance, BranchLine] = {}

    def __contains__(self, waiting: RequestId) -> bool:
        return waiting in self._proposals

    def request_of(self, waiting: RequestId) -> Request | None:
        proposal = self._proposals.get(waiting)
        return None if proposal is None else proposal.wish.request

    def end(self, waiting: RequestId, now: Instant) -> list[Effect]:
        """Do nothing else for a proposal whose CANCEL is on its way. The next in its line begins."""
        proposal = self._proposals.get(waiting)
        if proposal is None:
            return []
        proposal.phase = ProposalPhase.ENDING
        return self._leave(proposal, now)

    def forget(self, waiting: RequestId, now: Instant) -> list[Effect]:
        """Drop a proposal that has its result. The next in its line begins."""
        proposal = self._proposals.pop(waiting, None)
        return [] if proposal is None else self._leave(proposal, now)

    def owns(self, attempt: Attempt) -> bool:
        """Return whether the attempt belongs to a live proposal of this member."""
        return any(
            each.wish.request.id == attempt.request.id and each.attempt == attempt.number
            for each in self._proposals.values()
        )

    # begin

    def begin(self, waiting: RequestId, wish: Commit | Move, now: Instant) -> list[Effect]:
        if isinstance(wish, Move):
            self._proposals[waiting] = Proposal(waiting, wish, ProposalPhase.SYNCING)
            return self.member.join_sync(Requested(waiting, wish), now)
        live = self.member.machine.attempts.get(wish.request.id)
        attempt = 0 if live is None else live.number + 1
        self._proposals[waiting] = Proposal(waiting, wish, ProposalPhase.ANNOUNCING, attempt, extended_at=now)
        return self._announce(self._proposals[waiting], now)

    def _announce(self, proposal: Proposal, now: Instant) -> list[Effect]:
        wish = proposal.wish
        assert isinstance(wish, Commit)
        proposal.built, proposal.old_parents = None, ()
        if not self.member.is_present:
            return self._back_off(proposal, now)  # a deadline set in the past would be over at once
        proposal.phase = ProposalPhase.ANNOUNCING
        token = StagingToken(f"{wish.request.id}/{proposal.attempt}/{self.member.boot}")
        record = Announce(wish.request, wish.instance, proposal.attempt, token, wish.ttl_ns, wish.expected_head)
        return self._send(proposal, record, now)

    def _send(self, proposal: Proposal, record: Changing, now: Instant) -> list[Effect]:
        return self.member.send(proposal.waiting, record, now)

    def on_synced(self, waiting: RequestId, now: Instant) -> list[Effect]:
        """A head move has a fresh view."""
        proposal = self._proposals.get(waiting)
        if proposal is None or proposal.phase is not ProposalPhase.SYNCING:
            return []
        return self._join(proposal, now)

    # the line of a branch

    def _join(self, proposal: Proposal, now: Instant) -> list[Effect]:
        """Wait for a turn to be built. A move that has lost a race keeps its place."""
        proposal.phase = ProposalPhase.IN_LINE
        self._lines.setdefault(proposal.wish.instance, BranchLine()).moves[proposal.waiting] = proposal
        return self._advance(proposal.wish.instance, now)

    def _leave(self, proposal: Proposal, now: Instant) -> list[Effect]:
        line = self._lines.get(proposal.wish.instance)
        if line is None or line.moves.pop(proposal.waiting, None) is None:
            return []
        if proposal.built is not None and line.tip == proposal.built.commit:
            line.tip = None  # the branch's head has it, or never will
        return self._pass_on(proposal, now)

    def _pass_on(self, proposal: Proposal, now: Instant) -> list[Effect]:
        """Let the next move be built."""
        line = self._lines[proposal.wish.instance]
        if line.building == proposal.waiting:
            line.building = None
        return self._advance(proposal.wish.instance, now)

    def _advance(self, instance: Instance, now: Instant) -> list[Effect]:
        line = self._lines.get(instance)
        if line is not None and not line.moves:
            del self._lines[instance]
        if line is None or line.building is not None:
            return []
        ready = (each for each in line.moves.values() if each.phase is ProposalPhase.IN_LINE)
        following = next((each for each in ready if line.tip is None or not each.wants_head), None)
        if following is None:
            return []
        line.building, following.chain = following.waiting, line.chain
        return self._build_move(following, line.tip, now)

    # build

    def _build_move(self, proposal: Proposal, tip: CommitId | None, now: Instant) -> list[Effect]:
        wish = proposal.wish
        assert isinstance(wish, Move)
        snapshot = self.member.machine.capture(wish.instance)
        if snapshot is None:
            return self._cancel(proposal, Status.NO_BRANCH.value, now)
        machine = self.member.machine
        gce = machine.repositories[machine.branches[wish.instance].repository].gce
        oldest = gce if wish.link_epoch is None else min(gce, wish.link_epoch)
        if tip is not None:
            reached("lake.built_on_a_tip")
        parent = snapshot.head if tip is None else tip
        proposal.phase, proposal.parent, proposal.link_epoch = ProposalPhase.BUILDING, parent, oldest
        proposal.built, proposal.is_on_tip, proposal.wants_head = None, tip is not None, False
        return [BuildMove(proposal.waiting, wish, gce, parent, snapshot)]

    def _on_announced(self, proposal: Proposal, announced: Result, now: Instant) -> list[Effect]:
        wish = proposal.wish
        assert isinstance(wish, Commit)
        snapshot = self.member.machine.capture(wish.instance)
        attempt = self.member.machine.attempts.get(wish.request.id)
        assert snapshot is not None
        assert attempt is not None
        if not set(announced.tokens) <= set(snapshot.tokens[:-1]):
            return self._announce_again(proposal, now)  # an old answer: some of it is committed or reset meanwhile
        proposal.phase, proposal.parent, proposal.range = ProposalPhase.BUILDING, announced.commit, announced.tokens
        proposal.snapshot, proposal.link_epoch = snapshot, attempt.gce
        proposal.opened = snapshot.tokens[len(announced.tokens)]
        return [Build(proposal.waiting, wish, proposal.attempt, attempt.gce, proposal.parent, snapshot, proposal.range)]

    def on_built(self, event: Built | BuildFailed, now: Instant) -> list[Effect]:
        proposal = self._proposals.get(event.waiting)
        if proposal is None or proposal.phase is not ProposalPhase.BUILDING:
            return []
        if isinstance(proposal.wish, Move):
            return self._on_move_built(proposal, event, now)
        if isinstance(event, Built):
            proposal.built = event
            return self._perform(proposal, now)
        proposal.phase = ProposalPhase.ENDING
        return self._send(proposal, Abort(proposal.wish.request, proposal.attempt, by_owner=True), now)

    def _on_move_built(self, proposal: Proposal, event: Built | BuildFailed, now: Instant) -> list[Effect]:
        line = self._lines[proposal.wish.instance]
        if proposal.is_on_tip and proposal.chain != line.chain:
            proposal.phase = ProposalPhase.IN_LINE
            return self._pass_on(proposal, now)
        if isinstance(event, BuildFailed):
            branch = self.member.machine.branches.get(proposal.wish.instance)
            if not proposal.is_on_tip or branch is None or branch.head == proposal.parent:
                return self._cancel(proposal, event.reason, now)
            reached("lake.failed_on_a_tip")  # a conflict with a commit that may never be is no answer
            proposal.phase, proposal.wants_head = ProposalPhase.IN_LINE, True
            return self._pass_on(proposal, now)
        proposal.built = event
        if not event.is_same or proposal.wish.allow_empty:
            line.tip = event.commit
        return [*self._perform(proposal, now), *self._pass_on(proposal, now)]

    def _cancel(self, proposal: Proposal, why: str, now: Instant) -> list[Effect]:
        return self.member.cancel(proposal.waiting, proposal.wish.request, why, now)

    # perform

    def _perform(self, proposal: Proposal, now: Instant, *, is_empty: bool = False) -> list[Effect]:
        wish, built = proposal.wish, proposal.built
        assert built is not None
        proposal.phase = ProposalPhase.PERFORMING
        is_move = isinstance(wish, Move)
        record = Perform(
            wish.request,
            wish.instance,
            proposal.parent,
            built.commit,
            proposal.link_epoch,
            None if is_move else proposal.attempt,
            proposal.range,
            built.metarange,
            (*built.sources, *proposal.old_parents),
            is_empty or (built.is_same and not wish.allow_empty),
            wish.is_clean if isinstance(wish, Move) else False,
            wish.sink if isinstance(wish, Move) else None,
        )
        return self._send(proposal, record, now)

    def on_result(self, waiting: RequestId, record: Changing, result: Result, now: Instant) -> list[Effect]:
        proposal = self._proposals[waiting]
        match result.status:
            case Status.ANNOUNCED:
                return self._on_announced(proposal, result, now)
            case Status.LOST:
                return self._on_lost(proposal, result, now)
            case Status.STALE_GC:
                reached("lake.commit_too_old")
                return self._start_over(proposal, now)
            case Status.SUPERSEDED | Status.BUSY | Status.NOT_YET:
                reached("lake.superseded")
                if isinstance(proposal.wish, Move):
                    self._lines[proposal.wish.instance].lose(proposal)
                return self._back_off(proposal, now)
            case _:
                return [Reply(waiting, result), *self.forget(waiting, now)]

    def _on_lost(self, proposal: Proposal, lost: Result, now: Instant) -> list[Effect]:
        """L9: lay the rest of the range over the new head."""
        if isinstance(proposal.wish, Move):
            return self._again(proposal, now)
        proposal.losses += 1
        if proposal.losses > LOSSES_BEFORE_BACKOFF and not proposal.is_rested:
            proposal.is_rested = True
            return self._back_off(proposal, now)
        proposal.is_rested = False
        if lost.tokens != self._older(proposal):
            reached("lake.announced_again")
            return self._announce_again(proposal, now)
        return self._rebuild(proposal, lost)

    def _older(self, proposal: Proposal) -> tuple[StagingToken, ...] | None:
        """Return all areas staged before the announcement, as they are now; None if they are no longer known."""
        tokens = self.member.machine.branches[proposal.wish.instance].tokens
        return tokens[: tokens.index(proposal.opened)] if proposal.opened in tokens else None

    def _rebuild(self, proposal: Proposal, lost: Result) -> list[Effect]:
        wish, built, snapshot = proposal.wish, proposal.built, proposal.snapshot
        assert isinstance(wish, Commit)
        assert built is not None
        assert snapshot is not None
        reached("lake.rebuilt" if lost.tokens else "lake.nothing_left")
        gone = tuple(token for token in proposal.range if token not in lost.tokens)
        effect = Rebuild(
            proposal.waiting,
            wish,
            proposal.attempt,
            proposal.link_epoch,
            built,
            proposal.parent,
            lost.commit,
            snapshot,
            gone,
            lost.tokens,
        )
        if proposal.parent not in proposal.old_parents:
            proposal.old_parents = (*proposal.old_parents, proposal.parent)
        proposal.phase, proposal.parent, proposal.range = ProposalPhase.BUILDING, lost.commit, lost.tokens
        return [effect]

    # continue later

    def _start_over(self, proposal: Proposal, now: Instant) -> list[Effect]:
        if isinstance(proposal.wish, Commit):
            return self._announce_again(proposal, now)
        if proposal.wish.link_epoch is not None:
            return self._cancel(proposal, Status.STALE_GC.value, now)  # its files must be uploaded again
        return self._again(proposal, now)

    def _again(self, proposal: Proposal, now: Instant) -> list[Effect]:
        """Build a head move on the branch's head, in its old place in the line. Moves after it are lost too."""
        self._lines[proposal.wish.instance].lose(proposal)
        return self._join(proposal, now)

    def _announce_again(self, proposal: Proposal, now: Instant) -> list[Effect]:
        live = self.member.machine.attempts.get(proposal.wish.request.id)
        proposal.attempt = max(proposal.attempt, -1 if live is None else live.number) + 1
        return self._announce(proposal, now)

    def _back_off(self, proposal: Proposal, now: Instant) -> list[Effect]:
        proposal.phase = ProposalPhase.BACKING_OFF
        doublings = min(proposal.losses, BACKOFF_DOUBLINGS_MAX)
        wait_ns = self.member.config.retry_ns << doublings
        return [SetTimer(str(proposal.waiting), Instant(now + wait_ns))]

    def on_retry(self, waiting: RequestId, now: Instant) -> list[Effect]:
        proposal = self._proposals[waiting]
        if proposal.phase is not ProposalPhase.BACKING_OFF:
            return []
        if isinstance(proposal.wish, Move):
            return self._again(proposal, now)
        if proposal.built is not None:
            return self._perform(proposal, now)  # it is lost again, with a newer head to build on
        return self._announce(proposal, now)

    def extend(self, now: Instant) -> list[Effect]:
        """Owners move their deadlines while they build."""
        effects: list[Effect] = []
        for proposal in self._proposals.values():
            wish = proposal.wish
            live = self.member.machine.attempts.get(wish.request.id)
            is_live = live is not None and live.number == proposal.attempt
            if isinstance(wish, Commit) and is_live and now - proposal.extended_at >= wish.ttl_ns // 3:
                proposal.extended_at = now
                effects += self.member.enqueue(Extend(wish.request, proposal.attempt, wish.ttl_ns))
        return effects

    def check(self) -> None:
        """Assert that a move waits in line only if another is being built, or if it waits for the branch's head."""
        for line in self._lines.values():
            assert line.building is None or line.building in line.moves, "a line waits for a move that has left it"
            for move in line.moves.values():
                assert (move.phase is ProposalPhase.BUILDING) == (move.waiting == line.building), (
                    "two moves are built at once"
                )
                is_held = line.building is not None or (move.wants_head and line.tip is not None)
                assert move.phase is not ProposalPhase.IN_LINE or is_held, "a move waits, and nothing will wake it"
