"""The append FSM: what every append goes through, one handler per state of transactional-appends.rst, under its name.

A handler looks at the replica, does what its state is for, and returns the next state, or None while it must wait; it
is called again when something happened, so it does nothing twice. `TRANSITIONS` is the whole diagram; the page in docs
is drawn from it.

Invariants: an append proposes only while it owns the send side of a certified pipeline; its answer is definite unless
its proposal left and the pipeline broke (J12); its answer about others' appends was acknowledged by every member after
it asked (J10).
"""

from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.journals.core.effects import Alarm, AwaitRevision, ContentEnded, Proxy, ReadContent
from penstock.journals.core.pipeline import Pipeline, PipelinePhase
from penstock.journals.core.rolling import maybe_roll
from penstock.journals.core.spool import length_of
from penstock.journals.records.api import AppendRequest, AppendResponse, Fate, Shortage, Status
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.messages import Refusal
from penstock.journals.records.point import Point
from penstock.journals.records.registers import LOST, Registers, TxnRecord, floor_of, has_room, may_be_repeat
from penstock.journals.records.route import Topology
from penstock.kernel.effects import Reply
from penstock.kernel.ids import NodeId, Offset, RequestId, Revision

if TYPE_CHECKING:
    from penstock.journals.core.replica import Replica

__all__ = ["TERMINAL", "TRANSITIONS", "Append", "AppendState", "Kind"]


class AppendState(Enum):
    """The states of the document."""

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is ten times slower

    RESOLVE = "stateResolve"
    ACQUIRE_PIPELINE = "stateAcquirePipeline"
    START_PIPELINE = "stateStartPipeline"
    SEND_PIPELINE_SYNC = "stateSendPipelineSync"
    RECV_PIPELINE_SYNC = "stateRecvPipelineSync"
    UPDATE_ASSIGNMENTS = "stateUpdateAssignments"
    AWAIT_DESIRED_REPLICAS = "stateAwaitDesiredReplicas"
    VALIDATE_PRECONDITIONS = "stateValidatePreconditions"
    STREAM_CONTENT = "stateStreamContent"
    READ_ACKNOWLEDGEMENTS = "stateReadAcknowledgements"
    ERROR = "stateError"
    PROXY = "stateProxy"
    FINISHED = "stateFinished"


# Under their own names: every append passes ten of them, and to find one in its Enum costs as much as a handler.
(
    RESOLVE,
    ACQUIRE_PIPELINE,
    START_PIPELINE,
    SEND_PIPELINE_SYNC,
    RECV_PIPELINE_SYNC,
    UPDATE_ASSIGNMENTS,
    AWAIT_DESIRED_REPLICAS,
    VALIDATE_PRECONDITIONS,
    STREAM_CONTENT,
    READ_ACKNOWLEDGEMENTS,
    ERROR,
    PROXY,
    FINISHED,
) = AppendState
TERMINAL = (ERROR, PROXY, FINISHED)
# Besides the document's own: READ_ACKNOWLEDGEMENTS of an answer that quotes (J10), and the way back to RESOLVE for
# appends whose pipeline broke before they had proposed anything. ERROR can be reached from everywhere.
TRANSITIONS: dict[AppendState, tuple[AppendState, ...]] = {
    RESOLVE: (ACQUIRE_PIPELINE, START_PIPELINE, AWAIT_DESIRED_REPLICAS),
    ACQUIRE_PIPELINE: (START_PIPELINE, RESOLVE),
    START_PIPELINE: (UPDATE_ASSIGNMENTS, SEND_PIPELINE_SYNC, RESOLVE),
    SEND_PIPELINE_SYNC: (RECV_PIPELINE_SYNC,),
    RECV_PIPELINE_SYNC: (UPDATE_ASSIGNMENTS, SEND_PIPELINE_SYNC, RESOLVE),
    UPDATE_ASSIGNMENTS: (AWAIT_DESIRED_REPLICAS, RESOLVE),
    AWAIT_DESIRED_REPLICAS: (VALIDATE_PRECONDITIONS, RESOLVE, PROXY, FINISHED),
    VALIDATE_PRECONDITIONS: (STREAM_CONTENT, READ_ACKNOWLEDGEMENTS, RESOLVE),
    STREAM_CONTENT: (READ_ACKNOWLEDGEMENTS, RESOLVE),
    READ_ACKNOWLEDGEMENTS: (FINISHED, RESOLVE),
    ERROR: (),
    PROXY: (),
    FINISHED: (),
}


class Kind(Enum):
    """What the FSM is run for."""

    APPEND = "append"
    PULSE = "pulse"  # the daemon's zero-byte append: it keeps the pipeline synchronized
    RESET = "reset"  # reset-head


APPEND, PULSE, RESET = Kind
READY = PipelinePhase.READY
COMMITTED = Fate.COMMITTED
OK = Status.OK
ALARMS = (Status.HEAD_LOST, Status.INDEX_HAS_GREATER_OFFSET)


class Append:
    """One append on its way."""

    def __init__(self, replica: "Replica", kind: Kind, request: RequestId | None, body: AppendRequest) -> None:
        self.replica = replica
        self.kind = kind
        self.request = request  # None: no client waits for the answer
        self.body = body
        self.state = RESOLVE
        self.min_revision: Revision = body.min_revision
        self.resolved: Topology | None = None
        self.waits_for = ""  # in words, for `explain`
        self.is_reading = False  # the shell was asked for content
        self.is_barrier = kind is not APPEND  # no content: it only wants to know that all is well
        self.has_built = False  # a pipeline
        self.has_proposed = False
        self.is_reset_done = False
        self.is_queued = False  # for the pipeline's send side
        self.begin = Offset(0)
        self.shortage: Shortage | None = None  # why its pipeline broke, if a peer had no room
        self.answer: AppendResponse | None = None  # its answer, if the awaited event happens

    def run(self) -> None:
        """Continue until something must be waited for."""
        while (handler := HANDLERS.get(self.state)) is not None:
            following: AppendState | None = getattr(self, handler)()
            if following is None:
                return
            if following is FINISHED:
                self.move_to(following)
            else:
                assert following in TRANSITIONS[self.state] or following is ERROR, (self.state, following)
                self.state = following

    def move_to(self, state: AppendState) -> None:
        assert state in TRANSITIONS[self.state] or state is ERROR, (self.state, state)
        self.state = state
        if state is READ_ACKNOWLEDGEMENTS:
            self.replica.turns.release(self)  # with its proposal sent, the send side is the next one's
        elif state is FINISHED:
            assert self.answer is not None
            self._end(self.answer)

    def fail(self, status: Status, reason: str = "", **quoted: Any) -> AppendState:
        """ERROR, and nothing of this append ever was or will be."""
        self.answer = AppendResponse(fate=Fate.ABORTED, status=status, reason=reason, **quoted)
        if status in ALARMS:
            self.replica.out.append(Alarm(status, reason))
        return self.end_in_error()

    def end_in_error(self) -> AppendState:
        assert self.answer is not None
        self._end(self.answer)
        return ERROR

    def _end(self, answer: AppendResponse) -> None:
        if self.request is not None:
            self.replica.out.append(Reply(self.request, answer))
        self.replica.ended(self, answer)

    def _wait(self, for_what: str) -> AppendState | None:
        """Stay in this state; `for_what` is for people."""
        self.waits_for = for_what
        return None

    # the states of the document

    def state_resolve(self) -> AppendState | None:
        replica = self.replica
        topology = replica.topology
        if topology.revision < self.min_revision:
            replica.out.append(AwaitRevision(self.min_revision))
            return self._wait(f"revision {self.min_revision} of the KeySpace")
        self.resolved = topology
        if topology.spec is None:
            return self.fail(Status.JOURNAL_NOT_FOUND)
        if topology.route.primary is None:
            return self.fail(Status.NO_JOURNAL_PRIMARY_BROKER)
        if topology.route.primary != replica.me:
            replica.turns.release(self)
            if not self.body.may_proxy:
                return self.fail(Status.NOT_JOURNAL_PRIMARY_BROKER, f"the primary is {topology.route.primary}")
            return AWAIT_DESIRED_REPLICAS
        return START_PIPELINE if replica.turns.owner is self else ACQUIRE_PIPELINE

    def state_acquire_pipeline(self) -> AppendState | None:
        replica = self.replica
        if replica.topology is not self.resolved and self._is_invalidated(replica.topology):
            replica.turns.leave(self)
            return RESOLVE
        if not replica.turns.acquire(self):
            return self._wait("its turn: another append owns the pipeline")
        return START_PIPELINE

    def _is_invalidated(self, topology: Topology) -> bool:
        """Return whether another Route, or another life of the journal, was resolved."""
        assert self.resolved is not None
        return topology.route != self.resolved.route or topology.create_revision != self.resolved.create_revision

    def state_start_pipeline(self) -> AppendState | None:
        replica = self.replica
        pipeline = replica.pipeline
        if replica.topology is not self.resolved and self._is_invalidated(replica.topology):
            return RESOLVE
        if self.kind is RESET and not self.is_reset_done:
            return self._build()
        if pipeline is not None and pipeline.phase is READY:
            if pipeline.is_current(replica.topology):
                return UPDATE_ASSIGNMENTS
            if pipeline.in_flight and set(pipeline.members) <= set(replica.topology.route.members):
                return self._wait("appends in flight on the older Route")  # so that they need not be given up
        return self._build()

    def _build(self) -> AppendState | None:
        replica = self.replica
        too_few = self._too_few()
        if too_few is not None:
            return too_few  # an epoch of fewer members would be lost with fewer faults (decisions 303 and 312)
        is_eager = self.kind is RESET and not self.has_built
        if not is_eager and replica.backoff.is_waiting(replica.now):
            if self.kind is APPEND and replica.lead.is_head_lost():
                return self._head_lost()  # the same members would say the same
            return self._wait("a while, before the pipeline is built again")
        if not replica.keeper.is_sure(replica.topology):
            return self._wait("the KeySpace's word on an earlier sync")
        replica.drop_pipeline(self)
        promised = replica.spool.promised
        if promised.revision > replica.topology.revision:
            self.min_revision = promised.revision  # another member knows a later Route
            return RESOLVE
        self.has_built = True
        replica.lead.start_pipeline()
        return SEND_PIPELINE_SYNC

    def _head_lost(self) -> AppendState:
        head = self.replica.head
        had = ", ".join(str(member.broker) for member in head.members) if head is not None else ""
        reason = "no member has what the last epoch acknowledged"
        return self.fail(Status.HEAD_LOST, f"{reason}: bring back one of {had}" if had else reason)

    def state_send_pipeline_sync(self) -> AppendState:
        pipeline = self._pipeline()
        if pipeline.phase is PipelinePhase.PROMISING:
            pipeline.send_promises()
        else:
            pipeline.send_adopts()
            self.replica.lead.adopt_own()
        return RECV_PIPELINE_SYNC

    def state_recv_pipeline_sync(self) -> AppendState | None:
        replica, pipeline = self.replica, self._pipeline()
        if pipeline.refusal is not None:
            refusal = pipeline.refusal
            if refusal.refusal in (Refusal.WRONG_ROUTE, Refusal.OTHER_LIFE):
                self.min_revision = max(self.min_revision, refusal.revision)
            elif refusal.refusal is Refusal.PROMISED:
                self.min_revision = max(self.min_revision, refusal.promised.revision)
                replica.lead.outbid(refusal.promised)
            replica.drop_pipeline(self)
            replica.backoff.extend(replica.now)
            return RESOLVE
        if pipeline.phase is PipelinePhase.PROMISING:
            if not pipeline.has_all_promises():
                missing = [peer for peer in pipeline.members if peer not in pipeline.promises]
                return self._wait(f"the promise of {', '.join(missing)}")
            return self._decide(pipeline)
        if not pipeline.has_all_adopted():
            missing = [peer for peer in pipeline.members if peer not in pipeline.adopted]
            return self._wait(f"{', '.join(missing)} to adopt the sync")
        pipeline.phase = PipelinePhase.CERTIFYING
        return UPDATE_ASSIGNMENTS

    def _decide(self, pipeline: Pipeline) -> AppendState | None:
        replica = self.replica
        decision = replica.lead.decide(pipeline)
        if self.kind is RESET:
            if replica.index_end is None and self.body.offset is None:
                return self._wait("the first listing of the fragment stores")
            is_ahead = decision is not None and (replica.index_end or 0) > decision.point.end
            if pipeline.head is None or (decision is not None and not is_ahead):
                replica.drop_pipeline(self)
                return self.fail(Status.NOT_ALLOWED, "the journal's head is not lost: there is nothing to reset")
            least = max(pipeline.head.limit, replica.index_end or 0)
            if self.body.offset is not None and self.body.offset < least:
                replica.drop_pipeline(self)
                return self.fail(Status.NOT_ALLOWED, f"offsets up to {least} may have been written: give one above")
            decision = replica.lead.decide_reset(pipeline.head, self.body)
        if decision is None:
            replica.drop_pipeline(self)
            replica.lead.lost_head()
            return self._head_lost()
        pipeline.decision, pipeline.phase = decision, PipelinePhase.ADOPTING
        return SEND_PIPELINE_SYNC

    def state_update_assignments(self) -> AppendState | None:
        replica = self.replica
        pipeline = replica.pipeline
        assert pipeline is not None
        if pipeline.phase is READY:
            return AWAIT_DESIRED_REPLICAS
        if not pipeline.is_certifying:
            replica.lead.certify()
        return self._wait("the KeySpace to certify the sync")

    def state_await_desired_replicas(self) -> AppendState | None:
        topology = self.replica.topology
        assert topology.spec is not None
        if self.is_reset_done:
            self.answer = AppendResponse(fate=COMMITTED, status=OK, end=self.replica.spool.end)
            return FINISHED
        members, desired = len(topology.route.members), topology.spec.replication
        if members > desired:
            self.min_revision = Revision(topology.revision + 1)
            return RESOLVE
        too_few = self._too_few()
        if too_few is not None:
            return too_few
        if topology.route.primary != self.replica.me:
            assert topology.route.primary is not None
            return self._proxy(topology.route.primary)
        return VALIDATE_PRECONDITIONS

    def _too_few(self) -> AppendState | None:
        """Refuse an epoch of fewer members than the journal needs: all R for its first one and for a reset (312)."""
        topology, head = self.replica.topology, self.replica.head
        assert topology.spec is not None
        members, desired, needed = len(topology.route.members), topology.spec.replication, topology.spec.fewest
        is_first = head is None or head.create_revision != topology.create_revision
        if is_first or (self.kind is RESET and not self.is_reset_done):
            needed = desired
        if members >= needed:
            return None
        served = f"{members} of {desired} brokers serve the journal"
        return self.fail(
            Status.INSUFFICIENT_JOURNAL_BROKERS, served if needed == desired else f"{served}, and it needs {needed}"
        )

    def _proxy(self, to: NodeId) -> AppendState:
        assert self.request is not None
        self.replica.out.append(Proxy(self.request, to, self.replica.topology.revision))
        self.replica.ended(self, None)
        return PROXY

    def state_validate_preconditions(self) -> AppendState | None:
        replica = self.replica
        if replica.pipeline is None:
            return RESOLVE
        index_end, end = replica.index_end, replica.spool.points[-1].end
        if index_end is None:
            return self._wait("the first listing of the fragment stores")
        if replica.lead.is_pipeline_full():
            return self._wait("room in the pipeline")
        if index_end > end and replica.may_write:
            reason = f"the stores hold fragments up to {index_end}, the journal ends at {end}"
            return self.fail(Status.INDEX_HAS_GREATER_OFFSET, reason)
        self.answer = self._refused() if self.kind is APPEND else None
        if self.answer is not None:
            return self._barrier()
        return STREAM_CONTENT

    def _refused(self) -> AppendResponse | None:
        """The answer of an append whose conditions do not hold. It quotes, so it is sent only after a barrier (J10)."""
        body, spool = self.body, self.replica.spool
        head = spool.points[-1]
        registers, end = head.registers, head.end
        status: Status | None = None
        if registers.origin is LOST and not body.check.is_empty:
            status = Status.REGISTERS_LOST
        elif body.txn is not None and (record := registers.txn_record(body.txn)) is not None:
            if record.seq == body.txn.seq:
                return self._repeated(record, head)
            if record.seq > body.txn.seq:
                status = Status.TXN_SUPERSEDED
        elif body.txn is not None and may_be_repeat(registers, body.txn):
            is_known = floor_of(registers).covers(body.txn.seq)
            status = Status.WRITER_EXPIRED if is_known else Status.REGISTERS_LOST
        if status is None and not registers.matches(body.check):
            status = Status.REGISTER_MISMATCH
        if status is None and not body.change.is_empty and not has_room(registers, body.change):
            status = Status.REGISTERS_FULL
        if status is None and body.offset is not None and body.offset != end:
            status = Status.WRONG_APPEND_OFFSET
        if status is None:
            return None
        return AppendResponse(fate=Fate.ABORTED, status=status, registers=registers, end=end)

    def _repeated(self, record: TxnRecord, head: Point) -> AppendResponse:
        """Answer a transaction that the journal has already. Too few members may have it (312)."""
        commit = Fragment(self.replica.spool.journal, record.begin, record.end, record.sum)
        if self.replica.is_in_doubt(record.end):
            return AppendResponse(fate=Fate.UNKNOWN, status=Status.IN_DOUBT, commit=commit)
        return AppendResponse(fate=COMMITTED, status=OK, commit=commit, registers=head.registers, end=head.end)

    def _barrier(self) -> AppendState | None:
        """Let every member acknowledge the present state of the Spool; nothing is changed."""
        self.move_to(READ_ACKNOWLEDGEMENTS)
        self.replica.lead.propose(self.replica.spool.head, self)
        return None

    def state_stream_content(self) -> AppendState | None:
        replica = self.replica
        pipeline = replica.pipeline
        if pipeline is None:
            return RESOLVE
        if self.is_reading:
            return self._wait("the client's content")
        spool = replica.spool
        if replica.lead.is_pipeline_full():
            return self._wait("room in the pipeline")
        rolled = maybe_roll(replica, self.body.unix_ms)
        if rolled is not None:
            if spool.mark != spool.end:
                return self._wait("appends in flight, before the Fragment is rolled")
            replica.lead.roll(rolled)
        if self.is_barrier:
            return self._empty()
        self.begin = spool.points[-1].end
        self.is_reading = True
        self.waits_for = "the client's content"
        assert self.request is not None
        replica.out.append(ReadContent(self.request))
        return None

    def _empty(self) -> AppendState | None:
        spool = self.replica.spool
        self.answer = AppendResponse(
            fate=COMMITTED,
            status=OK,
            commit=Fragment(spool.journal, spool.end, spool.end),
            registers=spool.registers,
            end=spool.end,
            epoch=self._pipeline().epoch,
        )
        return self._barrier()

    def state_read_acknowledgements(self) -> AppendState | None:
        return self._wait("acknowledgements of every member")

    # what happens to it

    def on_content(self, content: Any) -> None:
        """A chunk: to every peer, and into our own Spool."""
        spool = self.replica.spool
        if content and self._may_write(length_of(content)):
            self._pipeline().send_content(spool.pending, content)
            spool.write(content)

    def _may_write(self, length: int) -> bool:
        """Return whether so much more is allowed. If not, the append has ended."""
        if not self.is_reading or self.state is not STREAM_CONTENT:
            return False
        replica, spool = self.replica, self.replica.spool
        end = Offset(spool.points[-1].end + spool.pending + length)
        limit = replica.lead.limit_for(end)
        shortage = replica.lead.shortage() if replica.lead.shortages else None
        if not replica.may_write:
            self.on_abort(Status.NOT_ALLOWED, "the journal is read-only")
        elif shortage is not None:
            self.on_abort(shortage.status, shortage.reason, shortage)
        elif end > limit:
            self.on_abort(Status.LIMIT_REACHED, f"no offset above {limit} is allowed yet")
        else:
            return True
        return False

    def on_end(self, event: ContentEnded) -> None:
        """The client said commit. Content which came with that goes to peers with the proposal."""
        spool = self.replica.spool
        if event.content and self._may_write(length_of(event.content)):
            spool.write(event.content)
        if not self.is_reading or self.state is not STREAM_CONTENT:
            return
        if spool.pending:
            self._commit(event)
        elif not self.body.change.is_empty or self.body.txn is not None:
            self.on_abort(Status.NOT_ALLOWED, "registers change together with content, and there is none")
        else:
            self.is_reading, self.is_barrier = False, True
            self.run()

    def _commit(self, event: ContentEnded) -> None:
        """Propose all that was streamed, and hand the send side over."""
        replica, spool = self.replica, self.replica.spool
        pipeline, head = replica.pipeline, spool.points[-1]
        assert pipeline is not None
        end = Offset(head.end + spool.pending)
        registers = self._registers(head.registers, end, event)
        self.answer = AppendResponse(
            fate=COMMITTED,
            status=OK,
            commit=Fragment(spool.journal, self.begin, end, event.append_sum),
            registers=registers,
            end=end,
            epoch=pipeline.epoch,
        )
        self.has_proposed = True
        self.move_to(READ_ACKNOWLEDGEMENTS)
        replica.lead.propose(head.extended(end, event.sum, registers), self, event.content)

    def _registers(self, before: Registers, end: Offset, event: ContentEnded) -> Registers:
        """Return the registers that this append leaves."""
        body = self.body
        registers, own, is_new = before.changed(body.change), "", False
        if body.txn is not None:
            own, is_new = body.txn.register, before.txn_record(body.txn) is None
            registers = registers.with_txn(body.txn, self.begin, end, event.append_sum)
        return self.replica.writers.kept(registers, own, self.replica.now, has_grown=is_new or not body.change.is_empty)

    def on_abort(self, status: Status, reason: str, shortage: Shortage | None = None) -> None:
        """Roll back and answer, since nothing was proposed."""
        if self.state is READ_ACKNOWLEDGEMENTS or self.state in TERMINAL:
            return
        if self.state is STREAM_CONTENT:
            self.replica.lead.roll_back()
        self.move_to(self.fail(status, reason, shortage=shortage))

    def on_pipeline_broken(self) -> None:
        """Leave a pipeline that is gone."""
        if self.has_proposed:
            return  # the next certified epoch decides
        if self.state is STREAM_CONTENT and self.is_reading:
            self.move_to(self._fail_broken("the pipeline broke while content was streamed"))
        elif self.state not in TERMINAL and self.state is not RESOLVE:
            self._move_back()

    def _move_back(self) -> None:
        """Return to RESOLVE from any state: in SEND_PIPELINE_SYNC nothing waits, so nothing breaks there."""
        self.shortage = None
        self.move_to(RESOLVE)

    def on_deadline(self) -> None:
        self.replica.forget(self)
        if self.has_proposed:
            self.unknown(Status.DEADLINE)
            return
        if self.state is STREAM_CONTENT:
            self.replica.lead.roll_back()
        self.move_to(self.fail(Status.DEADLINE, f"it waited for {self.waits_for}"))

    def on_acknowledged(self) -> None:
        """Every member has adopted it."""
        assert self.answer is not None
        if self.answer.fate is COMMITTED:
            self.move_to(FINISHED)
        else:
            self.move_to(self.end_in_error())

    def decided(self, fate: Fate) -> None:
        """A later epoch was certified: it says what became of the proposal."""
        assert self.answer is not None
        if fate is COMMITTED:
            self.move_to(FINISHED)
        else:
            reason = "the pipeline broke, and the next epoch continued without it"
            self.move_to(self._fail_broken(reason))

    def _fail_broken(self, reason: str) -> AppendState:
        """Say why the pipeline broke, if a peer has said it."""
        if self.shortage is not None:
            return self.fail(self.shortage.status, self.shortage.reason, shortage=self.shortage)
        return self.fail(Status.PIPELINE_BROKEN, reason)

    def unknown(self, status: Status) -> None:
        """J12: the proposal left, and its outcome is not known yet."""
        assert self.answer is not None
        self.answer = AppendResponse(
            fate=Fate.UNKNOWN, status=status, commit=self.answer.commit, epoch=self.answer.epoch
        )
        self.move_to(self.end_in_error())

    def _pipeline(self) -> Pipeline:
        pipeline = self.replica.pipeline
        assert pipeline is not None, self.state
        return pipeline

    @property
    def proposed(self) -> Point:
        """Return the place of its bytes, as a span."""
        assert self.answer is not None
        assert self.answer.commit is not None
        return Point(self.answer.commit.begin, self.answer.commit.end)


HANDLERS = {
    state: "state" + "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in state.value[5:])
    for state in AppendState
    if state not in TERMINAL
}
