"""A replica: everything one broker does for one journal. Design: transactional-appends.rst, journals.md J1 to J15.

`Replica.step` takes one event and returns effects; `journals/core/__init__.py` lists both. It holds the Spool, the
appends on their way, the pipeline if this broker is the primary, and its work as a primary (`lead.py`) and as a peer
(`replicate.py`).
"""

from typing import Any

from penstock.journals.core.append_fsm import APPEND, READY, RESOLVE, Append, AppendState, Kind
from penstock.journals.core.certify import head_key
from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import (
    AppendAborted,
    ContentEnded,
    ContentReceived,
    ContentRefused,
    IndexRefreshed,
    ProposalReceived,
    Retired,
    RoomChanged,
    StreamClosed,
    TopologyChanged,
    Transacted,
)
from penstock.journals.core.head_keeper import HeadKeeper
from penstock.journals.core.lead import Lead
from penstock.journals.core.pipeline import Pipeline
from penstock.journals.core.pulse import Pulse
from penstock.journals.core.replicate import Replicate, report_of
from penstock.journals.core.resolve import resolve
from penstock.journals.core.saves import Saves
from penstock.journals.core.spool import Spool, SpoolState
from penstock.journals.core.turns import Turns
from penstock.journals.records.api import (
    AppendRequest,
    AppendResponse,
    Fate,
    ResetHead,
    Resolution,
    Resolve,
    Shortage,
    Status,
)
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.head import HeadRecord, HeadTable
from penstock.journals.records.messages import (
    AdoptRequest,
    AdoptResponse,
    ContentRequest,
    MarkRequest,
    PromiseRequest,
    PromiseResponse,
    ProposeResponse,
    RefuseResponse,
)
from penstock.journals.records.registers import Writers
from penstock.journals.records.route import Topology
from penstock.kernel.deadlines import RequestDeadlines
from penstock.kernel.effects import Effect, Event, Received, Reply, Requested, SetTimer, StateSaved, TimerFired
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Incarnation, Instant, NodeId, Offset, RequestId, Revision
from penstock.kernel.probes import reached
from penstock.kernel.retrying import RetryTimer
from penstock.keyspace.core.records import NO_REVISION

__all__ = ["Replica"]

NO_TOPOLOGY = Topology(revision=Revision(0))


class Replica:
    """One journal on one broker."""

    spool_class = Spool
    pipeline_class = Pipeline
    lead_class = Lead
    replicate_class = Replicate
    keeper_class = HeadKeeper
    append_class = Append

    def __init__(
        self,
        me: NodeId,
        journal: str,
        incarnation: Incarnation,
        config: JournalConfig | None = None,
        *,
        is_kept: bool = False,
        state: SpoolState | None = None,
    ) -> None:
        self.me = me
        self.journal = journal
        self.config = config or JournalConfig()
        self.out: list[Effect] = []
        self.now = Instant(0)
        self.topology = NO_TOPOLOGY
        self.keeper = self.keeper_class(head_key(self.config.root, journal), me, self.out)
        self.index_end: Offset | None = None  # None: the stores were not listed yet
        self.stored_to = Offset(0)  # everything below is in the store, or retention removed it
        self.spool = (
            self.spool_class.recover(journal, state, self.out)
            if state is not None
            else self.spool_class(journal, incarnation, self.out, is_kept=is_kept)
        )
        self.pipeline: Pipeline | None = None
        self.shortage: Shortage | None = None  # why this broker takes no more content: acknowledgements carry it
        self.lead = self.lead_class(self)
        self.replicate = self.replicate_class(self)
        self.turns = Turns()
        self.resolving: dict[Append, None] = {}  # wait for the KeySpace
        self.undecided: dict[Append, None] = {}  # their pipeline broke behind their proposal
        self.appends: dict[RequestId, Append] = {}
        self.writers = Writers()
        self.pulse = Pulse(self)
        self._rerun: list[Append] = []  # barriers whose pipeline broke
        self._deadlines = RequestDeadlines()
        self.backoff = RetryTimer(self.config.retry_ns, self.config.retry_ns_max, self.out)
        self.saves = Saves(self.spool)
        self._lives = 0
        self._is_serving = False
        self._is_retired = state is None  # with a kept Spool there may be something to hand over

    # events

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take one event; return the effects, in order."""
        self.now = now
        self._take(event)
        owner = self.turns.owner
        if owner is None:
            if self.turns.queue or self._rerun:
                self._go_on()
        elif self._rerun or not owner.is_reading or self.pipeline is None:  # else all wait for its client's content
            self._go_on()
        if self.saves.own:
            self.saves.end_step()
        effects = self.out[:]
        self.out.clear()
        return effects

    def _take(self, event: Event) -> None:
        """Dispatch an event. The effects of every append are found by type: a `match` looks at each class before the
        right one.
        """
        if type(event) is ProposalReceived:
            self.replicate.on_proposal(event.sender, event.message, event.sum)
        elif type(event) is Received:
            self._on_message(event.sender, event.message)
        elif type(event) is Requested:
            self._on_request(event.request, event.body)
        elif type(event) is ContentEnded:
            if (append := self.appends.get(event.request)) is not None:
                append.on_end(event)
        elif type(event) is ContentReceived:
            if (append := self.appends.get(event.request)) is not None:
                append.on_content(event.content)
        else:
            self._take_rare(event)

    def _take_rare(self, event: Event) -> None:
        match event:
            case StateSaved():
                self.lead.on_saved(self.saves.take_saved())
            case AppendAborted(request, reason, shortage):
                if (append := self.appends.get(request)) is not None:  # else its client will learn of its answer
                    append.on_abort(shortage.status if shortage else Status.CLIENT_ABORT, reason, shortage)
            case RoomChanged() | ContentRefused():
                self._on_room(event)
            case TopologyChanged(topology):
                self._on_topology(topology)
            case Transacted():
                self.lead.on_transacted(event)
            case StreamClosed(peer, epoch):
                self._on_closed(peer, epoch)
            case IndexRefreshed(end, stored_to):
                self._on_index(end, stored_to)
            case TimerFired(name):
                self._on_timer(name)
            case _:
                raise InvalidArgument(f"a replica does not know {type(event).__name__}")

    def _on_index(self, end: Offset, stored_to: Offset) -> None:
        """The stores were listed. Stored content is no longer in doubt."""
        self.index_end = end
        if stored_to > self.stored_to:
            self.stored_to = stored_to
            self.on_head()

    def _on_room(self, event: RoomChanged | ContentRefused) -> None:
        if isinstance(event, RoomChanged):
            self.shortage = event.shortage
        else:
            self.replicate.on_refused(event.sender, event.message, event.shortage)

    def _go_on(self) -> None:
        """Let every append continue that can: the owner of the send side, then the next in the queue, until one must
        wait.
        """
        while self._rerun:
            self._run(self._rerun.pop(0))
        if self.turns.owner is not None:
            self._run(self.turns.owner)
        while self.turns.owner is None and self.turns.queue:
            self._run(self.turns.queue[0])

    def _run(self, append: Append) -> None:
        append.run()
        if append.state is RESOLVE and append is not self.turns.owner:
            self.resolving[append] = None
        elif self.resolving:
            self.resolving.pop(append, None)

    def _on_message(self, sender: NodeId, message: Any) -> None:
        if type(message) is ProposeResponse:
            if message.shortage is not None or self.lead.shortages:
                self.lead.note_shortage(sender, message.epoch, message.shortage)
            self.lead.on_acked(sender, message.epoch, message.seq)
            return
        match message:
            case ContentRequest():
                self.replicate.on_content(sender, message)
            case MarkRequest():
                self.replicate.on_mark(sender, message)
            case PromiseRequest():
                self.replicate.on_promise(sender, message)
            case AdoptRequest():
                self.replicate.on_adopt(sender, message)
            case PromiseResponse() | AdoptResponse() | RefuseResponse():
                self.lead.on_answer(sender, message)
            case _:
                raise InvalidArgument(f"a replica does not know {type(message).__name__}")

    # what clients ask

    def _on_request(self, request: RequestId, body: Any) -> None:
        if type(body) is AppendRequest:
            self.pulse.note(body.unix_ms)
            self._start(APPEND, request, body)
            return
        match body:
            case ResetHead():
                ask = AppendRequest(
                    deadline=body.deadline,
                    offset=body.offset,
                    min_revision=body.min_revision,
                    may_proxy=False,
                    unix_ms=body.unix_ms,
                )
                self._start(Kind.RESET, request, ask)
            case Resolve(epoch, _, end):
                self.out.append(Reply(request, self.resolve(epoch, end)))
            case _:
                raise InvalidArgument(f"a replica does not know {type(body).__name__}")

    def _start(self, kind: Kind, request: RequestId, body: AppendRequest) -> None:
        if len(self.appends) >= self.config.queue_max:
            answer = AppendResponse(fate=Fate.ABORTED, status=Status.OVERLOADED, reason="too many appends wait")
            self.out.append(Reply(request, answer))
            return
        append = self.appends[request] = self.append_class(self, kind, request, body)
        self._deadlines.add(body.deadline, request, self.appends, self.out)
        self._run(append)

    def resolve(self, epoch: PipelineEpoch, end: Offset) -> Resolution:
        return resolve(self.spool, self.table, epoch, end, self.stored_to)

    def ended(self, append: Append, answer: AppendResponse | None) -> None:
        """An append has its answer. A sync that lost its driver is started again by the next append."""
        if append.request is not None:
            del self.appends[append.request]
        if self.undecided:
            self.undecided.pop(append, None)
        if self.resolving:
            self.resolving.pop(append, None)
        if self.turns.owner is append:
            if self.pipeline is not None and self.pipeline.phase is not READY:
                self.drop_pipeline(append)
            self.turns.release(append)
        if append.is_queued:
            self.turns.leave(append)
        if append is self.pulse.append:
            self.pulse.ended(answer)

    def forget(self, append: Append) -> None:
        """Forget the client of an append, whatever becomes of the proposal."""
        for entry in self.pipeline.in_flight if self.pipeline is not None else ():
            if entry.append is append:
                entry.append = None

    # the KeySpace

    def _on_topology(self, topology: Topology) -> None:
        before, self.topology = self.topology, topology
        if topology.create_revision != self.spool.create_revision:
            self._on_another_life(topology)
        if self.keeper.see(topology.head, topology.head_revision, topology.revision):
            self.on_head()
        pipeline = self.pipeline
        if pipeline is not None and topology.route.primary != self.me:
            reached("journal.demoted")
            self.drop_pipeline(None)
        elif pipeline is not None and self.head is not None and self.head.epoch > pipeline.epoch:
            reached("journal.superseded")
            self.drop_pipeline(None)
        elif pipeline is not None and pipeline.phase is not READY and not pipeline.is_current(topology):
            self.drop_pipeline(None)  # a sync that waits for a member that is gone would wait for ever
        elif pipeline is not None and pipeline.phase is READY and not pipeline.has_all_members(topology):
            reached("journal.member_left")
            self.drop_pipeline(None)  # its proposals would wait for a member that is gone
        self._on_membership(topology)
        self.replicate.on_topology()
        if topology.route != before.route or topology.lives != before.lives:
            self.backoff.reset(self.now)
            for append in list(self.turns.queue):
                self._run(append)
            self.start_pulse()
        for append in list(self.resolving):
            self._run(append)

    def _on_another_life(self, topology: Topology) -> None:
        """J15: whatever is here belongs to a journal which is no more."""
        self.drop_pipeline(None)
        self.replicate.end()
        if self.spool.create_revision != NO_REVISION:
            reached("journal.another_life")
            for append in list(self.undecided):
                append.unknown(Status.JOURNAL_NOT_FOUND)
        self._lives += 1
        incarnation = Incarnation(f"{self.spool.incarnation.partition('.')[0]}.{self._lives}")
        self.spool.discard(incarnation, topology.create_revision)
        self.index_end = None if topology.spec is None else self.index_end
        self.stored_to = Offset(0)
        self.saves.gate()

    def on_head(self) -> None:
        """A new head record: it may decide about appends whose pipeline broke, and about our own pipeline's limit."""
        if self.head is None:
            return
        self.spool.see_certified(self.table)
        if self.pipeline is not None and self.pipeline.epoch == self.head.epoch:
            self.pipeline.head = self.head  # its limit may have been raised
        for append in list(self.undecided):
            assert append.answer is not None
            match self.resolve(append.answer.epoch, append.proposed.end):
                case Resolution.COMMITTED:
                    reached("journal.committed_by_sync")
                    append.decided(Fate.COMMITTED)
                case Resolution.ABORTED:
                    reached("journal.aborted_by_sync")
                    append.decided(Fate.ABORTED)
                case Resolution.LOST_UNKNOWN | Resolution.EXPIRED:
                    append.unknown(Status.LOST)
                case Resolution.PENDING:
                    pass

    def _on_membership(self, topology: Topology) -> None:
        """J11: a broker that leaves keeps its content until it is decided, and uploads it then."""
        if self.me in topology.route.members:
            self._is_serving, self._is_retired = True, False
        elif not self._is_retired:
            if self._is_serving:
                self._is_serving = False
                self.replicate.end()
                self.spool.roll_back()
            self.spool.undo_reset()
            self._retire()

    def _retire(self) -> None:
        spool = self.spool
        is_decided = spool.end == spool.mark or self.table.first_after(spool.epoch) is not None
        if is_decided or spool.epoch == NO_EPOCH:
            spool.close(self.table)
            self.saves.gate()
            self._is_retired = True
            self.out.append(Retired())

    def is_in_doubt(self, end: Offset) -> bool:
        """Return whether content up to here is on too few members to be called committed (312)."""
        return end > self.stored_to and self.table.is_in_doubt(end)

    @property
    def head(self) -> HeadRecord | None:
        return self.keeper.head

    @property
    def table(self) -> HeadTable:
        return self.keeper.table

    @property
    def knows_head(self) -> bool:
        """Return whether this replica has all that the head's epoch began with. Else it does not know the end."""
        head = self.head
        is_of_this_life = head is not None and head.create_revision == self.topology.create_revision
        return head is None or not is_of_this_life or self.spool.counted()[0] >= head.epoch

    @property
    def is_head_lost(self) -> bool:
        """Return whether no member has all that the head record's epoch acknowledged. Only the primary can tell."""
        return self.topology.route.primary == self.me and not self.knows_head and self.lead.is_head_lost()

    @property
    def codec(self) -> CompressionCodec:
        spec = self.topology.spec
        return spec.fragment.compression_codec if spec is not None else CompressionCodec.NONE

    @property
    def may_write(self) -> bool:
        return self.topology.spec is not None and self.topology.spec.flags.may_write

    # the pipeline

    def promise(self, epoch: PipelineEpoch) -> PromiseResponse:
        """J4, step one, for others and for ourselves: the mark is frozen, and nothing older counts."""
        assert epoch > self.spool.promised
        self.drop_pipeline(None)
        self.spool.roll_back()
        self.spool.promised = epoch
        return report_of(self, epoch)

    def drop_pipeline(self, by: Append | None) -> None:
        """Drop the pipeline, so that nothing of it counts any more. Proposals on their way are decided by the next
        certified epoch (J12).
        """
        pipeline, self.pipeline = self.pipeline, None
        if pipeline is None:
            return
        pipeline.close()
        for entry in pipeline.in_flight:
            append = entry.append
            if append is not None and append.has_proposed:
                self.undecided[append] = None
            elif append is not None:
                append.on_pipeline_broken()
                self._rerun.append(append)
        self.spool.roll_back()
        if self.turns.owner is not None and self.turns.owner is not by:
            self.turns.owner.on_pipeline_broken()

    def break_pipeline(self, shortage: Shortage | None = None) -> None:
        """Build another pipeline after a while, whether anyone appends or not: this one failed while it was in use.

        With a `shortage`, a peer that has no room for content has ended it.
        """
        if shortage is not None and self.pipeline is not None:
            for append in (self.turns.owner, *(entry.append for entry in self.pipeline.in_flight)):
                if append is not None:
                    append.shortage = shortage
        self.drop_pipeline(None)
        self.backoff.extend(self.now)
        self.out.append(SetTimer("pulse", self.backoff.until))

    def _on_closed(self, peer: NodeId, epoch: PipelineEpoch) -> None:
        self.replicate.on_closed(peer, epoch)
        if self.pipeline is not None and self.pipeline.epoch == epoch and peer in self.pipeline.peers:
            reached("journal.pipeline_broken")
            self.break_pipeline()

    # time

    def _on_timer(self, name: str) -> None:
        if name == "pulse":
            self.start_pulse()
        elif name == "deadline":
            self._on_deadline()
        for append in list(self.resolving):
            self._run(append)

    def _on_deadline(self) -> None:
        for request in self._deadlines.take_due(self.now, self.appends, self.out):
            self.appends[request].on_deadline()

    def start_pulse(self) -> None:
        append = self.pulse.start()
        if append is not None:
            self._run(append)

    # for people and tests

    def explain(self) -> list[tuple[RequestId | None, AppendState, str]]:
        """Return the state of every append, and the reason of its wait. The pulse has no request."""
        own = [self.pulse.append] if self.pulse.append is not None else []
        return [(each.request, each.state, self._waits_for(each)) for each in (*own, *self.appends.values())]

    def _waits_for(self, append: Append) -> str:
        if append.state is not AppendState.READ_ACKNOWLEDGEMENTS:
            return append.waits_for
        if append in self.undecided:
            return "the next certified epoch, which decides about its proposal"
        return self.pipeline.waits_for(append) if self.pipeline is not None else ""

    def check(self) -> None:
        """Assert every invariant of one broker; those of many are the simulator's."""
        self.spool.check()
        if self.head is not None:
            self.head.check()
        pipeline = self.pipeline
        if pipeline is not None:
            pipeline.check()
            assert self.spool.promised == pipeline.epoch
            assert pipeline.phase is READY or self.turns.owner is not None, "a sync without a driver"
            if pipeline.phase is READY:
                assert self.spool.epoch == pipeline.epoch
                assert self.spool.end <= pipeline.limit, "I13"
        assert not self.spool.pending or self.turns.owner is not None or self.replicate.primary is not None
        self.turns.check()
        for append in self.undecided:
            assert append.has_proposed
            assert append.state is AppendState.READ_ACKNOWLEDGEMENTS
