"""A node of a shard: fenced, follower or leader, as operators tell it. Design: quorum-log.md P9, P13, P14.

`Node.step` takes one event and returns the effects to carry out. The node checks identity and epoch, changes roles, and
lets the role do the rest: `leader.py`, `follower.py`; a fenced node does nothing. How to run one:

    node, effects = Node.recover(state, first, entries, config)   # at every start; run the effects
    effects = node.step(event, now)                               # for every event

The log's records are entries, numbered by their offsets. A durable effect is followed by durable ones only: the node
answers when the completion has come back as an event, so an answer never speaks for an epoch already left (I18).
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.kernel.effects import (
    Effect,
    Event,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    StateSaved,
    Stop,
    TimerFired,
    TruncateLog,
)
from penstock.kernel.errors import InvalidArgument, Unavailable
from penstock.kernel.ids import MILLISECOND, EntryId, Epoch, Instant, Lsn, NodeId, Offset, RequestId
from penstock.kernel.probes import reached
from penstock.quorum.core.config import NodeConfig
from penstock.quorum.core.follower import Follower
from penstock.quorum.core.leader import Leader
from penstock.quorum.core.log import Log
from penstock.quorum.core.reading.local_reads import LOCAL_READS, LocalReads
from penstock.quorum.core.reading.reads import QuorumRead
from penstock.quorum.core.reading.resolve import resolve
from penstock.quorum.core.replica import FOR_APPLY, Replica
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.effects import (
    Append,
    AppendRequest,
    Applied,
    LogRead,
    SnapshotRead,
    SnapshotRestored,
    SnapshotTaken,
    SnapshotWritten,
)
from penstock.quorum.records.entry import Entry
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    AddFollowerResponse,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    CommitReconfigurationRequest,
    DrainRequest,
    FenceRequest,
    FenceResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    PrepareReconfigurationRequest,
    Reason,
    Refusal,
    Request,
    Response,
    Role,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.resolution import Resolution, Resolve
from penstock.quorum.records.state import Comparison, NodeState

__all__ = ["Node", "diverged_error"]


def diverged_error(divergence: Comparison) -> Unavailable:
    """Return the error of a request for the state of a replica whose state machine is wrong."""
    return Unavailable(
        f"the state of this replica is wrong: {divergence}",
        next_step="ask another node; bring this one back: penstock quorum swap NODE NODE",
    )


class Node:
    """One member of one shard."""

    log_class = Log
    replica_class = Replica
    leader_class = Leader
    follower_class = Follower

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self.may_lead_epoch = Epoch(0)  # fenced into in this run of the process, and nothing done in it yet
        self.fenced_by: dict[NodeId, None] = {}  # operators who wait for our head
        self.is_leaving = False  # its process is about to end: operators hand its shard over
        self.contact_at = Instant(0)  # when its leader last sent it something
        self.has_failed = False  # a write failed: the content of the disk is unknown
        self.serves_reads = False  # since its start it has applied all it may have shown before (P12)
        self._local_reads = LocalReads(replica)

    @classmethod
    def recover(
        cls, state: NodeState, first: Offset, entries: Iterable[Entry], config: NodeConfig | None = None
    ) -> tuple["Node", list[Effect]]:
        """Return a node restored from its durable state: fenced, with nothing applied yet (I25)."""
        config = config or NodeConfig()
        log = cls.log_class(state.snapshot, state.confirmed, config.tail_bytes_max)
        is_replaced = not log.recover(first, entries)
        replica = cls.replica_class(state, log, config)
        replica.epoch = Epoch(max(replica.epoch, log.head.epoch))
        replica.restore()
        effects = replica.take_effects()
        if is_replaced:
            effects.append(TruncateLog(Lsn(first - 1)))
        return cls(replica), effects

    @property
    def role(self) -> Role:
        if self.leader is not None:
            return Role.LEADER
        return Role.FOLLOWER if self.follower is not None else Role.FENCED

    @property
    def epoch(self) -> Epoch:
        return self.replica.epoch

    @property
    def divergence(self) -> Comparison | None:
        """Why this replica's state machine is wrong, if a majority has found it so."""
        return self.replica.agreement.divergence

    @property
    def log(self) -> Log:
        return self.replica.log

    # events

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take one event; return the effects, in order."""
        assert not self.has_failed, "a node whose disk failed is at its end"
        match event:
            case Received(sender, message):
                self._on_message(sender, message, now)
            case Append(requests):
                self._on_append(requests, now)
            case Persisted(lsn):
                self._on_persisted(Offset(lsn))
            case StateSaved():
                self.replica.has_saved()
            case Applied():
                self._on_applied(event)
            case TimerFired(name):
                self._on_timer(name, now)
            case Requested(request, body):
                self._on_request(request, body, now)
            case PersistFailed(reason):
                self._on_persist_failed(reason)
            case _:
                self._on_storage_event(event)
        return self._settle(now)

    def _settle(self, now: Instant) -> list[Effect]:
        """Do everything that an event has made possible."""
        replica = self.replica
        if self.has_failed:
            return replica.take_effects()
        if self.leader is not None and self.divergence is not None:
            reached("node.diverged_leader_stepped_down")
            self._step_down()
        if self.leader is not None:
            self.leader.settle(now)
        elif self.follower is not None:
            self.follower.maybe_install()
            self.follower.answer()
        if self.fenced_by:
            self._answer_fences()
        if self.leader is None:
            replica.commit = Offset(max(replica.commit, self.log.confirmed))
        replica.apply(self.apply_limit())
        if self.leader is not None:
            self.leader.serve_reads()
        if not self.serves_reads:
            self._check_serves_reads()
        if self._local_reads.waiting and self.serves_reads and replica.agreement.is_trusted:
            self._local_reads.serve(self.resolve)
        return replica.take_effects()

    def apply_limit(self) -> Offset:
        """P4: only a leader applies by its commit index; everybody else by `confirmed`."""
        return self.leader.apply_limit() if self.leader is not None else self.log.confirmed

    def _on_storage_event(self, event: Event) -> None:
        match event:
            case LogRead() if event.purpose == FOR_APPLY:
                self._on_read_for_apply(event.first, event.entries)
            case LogRead() | SnapshotRead():
                if self.leader is not None:
                    self.leader.replication.on_read(event)
            case SnapshotRestored(head, checksum):
                if head == self.replica.snapshot.head:
                    self.replica.restored(checksum)
            case SnapshotTaken(snapshot):
                self.replica.took_snapshot(snapshot)
            case SnapshotWritten():
                self.replica.is_writing_snapshot = False
                if self.follower is not None:
                    self.follower.on_snapshot_written(event)
            case _:
                raise InvalidArgument(f"a node does not know {type(event).__name__}")

    def _on_timer(self, name: str, now: Instant) -> None:
        if name == LOCAL_READS:
            self._local_reads.expire(now)
        elif self.leader is not None:
            self.leader.on_timer(name, now)

    def _on_persisted(self, upto: Offset) -> None:
        self.log.made_durable(upto)
        if self.leader is not None:
            self.leader.on_durable()
        elif self.follower is not None:
            self.follower.on_durable()

    def _on_persist_failed(self, reason: str) -> None:
        """Stop after a failed write: the content of the disk is unknown, so this run of the process leads, follows and
        answers no more.
        """
        self._step_down()
        self.has_failed = True
        self.replica.emit(Stop(f"the log of {self.replica.member} cannot be written: {reason}"))

    def _on_applied(self, event: Applied) -> None:
        replica = self.replica
        if replica.is_restoring:
            return  # a snapshot has overtaken it
        replica.has_applied(event.upto, event.checksum)
        replica.agreement.compared(event.compared)
        if self.leader is not None:
            self.leader.on_applied(event)
        replica.maybe_take_snapshot()

    def _on_read_for_apply(self, first: Offset, entries: tuple[Entry, ...]) -> None:
        replica = self.replica
        if first == replica.applied + 1 and entries and not replica.is_restoring:
            replica.hand_over(first, entries)

    # messages

    def _on_message(self, sender: NodeId, message: Any, now: Instant) -> None:
        match message:
            case Request():
                refusal = self._why_not(message)
                if refusal is None:
                    self._on_request_of_peer(sender, message, now)
                else:
                    self._refuse(sender, message, refusal)
            case Response():
                self._on_response(sender, message, now)
            case _:
                raise InvalidArgument(f"not a message of this protocol: {type(message).__name__}")

    def _why_not(self, request: Request) -> Reason | None:
        """Why this request is not for us, if it is not (P14, P9)."""
        if not self.is_addressed(request):
            return Reason.OTHER_INCARNATION
        if not self.is_allowed_unformatted(request):
            return Reason.NO_DATA
        if self.is_stale(request):
            return Reason.HIGHER_EPOCH
        return None

    def is_addressed(self, request: Request) -> bool:
        return request.target == self.replica.member.incarnation

    def is_allowed_unformatted(self, request: Request) -> bool:
        """A node without data takes part by a snapshot, or by a fence while the shard never had a leader."""
        if self.replica.is_formatted or isinstance(request, SnapshotRequest | HeartbeatRequest):
            return True
        return isinstance(request, FenceRequest) and request.is_forming

    def is_stale(self, request: Request) -> bool:
        """A node obeys no request of a lower epoch than its own; a heartbeat is only a question."""
        return request.epoch < self.epoch and not isinstance(request, HeartbeatRequest)

    def _refuse(self, sender: NodeId, request: Request, reason: Reason) -> None:
        replica = self.replica
        name = type(request).__name__
        replica.send(sender, Refusal(self.epoch, replica.member.incarnation, name, reason, request.epoch))

    def _on_request_of_peer(self, sender: NodeId, message: Request, now: Instant) -> None:
        match message:
            case AddEntryRequest() | TruncateRequest() | SnapshotRequest():
                self.contact_at = now
                self._on_leaders_request(sender, message)
            case FenceRequest():
                self._on_fence(sender, message)
            case BecomeLeaderRequest():
                self._on_become_leader(sender, message, now)
            case HeartbeatRequest():
                self._on_heartbeat(sender, message, now)
            case AddFollowerRequest() | PrepareReconfigurationRequest() | CommitReconfigurationRequest():
                self._on_operators_request(sender, message)
            case DrainRequest():
                self._on_drain(sender, message, now)
            case _:
                raise InvalidArgument(f"not a request of this protocol: {type(message).__name__}")

    # fencing and leading

    def _on_fence(self, sender: NodeId, request: FenceRequest) -> None:
        """P9. A repeated fence is answered with the head, but gives no right to lead."""
        if request.epoch > self.epoch:
            self._step_down()
            self._enter(request.epoch)
            self.may_lead_epoch = request.epoch
            self.replica.is_formatted = True
            self.replica.save()
            self.fenced_by.clear()
        if self.leader is None:
            self.fenced_by[sender] = None

    def _answer_fences(self) -> None:
        """The head in the answer is durable and final: epoch saved, writes settled."""
        if not self.fence_is_settled():
            return
        replica, is_diverged = self.replica, self.divergence is not None
        incarnation = replica.member.incarnation
        for operator in self.fenced_by:
            replica.send(operator, FenceResponse(self.epoch, incarnation, self.fence_head(), is_diverged))
        self.fenced_by.clear()

    def fence_is_settled(self) -> bool:
        return self.replica.is_settled

    def fence_head(self) -> EntryId:
        return self.log.head

    def _on_become_leader(self, sender: NodeId, request: BecomeLeaderRequest, now: Instant) -> None:
        replica = self.replica
        if self.leader is None and not self.may_lead(request.epoch):
            self._refuse(sender, request, Reason.MAY_NOT_LEAD)
            return
        if replica.member not in request.ensemble:
            self._refuse(sender, request, Reason.NOT_A_MEMBER)
            return
        if self.leader is None:
            self._enter(request.epoch)
            self.leader = self.leader_class(replica, request.ensemble)
            self.leader.start(request.heads, now)
        replica.send(sender, BecomeLeaderResponse(self.epoch, replica.member.incarnation))

    def may_lead(self, epoch: Epoch) -> bool:
        """P9: fenced into this epoch in this run of the process, nothing done in it yet, and no wrong state."""
        if self.divergence is not None:
            return False
        return self.may_lead_epoch == epoch == self.epoch and self.replica.is_settled

    def _enter(self, epoch: Epoch) -> None:
        """Enter an epoch: nothing is said or done for a lower one any more; the right to lead is used up, or not yet
        given.
        """
        self.replica.epoch = epoch
        self.may_lead_epoch = Epoch(0)
        self.follower = None

    def _step_down(self) -> None:
        if self.leader is not None:
            self.leader.stop()
            self.leader = None
        self.may_lead_epoch = Epoch(0)

    # following

    def _on_leaders_request(self, sender: NodeId, request: AddEntryRequest | TruncateRequest | SnapshotRequest) -> None:
        """Handle a request of the leader of our epoch, or of a higher one: a reconfiguration raises it without
        a fence.
        """
        if request.epoch == self.epoch and self.leader is not None:
            return  # our own words, come back
        self._follow(sender, request.epoch)
        assert self.follower is not None
        match request:
            case AddEntryRequest():
                self.follower.on_add_entry(request)
            case TruncateRequest():
                self.follower.on_truncate(request)
            case SnapshotRequest():
                self.follower.on_snapshot(request)

    def _follow(self, leader: NodeId, epoch: Epoch) -> None:
        if epoch > self.epoch:
            reached("node.epoch_raised_by_leader")
            self._step_down()
            self._enter(epoch)
            self.fenced_by.clear()
            self.replica.save()
        if self.follower is None:
            self._enter(epoch)
            self.follower = self.follower_class(self.replica, leader)

    # what only a leader does

    def _on_operators_request(
        self,
        sender: NodeId,
        request: AddFollowerRequest | PrepareReconfigurationRequest | CommitReconfigurationRequest,
    ) -> None:
        leader = self.leader
        if leader is None:
            self._refuse(sender, request, Reason.NOT_LEADING)
            return
        match request:
            case AddFollowerRequest() if request.epoch == self.epoch:
                self._on_add_follower(sender, request, leader)
            case PrepareReconfigurationRequest():
                self._on_prepare(sender, request, leader)
            case CommitReconfigurationRequest(change=change) if request.epoch == self.epoch:
                if change == leader.last_change or (change == leader.change and leader.is_prepared()):
                    leader.commit_change(change, sender)
                else:
                    self._refuse(sender, request, Reason.NOT_PREPARED)
            case _:
                self._refuse(sender, request, Reason.NOT_LEADING)

    def _on_add_follower(self, sender: NodeId, request: AddFollowerRequest, leader: Leader) -> None:
        if leader.may_follow(request.follower):
            leader.add_follower(request.follower, request.head)
            incarnation = self.replica.member.incarnation
            self.replica.send(sender, AddFollowerResponse(self.epoch, incarnation, request.follower))
        else:
            self._refuse(sender, request, Reason.NOT_A_MEMBER)

    def _on_prepare(self, sender: NodeId, request: PrepareReconfigurationRequest, leader: Leader) -> None:
        if request.epoch == self.epoch and request.change == leader.change:
            leader.asked_by = sender  # again: it gets an answer when the change is prepared
        elif not self.may_prepare(request, leader):
            self._refuse(sender, request, Reason.NOT_READY)
        else:
            self._enter(request.epoch)
            self.replica.save()
            leader.prepare(request.change, sender)

    def may_prepare(self, request: PrepareReconfigurationRequest, leader: Leader) -> bool:
        """P11: the ACTIVE leader of the epoch before, its barrier committed and applied; it never removes itself."""
        is_next = request.epoch == self.epoch + 1
        is_applied = leader.has_barrier and self.replica.applied >= leader.barrier
        return is_next and is_applied and leader.change is None and leader.can_change(request.change)

    def _on_drain(self, sender: NodeId, request: DrainRequest, now: Instant) -> None:
        if self.leader is None or request.epoch != self.epoch:
            self._refuse(sender, request, Reason.NOT_LEADING)
        else:
            self.leader.on_drain(sender, request.to, now)

    def _on_heartbeat(self, sender: NodeId, request: HeartbeatRequest, now: Instant) -> None:
        replica, leader = self.replica, self.leader
        response = HeartbeatResponse(
            self.epoch, replica.member.incarnation, request.number, self.role, self.log.durable_head, replica.commit,
            is_diverged=self.divergence is not None,
        )  # fmt: skip
        if leader is not None:
            response = msgspec.structs.replace(
                response,
                followers=tuple(leader.replication.links),
                quorum_age_ms=leader.quorum_age_ns(now) // MILLISECOND,
                progress=leader.progress(),
                is_leaving=self.is_leaving,
            )
        replica.send(sender, response)

    def _on_response(self, sender: NodeId, message: Response, now: Instant) -> None:
        """Only a leader asks nodes, and only answers of its own epoch count; a refusal may tell of a higher one."""
        leader = self.leader
        if leader is None:
            return
        member = Member(sender, message.sender)
        match message:
            case AddEntryResponse() if message.epoch == self.epoch:
                leader.on_add_entry_response(member, message, now)
            case TruncateResponse() if message.epoch == self.epoch:
                leader.on_truncated(member, message, now)
            case SnapshotResponse() if message.epoch == self.epoch:
                leader.on_snapshot_response(member, message, now)
            case Refusal() if message.epoch > self.epoch and member in leader.replication.links:
                reached("node.superseded")
                self._step_down()  # a node was fenced into a higher epoch: an election is under way, or over
            case _:
                pass

    # clients

    def _on_append(self, requests: Any, now: Instant) -> None:
        if self.leader is not None:
            self.leader.on_append(requests, now)
        else:
            refused: list[AppendRequest] = list(requests)
            ids = tuple(each.request for each in refused)
            self.replica.emit(Answers(Fate.NOT_LEADER, Epoch(0), ids, (Offset(0),) * len(ids)))

    def _on_request(self, request: RequestId, body: Any, now: Instant) -> None:
        match body:
            case Resolve(entry):
                self.replica.emit(Reply(request, self.resolve(entry)))
            case QuorumRead():
                self._on_read(request, body, now)
            case _:
                raise InvalidArgument(f"a node does not answer {type(body).__name__}")

    def _on_read(self, request: RequestId, read: QuorumRead, now: Instant) -> None:
        replica = self.replica
        if self.divergence is not None:
            replica.emit(Reply(request, diverged_error(self.divergence)))
        elif not read.is_linearizable:
            self._on_local_read(request, read, now)
        elif self.leader is None:
            replica.emit(Reply(request, Unavailable("this node does not lead")))
        else:
            self.leader.on_read(request, now)

    def _on_local_read(self, request: RequestId, read: QuorumRead, now: Instant) -> None:
        """A node that was removed, or cut off for long, does not know how old its state is."""
        if self.leader is None and self.serves_reads and now - self.contact_at > self.replica.config.local_read_ns:
            lost = Unavailable("no leader has sent this node anything for too long", next_step="ask another node")
            self.replica.emit(Reply(request, lost))
        else:
            self._local_reads.add(request, read.after, now)

    def resolve(self, entry: EntryId) -> Resolution:
        """P10, by what this node knows to be committed and holds."""
        return resolve(self.log, self.epoch, self.known_committed(), entry)

    def known_committed(self) -> Offset:
        return Offset(min(self.replica.commit, self.log.end)) if self.leader is not None else self.log.confirmed

    def _check_serves_reads(self) -> None:
        """P12: after a restart, no reads before everything is applied which this node may have shown before."""
        if self.role is not Role.FENCED:
            barrier = self.log.barrier(self.epoch)
            self.serves_reads = barrier is not None and self.replica.applied >= max(barrier, self.log.confirmed)

    # for observers

    def copy(self) -> "Node":
        """An equal node which shares nothing that changes."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.replica = self.replica.copy()
        twin.leader = self.leader.copy(twin.replica) if self.leader is not None else None
        twin.follower = self.follower.copy(twin.replica) if self.follower is not None else None
        twin.fenced_by = dict(self.fenced_by)
        twin._local_reads = self._local_reads.copy(twin.replica)
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the node's behaviour, as a hashable value."""
        return (
            self.may_lead_epoch, tuple(self.fenced_by), self.has_failed, self.serves_reads,
            self._local_reads.fingerprint(),
            self.replica.fingerprint(),
            self.leader.fingerprint() if self.leader is not None else None,
            self.follower.fingerprint() if self.follower is not None else None,
        )  # fmt: skip

    def check(self) -> None:
        """Assert every invariant one node can see."""
        self.replica.check()
        assert self.leader is None or self.follower is None
        if self.leader is not None:
            assert self.may_lead_epoch == 0
            self.leader.check()
        elif self.follower is not None:
            assert self.may_lead_epoch == 0
            self.follower.check()
