"""The operator of a shard: elections, reconfigurations, failure detection. Design: quorum-log.md P9, P11; "Election".

Nodes do as operators say; what an operator may say is decided by compare-and-set on the shard's metadata. Any number of
operators may run: they cost each other time, never data. What always holds:

- BecomeLeader(E) is sent to one node only, and only by the operator which wrote E in this run of its process. Taking
  over from another operator, or from an earlier run, always means a new epoch (`take_over`).
- COMMIT is written only after the leader reported Prepared; the change stays in the metadata until STEADY_STATE is
  written with the final ensemble.
- In STEADY_STATE an operator only watches (`watch.py` says when it has seen enough). Members without a cursor come back
  by Fence and AddFollower of this epoch.

How to run one: `begin` once, then `step` for every event. One timer drives it; requests are the bodies below.
"""

from enum import Enum
from typing import Any

import msgspec

from penstock.kernel.effects import Effect, Event, Received, Reply, Requested, Send, SetTimer, TimerFired
from penstock.kernel.errors import InvalidArgument, PenstockError, PreconditionFailed, Unavailable
from penstock.kernel.ids import EntryId, Epoch, Instant, NodeId, RequestId, Revision
from penstock.kernel.probes import reached
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.election import Election
from penstock.quorum.core.watch import LeaderWatch
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import (
    AddFollowerRequest,
    BecomeLeaderResponse,
    Change,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    DrainRequest,
    DrainResponse,
    FenceRequest,
    FenceResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    Reason,
    Refusal,
    Request,
    Response,
    Role,
)
from penstock.quorum.records.metadata import (
    Metadata,
    MetadataRead,
    MetadataWritten,
    PeerLost,
    ReadMetadata,
    Status,
    WriteMetadata,
)
from penstock.quorum.records.reconfiguration import Phase, final_ensemble, validate

__all__ = ["Elect", "Operator", "Reconfigure"]

TICK = "tick"


class Elect(msgspec.Struct, frozen=True):
    """Hand the shard over, to this node if it is as far as any. Answered by the new `Metadata`.

    `aborts`: at once, also while a change is being prepared: the election drops it.
    """

    prefer: NodeId | None = None
    aborts: bool = False


class Reconfigure(msgspec.Struct, frozen=True):
    """Change the ensemble. Answered by the new `Metadata`, or an error if the change was dropped."""

    change: Change


class Activity(Enum):
    """What an operator is doing."""

    READING = "reading"  # it does not know the metadata
    WAITING = "waiting"  # another operator is at work: give it time
    WRITING = "writing"  # a compare-and-set is under way
    ELECTING = "electing"
    RECONFIGURING = "reconfiguring"
    DRAINING = "handing-over"  # the leader finishes its pending entries before the election
    WATCHING = "watching"


class Operator:
    """One operator of one shard."""

    election_class = Election
    watch_class = LeaderWatch

    def __init__(self, config: OperatorConfig | None = None) -> None:
        self.config = config or OperatorConfig()
        self.activity = Activity.READING
        self.metadata: Metadata | None = None
        self.revision = Revision(0)
        self.election: Election | None = None
        self.is_prepared = False  # the leader reported so, in this run of the process
        self.epoch_seen = Epoch(0)  # the highest a node has told us of
        self.waiting: list[tuple[RequestId, Change | None]] = []  # people who wait for an election or a change
        self._is_first_read = True
        self._writing: Metadata | None = None
        self._prefer: NodeId | None = None
        self._deadline = Instant(0)  # of the activity
        self._grace_ends: Instant | None = None
        self._fenced_at = Instant(0)
        self.leader_watch = self.watch_class(self.config)
        self._stalled: Member | None = None  # the leader which the next election passes over, if it can
        self._progress = 0  # of another operator's change
        self._change_ends = Instant(0)  # when that change has taken too long, progress or not
        self._number = 0  # of heartbeats
        self._number_trusted = 0  # answers to older ones tell of the time before this leader
        self._effects: list[Effect] = []

    def begin(self, now: Instant) -> list[Effect]:
        """Return the effects of the start."""
        return [ReadMetadata(), SetTimer(TICK, Instant(now + self.config.heartbeat_ns))]

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take one event; return the effects, in order."""
        match event:
            case Received(sender, Response() as response):
                self._on_response(Member(sender, response.sender), response, now)
            case MetadataRead(metadata, revision):
                self._on_read(metadata, revision, now)
            case MetadataWritten(is_written, revision):
                self._on_written(is_written, revision, now)
            case TimerFired(name) if name == TICK:
                self._on_tick(now)
            case PeerLost(node, is_refused):
                self._on_peer_lost(node, now, is_refused=is_refused)
            case Requested(request, body):
                self._on_request(request, body, now)
            case _:
                raise InvalidArgument(f"an operator does not know {event}")
        effects, self._effects = self._effects, []
        return effects

    # metadata

    def _on_read(self, metadata: Metadata | None, revision: Revision, now: Instant) -> None:
        is_first, self._is_first_read = self._is_first_read, self._is_first_read and metadata is None
        if metadata is None or self._writing is not None or revision < self.revision:
            return
        if revision == self.revision and self.activity not in (Activity.READING, Activity.WAITING):
            if self.activity is Activity.WATCHING and self.epoch_seen > metadata.epoch:
                # a node is ahead, and no operator has raised it: this is the only way to a leader
                self.start_election(now)
            return
        is_news = revision != self.revision
        self.metadata, self.revision = metadata, revision
        self.election = None
        if metadata.status is Status.STEADY_STATE:
            self._watch(now)
        elif is_first or (not is_news and now >= self._deadline):
            self.take_over(now)
        elif is_news:
            self._wait(metadata, now)

    def _wait(self, metadata: Metadata, now: Instant) -> None:
        """Leave the shard to another operator, for as long as it gets on (O12)."""
        if self.activity is not Activity.WAITING or metadata.status is not Status.RECONFIGURATION:
            self._change_ends, self._progress = Instant(now + self.config.reconfiguration_ns), 0
        self.activity, self._deadline = Activity.WAITING, Instant(now + self.leader_watch.patience())

    def take_over(self, now: Instant) -> None:
        """P9: an epoch another operator wrote, or an earlier run of this one, is never resumed."""
        reached("operator.take_over")
        self.start_election(now)

    def _write(self, metadata: Metadata) -> None:
        assert self._writing is None, "one compare-and-set at a time"
        self._writing = metadata
        self.activity = Activity.WRITING
        self._effects.append(WriteMetadata(metadata, self.revision))

    def _on_written(self, is_written: bool, revision: Revision, now: Instant) -> None:
        written, self._writing = self._writing, None
        if not is_written or written is None:
            reached("operator.lost_race")
            self._tell_lost_race(written)
            self.election, self.activity = None, Activity.READING
            self._effects.append(ReadMetadata())
            return
        self.metadata, self.revision = written, revision
        if written.status is Status.ELECTION:
            self._fence(written, now)
        elif written.status is Status.STEADY_STATE:
            self._watch(now)
        else:
            self.activity = Activity.RECONFIGURING
            self._go_on_reconfiguring(written)

    def _tell_lost_race(self, written: Metadata | None) -> None:
        """Refuse the changes that wait: another operator wrote first, and they were not begun."""
        if written is None or written.reconfiguration is None or written.reconfiguration.phase is not Phase.PREPARE:
            return
        for request, change in self.waiting:
            if change is not None:
                refusal = PreconditionFailed("the shard changed at the same moment", next_step="try again")
                self._effects.append(Reply(request, refusal))
        self.waiting = [each for each in self.waiting if each[1] is None]

    def _watch(self, now: Instant) -> None:
        """There is a leader: from now on its silence counts."""
        assert self.metadata is not None
        self.activity = Activity.WATCHING
        self._number_trusted = self._number
        self.leader_watch.begin(now)
        self._prefer = self._stalled = None
        if self.election is not None:
            for member, head in self.election.heads.items():
                self._add_follower(self.metadata, member, head)
        self.election = None
        for request, change in self.waiting:
            self._effects.append(Reply(request, self._outcome(self.metadata, change)))
        self.waiting.clear()

    def _outcome(self, metadata: Metadata, change: Change | None) -> Metadata | PenstockError:
        if change is None or set(metadata.ensemble) == set(final_ensemble(metadata.ensemble, change)):
            return metadata
        return PreconditionFailed("the change was dropped by an election", next_step="try again")

    # elections

    def start_election(self, now: Instant) -> None:
        if self._writing is None and self.metadata is not None:
            self.leader_watch.elections += 1
            self._deadline = Instant(now + self.leader_watch.patience())
            self._write(self.election_metadata(self.metadata))

    def election_metadata(self, metadata: Metadata) -> Metadata:
        """The next epoch. A change in COMMIT stays in it."""
        return metadata.in_election(Epoch(max(metadata.epoch, self.epoch_seen) + 1))

    def _fence(self, metadata: Metadata, now: Instant) -> None:
        self.activity = Activity.ELECTING
        self._deadline = Instant(now + self.leader_watch.patience())
        self._grace_ends = None
        self._fenced_at = now
        self.election = self.election_class(metadata, self._prefer, self._stalled)
        self._prefer = self._stalled = None
        self._send_fences()

    def _send_fences(self) -> None:
        assert self.election is not None
        for member, request in self.election.fences():
            self._send(member, request)

    def _on_fenced(self, member: Member, response: FenceResponse, now: Instant) -> None:
        metadata, election = self.metadata, self.election
        if metadata is None or response.epoch != metadata.epoch:
            return
        if election is None:
            self._add_follower(metadata, member, response.head)
        elif (
            election.fenced(member, response.head, is_diverged=response.is_diverged)
            and election.chosen is None
            and election.has_quorum()
        ):
            if self._grace_ends is None:
                self._grace_ends = Instant(now + self.config.grace_ns)
            self._maybe_choose(now)

    def _maybe_choose(self, now: Instant) -> None:
        election = self.election
        assert election is not None
        if self._grace_ends is None or not election.has_quorum():
            return
        if election.is_complete() or (now >= self._grace_ends and not self._waits_for_another(election, now)):
            self._tell_chosen()

    def _waits_for_another(self, election: Election, now: Instant) -> bool:
        """Is it worth waiting for the answer of the successor (O14), or of anybody but the stalled leader (O13)?"""
        waited = now - self._fenced_at
        if election.is_only_stalled() and waited < self.config.failure_ns:
            return True
        return self.waits_for_successor(election) and waited < self.config.successor_ns

    def waits_for_successor(self, election: Election) -> bool:
        """Has the node that should lead not answered yet?"""
        answered = {member.node for member in election.heads}
        members = {member.node for member in election.final_ensemble()}
        return election.prefer is not None and election.prefer in members - answered

    def _tell_chosen(self) -> None:
        assert self.election is not None
        member, request = self.election.choose()
        self._send(member, request)

    def _on_leading(self, member: Member, epoch: Epoch) -> None:
        election = self.election
        if election is not None and election.chosen == member and election.metadata.epoch == epoch:
            election.is_led = True
            if self._writing is None:
                self._write(election.metadata.elected(member))

    # followers which come late, or come back

    def _add_follower(self, metadata: Metadata, member: Member, head: EntryId | None) -> None:
        leader = metadata.leader
        if leader is not None and member != leader and member in metadata.ensemble:
            self._send(leader, AddFollowerRequest(metadata.epoch, leader.incarnation, member, head))

    def _bring_back(self, metadata: Metadata, followers: tuple[Member, ...]) -> None:
        """Fence every voter without a cursor into this epoch; its answer lets it follow."""
        reconfiguration = metadata.reconfiguration
        removed = reconfiguration.change.old if reconfiguration is not None else None
        for member in metadata.ensemble:
            if member not in (metadata.leader, removed) and member not in followers:
                self._send(member, FenceRequest(metadata.epoch, member.incarnation))

    # reconfigurations

    def _go_on_reconfiguring(self, metadata: Metadata) -> None:
        """Ask the leader for the next step, as often as it takes."""
        assert metadata.leader is not None
        assert metadata.reconfiguration is not None
        leader, change = metadata.leader, metadata.reconfiguration.change
        if metadata.reconfiguration.phase is Phase.COMMIT:
            self._send(leader, CommitReconfigurationRequest(metadata.epoch, leader.incarnation, change))
            return
        self._send(leader, PrepareReconfigurationRequest(metadata.epoch, leader.incarnation, change))
        self._maybe_write_commit(metadata)

    def _maybe_write_commit(self, metadata: Metadata) -> None:
        if self.may_write_commit() and self._writing is None:
            self._write(metadata.committing_change())

    def may_write_commit(self) -> bool:
        """P11: an election over COMMIT trusts the final ensemble, so a majority of it must hold the barrier before."""
        return self.is_prepared

    def _on_change_response(self, member: Member, response: Response) -> None:
        metadata = self.metadata
        if (
            metadata is None
            or metadata.reconfiguration is None
            or self.activity is not Activity.RECONFIGURING
            or (member, response.epoch) != (metadata.leader, metadata.epoch)
        ):
            return
        if isinstance(response, PrepareReconfigurationResponse):
            if metadata.reconfiguration.phase is Phase.PREPARE:
                self.is_prepared = True
                self._maybe_write_commit(metadata)
        elif metadata.reconfiguration.phase is Phase.COMMIT:
            self._write(metadata.reconfigured())

    # responses

    def _on_response(self, member: Member, response: Response, now: Instant) -> None:
        match response:
            case FenceResponse():
                self._on_fenced(member, response, now)
            case BecomeLeaderResponse():
                self._on_leading(member, response.epoch)
            case PrepareReconfigurationResponse() | CommitReconfigurationResponse():
                self._on_change_response(member, response)
            case DrainResponse():
                self._on_drained(member, response, now)
            case HeartbeatResponse():
                self._on_alive(member, response, now)
            case Refusal():
                self._on_refusal(member, response, now)
            case _:
                pass

    def _on_refusal(self, member: Member, refusal: Refusal, now: Instant) -> None:
        metadata = self.metadata
        if metadata is None:
            return
        self._saw_epoch(refusal.epoch)
        if refusal.request_epoch != metadata.epoch:
            return
        if refusal.reason is Reason.NO_DATA and self.election is None:
            self._add_follower(metadata, member, None)
        elif refusal.reason is Reason.MAY_NOT_LEAD and self.election is not None and self.election.chosen == member:
            self.start_election(now)

    def _saw_epoch(self, epoch: Epoch) -> None:
        """A node knows a higher epoch than the metadata does: another operator's, or from a life before a restore."""
        assert self.metadata is not None
        if epoch > max(self.metadata.epoch, self.epoch_seen):
            self.epoch_seen = epoch
            self._effects.append(ReadMetadata())

    def _on_alive(self, member: Member, response: HeartbeatResponse, now: Instant) -> None:
        metadata = self.metadata
        if metadata is None:
            return
        self._saw_epoch(response.epoch)
        self.leader_watch.member_spoke(member, now)
        if self.activity is Activity.WAITING and member == metadata.leader and response.progress > self._progress:
            self._progress = response.progress
            self._deadline = min(Instant(now + self.leader_watch.patience()), self._change_ends)
        is_ours = self.activity in (Activity.WATCHING, Activity.RECONFIGURING) and member == metadata.leader
        if not is_ours or response.number <= self._number_trusted:
            return
        is_preparing = metadata.status is Status.RECONFIGURATION and response.epoch == metadata.epoch - 1
        if response.role is Role.LEADER and (response.epoch == metadata.epoch or is_preparing):
            self.leader_watch.leader_spoke(response, now)
            if not is_preparing:
                self._bring_back(metadata, response.followers)
            self._maybe_replace(metadata, member, response, now)
        elif response.epoch <= metadata.epoch:
            self.start_election(now)  # it has restarted, or learned of a higher epoch: it will not lead again

    def _maybe_replace(self, metadata: Metadata, leader: Member, response: HeartbeatResponse, now: Instant) -> None:
        """Replace a leader that makes no progress (O13), or that is about to go (O14)."""
        if self.leader_watch.is_stalled(response, leader, metadata.ensemble, now):
            reached("operator.replaces_stalled")
            self.leader_watch.stalls += 1
            self._stalled = self.stalled_candidate(leader)
            self.start_election(now)
        elif response.is_leaving and self.activity is Activity.WATCHING and len(metadata.ensemble) > 1:
            self._hand_over(None, now)

    def stalled_candidate(self, leader: Member) -> Member | None:
        """Return who should not lead next: its log is the longest, of entries that no majority has."""
        return leader

    def _on_peer_lost(self, node: NodeId, now: Instant, *, is_refused: bool) -> None:
        """A closed connection of the leader is a sign at once; a refused one says that its process has ended."""
        metadata = self.metadata
        is_watching = self.activity in (Activity.WATCHING, Activity.RECONFIGURING)
        if metadata is None or metadata.leader is None or not is_watching or metadata.leader.node != node:
            return
        if self.leader_watch.connection_lost(now, is_refused=is_refused):
            reached("operator.leader_refuses")
            self.start_election(now)
        else:
            self._number += 1
            self._send(metadata.leader, HeartbeatRequest(metadata.epoch, metadata.leader.incarnation, self._number))

    # hand-over (O14)

    def _hand_over(self, prefer: NodeId | None, now: Instant) -> None:
        """Let the leader finish its pending entries, so that the election leaves no client in doubt."""
        assert self.metadata is not None
        self._prefer = prefer
        leader = self.metadata.leader
        if leader is None or len(self.metadata.ensemble) == 1 or leader.node == prefer:
            self.start_election(now)
            return
        self.activity, self._deadline = Activity.DRAINING, Instant(now + self.config.drain_ns)
        self._ask_to_drain(leader)

    def _ask_to_drain(self, leader: Member) -> None:
        assert self.metadata is not None
        self._send(leader, DrainRequest(self.metadata.epoch, leader.incarnation, self._prefer))

    def _on_drained(self, member: Member, response: DrainResponse, now: Instant) -> None:
        metadata = self.metadata
        is_asked = metadata is not None and (member, response.epoch) == (metadata.leader, metadata.epoch)
        if self.activity is Activity.DRAINING and is_asked:
            reached("operator.drained")
            self._prefer = response.to.node
            self.start_election(now)

    # time

    def _on_tick(self, now: Instant) -> None:
        config = self.config
        self._deadline = Instant(self._deadline + self.leader_watch.tick(now))
        self._effects.append(SetTimer(TICK, Instant(now + config.heartbeat_ns)))
        is_late = now >= self._deadline
        match self.activity:
            case Activity.READING:
                self._effects.append(ReadMetadata())
            case Activity.WAITING:
                if is_late:
                    self._effects.append(ReadMetadata())
                elif self.metadata is not None and self.metadata.status is Status.RECONFIGURATION:
                    self._ask_for_progress(self.metadata)
            case Activity.ELECTING:
                self._go_on_electing(now, is_late=is_late)
            case Activity.WATCHING | Activity.RECONFIGURING:
                self._go_on_watching(now, is_late=is_late)
            case Activity.DRAINING:
                self._go_on_draining(now, is_late=is_late)
            case Activity.WRITING:
                pass

    def _go_on_electing(self, now: Instant, *, is_late: bool) -> None:
        assert self.election is not None
        if is_late:
            self.start_election(now)
        elif self.election.chosen is not None:
            self._tell_chosen()
        else:
            self._maybe_choose(now)
            self._send_fences()

    def _ask_for_progress(self, metadata: Metadata) -> None:
        assert metadata.leader is not None
        self._number += 1
        self._send(metadata.leader, HeartbeatRequest(metadata.epoch, metadata.leader.incarnation, self._number))

    def _go_on_draining(self, now: Instant, *, is_late: bool) -> None:
        assert self.metadata is not None
        if is_late or self.metadata.leader is None:
            self.start_election(now)
        else:
            self._ask_to_drain(self.metadata.leader)

    def _go_on_watching(self, now: Instant, *, is_late: bool) -> None:
        metadata = self.metadata
        assert metadata is not None
        is_reconfiguring = self.activity is Activity.RECONFIGURING
        if self.leader_watch.is_silent(now) or (is_reconfiguring and is_late):
            self.start_election(now)
            return
        self._number += 1
        for member in metadata.ensemble:
            self._send(member, HeartbeatRequest(metadata.epoch, member.incarnation, self._number))
        self._effects.append(ReadMetadata())  # a write whose answer was lost may have been made since we read it
        if is_reconfiguring:
            self._go_on_reconfiguring(metadata)

    # people

    def _on_request(self, request: RequestId, body: Any, now: Instant) -> None:
        metadata = self.metadata
        if isinstance(body, Elect) and body.aborts and self.may_abort():
            self.waiting.append((request, None))
            self.start_election(now)
            return
        if metadata is None or self.activity is not Activity.WATCHING:
            doing = self.activity.value
            self._effects.append(Reply(request, Unavailable(f"the operator is {doing}", next_step="try again")))
            return
        match body:
            case Elect(prefer):
                self.waiting.append((request, None))
                self._hand_over(prefer, now)
            case Reconfigure(change):
                try:
                    validate(metadata.ensemble, metadata.leader, change)
                except PreconditionFailed as refusal:
                    self._effects.append(Reply(request, refusal))
                    return
                self.waiting.append((request, change))
                self.is_prepared = False
                self._deadline = Instant(now + self.config.reconfiguration_ns)
                self._write(metadata.preparing(change))
            case _:
                raise InvalidArgument(f"an operator does not answer {type(body).__name__}")

    def may_abort(self) -> bool:
        """Is a change being prepared, by this operator or another one? In COMMIT it can only be finished."""
        reconfiguration = self.metadata.reconfiguration if self.metadata is not None else None
        is_idle = self.activity in (Activity.WATCHING, Activity.RECONFIGURING, Activity.WAITING)
        is_preparing = reconfiguration is not None and reconfiguration.phase is Phase.PREPARE
        return is_idle and (is_preparing or self.activity is Activity.WATCHING)

    def _send(self, member: Member, request: Request) -> None:
        self._effects.append(Send(member.node, request))

    # for observers

    def copy(self) -> "Operator":
        """An equal operator which shares nothing that changes."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.election = self.election.copy() if self.election is not None else None
        twin.waiting = list(self.waiting)
        twin.leader_watch = self.leader_watch.copy()
        twin._effects = []
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything except time that decides the operator's behaviour, as a hashable value."""
        return (
            self.activity, self.metadata, self.revision, self.is_prepared, self.epoch_seen, tuple(self.waiting),
            self._is_first_read, self._writing, self._prefer, self._stalled,
            self.election.fingerprint() if self.election is not None else None,
        )  # fmt: skip

    def check(self) -> None:
        """Assert the invariants of one operator."""
        assert (self._writing is not None) == (self.activity is Activity.WRITING)
        if self.election is not None and self.metadata is not None:
            assert self.election.metadata.epoch <= self.metadata.epoch
        if self.activity is Activity.ELECTING:
            assert self.election is not None
        if self.activity is Activity.WATCHING:
            assert self.metadata is not None
            assert self.metadata.status is Status.STEADY_STATE
