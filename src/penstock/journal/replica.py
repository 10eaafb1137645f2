"""A replica: everything one broker does for one journal. Design: transactional-appends.rst, journals.md J1 to J15.

`Replica.step` takes one event and returns effects; `journal/__init__.py` lists both. It holds the Spool, the pipeline
if this broker is the primary, the appends on their way, and the peer's side (`replicate.py`).
"""

from typing import Any

from penstock.base.effects import Effect, Event, Received, Reply, Requested, SetTimer, StateSaved, TimerFired
from penstock.base.errors import InvalidArgument
from penstock.base.ids import Incarnation, Instant, NodeId, Offset, RequestId, Revision
from penstock.base.probes import reached
from penstock.journal.api import AppendRequest, AppendResponse, Fate, ResetHead, Resolution, Resolve, Status
from penstock.journal.append_fsm import APPEND, READY, RESOLVE, Append, AppendState, Kind
from penstock.journal.backoff import Backoff
from penstock.journal.certify import head_key
from penstock.journal.config import JournalConfig
from penstock.journal.deadlines import Deadlines
from penstock.journal.effects import (
    AppendAborted,
    ContentEnded,
    ContentReceived,
    IndexRefreshed,
    ProposalReceived,
    Retired,
    StreamClosed,
    TopologyChanged,
    Transacted,
    TransactionEnd,
)
from penstock.journal.epoch import NO_EPOCH, PipelineEpoch
from penstock.journal.fragment import CompressionCodec
from penstock.journal.head import HeadRecord, HeadTable
from penstock.journal.head_keeper import HeadKeeper, Purpose
from penstock.journal.messages import (
    AdoptRequest,
    AdoptResponse,
    ContentRequest,
    MarkRequest,
    PromiseRequest,
    PromiseResponse,
    ProposeResponse,
    RefuseResponse,
)
from penstock.journal.pipeline import InFlight, Pipeline
from penstock.journal.point import Point
from penstock.journal.pulse import Pulse
from penstock.journal.replicate import Replicate, report_of
from penstock.journal.resolve import resolve
from penstock.journal.route import Topology
from penstock.journal.saves import Own, Saves
from penstock.journal.spool import Spool, SpoolState
from penstock.journal.sync import Decision, decide, decide_reset
from penstock.journal.turns import Turns
from penstock.keyspace.records import NO_REVISION

__all__ = ["Replica"]

NO_TOPOLOGY = Topology(revision=Revision(0))


class Replica:
    """One journal on one broker."""

    spool_class = Spool
    pipeline_class = Pipeline
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
        self.spool = (
            self.spool_class.recover(journal, state, self.out)
            if state is not None
            else self.spool_class(journal, incarnation, self.out, is_kept=is_kept)
        )
        self.led = PipelineEpoch(Revision(-1), 0)  # the last epoch this process led, in this run
        self.pipeline: Pipeline | None = None
        self.replicate = self.replicate_class(self)
        self.turns = Turns()
        self.resolving: dict[Append, None] = {}  # wait for the KeySpace
        self.undecided: dict[Append, None] = {}  # their pipeline broke behind their proposal
        self.appends: dict[RequestId, Append] = {}
        self.pulse = Pulse(self)
        self.first_append_ms = 0  # of the current Fragment
        self._built = NO_EPOCH  # the last epoch of our own
        self._lost_at: tuple[object, ...] = ()  # assignments and head record of the last sync without participants
        self._rerun: list[Append] = []  # barriers whose pipeline broke
        self._deadlines = Deadlines()
        self.backoff = Backoff(self.config.retry_ns, self.config.retry_ns_max, self.out)
        self.saves = Saves(self.spool)
        self._lives = 0
        self._is_serving = False
        self._is_retired = state is None  # with a kept Spool there may be something to hand over

    # events

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take one event; return what is to be done, in order."""
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
        """What every append leads to is found by its type: a `match` looks at each class before the right one."""
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
                self._on_saved(self.saves.take_saved())
            case AppendAborted(request, reason):
                if (append := self.appends.get(request)) is not None:  # else its client will learn of its answer
                    append.on_abort(Status.CLIENT_ABORT, reason)
            case TopologyChanged(topology):
                self._on_topology(topology)
            case Transacted():
                self._on_transacted(event)
            case StreamClosed(peer, epoch):
                self._on_closed(peer, epoch)
            case IndexRefreshed(end):
                self.index_end = end
            case TimerFired(name):
                self._on_timer(name)
            case _:
                raise InvalidArgument(f"a replica does not know {type(event).__name__}")

    def _go_on(self) -> None:
        """Let whoever can go on do so: the owner of the send side, then the next in the queue, until one must wait."""
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
            self._on_acked(sender, message.epoch, message.seq)
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
                self._on_sync_answer(sender, message)
            case _:
                raise InvalidArgument(f"a replica does not know {type(message).__name__}")

    # what clients ask

    def _on_request(self, request: RequestId, body: Any) -> None:
        if type(body) is AppendRequest:
            self.pulse.note(body.unix_ms)
            self._start(APPEND, request, body)
            return
        match body:
            case ResetHead(deadline=deadline, min_revision=min_revision):
                ask = AppendRequest(deadline=deadline, min_revision=min_revision, may_proxy=False)
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
        return resolve(self.spool, self.table, epoch, end)

    def ended(self, append: Append, answer: AppendResponse | None) -> None:
        """An append has its answer. A sync which lost its driver is started anew by the next."""
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
        """Its client waits no longer, whatever becomes of the proposal."""
        for entry in self.pipeline.in_flight if self.pipeline is not None else ():
            if entry.append is append:
                entry.append = None

    # the KeySpace

    def _on_topology(self, topology: Topology) -> None:
        before, self.topology = self.topology, topology
        if topology.create_revision != self.spool.create_revision:
            self._on_another_life(topology)
        if self.keeper.see(topology.head, topology.head_revision, topology.revision):
            self._on_head()
        pipeline = self.pipeline
        if pipeline is not None and topology.route.primary != self.me:
            reached("journal.demoted")
            self.drop_pipeline(None)
        elif pipeline is not None and self.head is not None and self.head.epoch > pipeline.epoch:
            reached("journal.superseded")
            self.drop_pipeline(None)
        elif pipeline is not None and pipeline.phase is not READY and not pipeline.is_current(topology):
            self.drop_pipeline(None)  # a sync which waits for somebody who is gone would wait for ever
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
        self.saves.gate()

    def _on_head(self) -> None:
        """A new head record: it may decide about appends whose pipeline broke, and about our own pipeline's limit."""
        if self.head is None:
            return
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
        """J11: who leaves keeps what it has until it is decided, and uploads it then."""
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

    @property
    def head(self) -> HeadRecord | None:
        return self.keeper.head

    @property
    def table(self) -> HeadTable:
        return self.keeper.table

    @property
    def codec(self) -> CompressionCodec:
        spec = self.topology.spec
        return spec.fragment.compression_codec if spec is not None else CompressionCodec.NONE

    @property
    def may_write(self) -> bool:
        return self.topology.spec is not None and self.topology.spec.flags.may_write

    # the pipeline

    def start_pipeline(self) -> None:
        """A new epoch; the primary is the first to promise it."""
        assert self.topology.route.primary == self.me
        revision = self.topology.revision
        last = max(self._built, self.spool.promised)
        n = last.n + 1 if last.revision == revision else 1
        epoch = self._built = PipelineEpoch(revision, n)
        self.replicate.end()
        report = self.promise(epoch)
        self.pipeline = self.pipeline_class(
            self.me, epoch, self.topology, self.keeper.head, self.keeper.head_revision, self.out
        )
        self.pipeline.promises[self.me] = report
        self.saves.gate()

    def outbid(self, promised: PipelineEpoch) -> None:
        """A peer has promised this: our next epoch must be higher."""
        self._built = max(self._built, promised)

    def promise(self, epoch: PipelineEpoch) -> PromiseResponse:
        """J4, step one, for others and for ourselves: the mark is frozen, and nothing older counts."""
        assert epoch > self.spool.promised
        self.drop_pipeline(None)
        self.spool.roll_back()
        self.spool.promised = epoch
        return report_of(self, epoch)

    def lost_head(self) -> None:
        """A sync found nobody who could know where the journal ends: so it is, until members or the head change."""
        self._lost_at = (self.topology.lives, self.keeper.head_revision)

    def is_head_lost(self) -> bool:
        return self._lost_at == (self.topology.lives, self.keeper.head_revision)

    def decide(self, pipeline: Pipeline) -> Decision | None:
        return decide(pipeline.head, self.topology.create_revision, pipeline.promises, self.codec)

    def decide_reset(self, head: HeadRecord) -> Decision:
        return decide_reset(head, self.codec)

    def adopt_own(self) -> None:
        """The primary's own part of step two."""
        pipeline = self.pipeline
        assert pipeline is not None
        assert pipeline.decision is not None
        self.led = pipeline.epoch
        point = pipeline.decision.point
        if pipeline.decision.is_reset:
            self.spool.reset(pipeline.epoch, point, pipeline.table)
        else:
            self.spool.synchronize(pipeline.epoch, point, pipeline.table, pipeline.head_epoch)
        self.first_append_ms = 0
        if not self.saves.add_own(("adopted", pipeline.epoch, 0)):
            pipeline.adopted[self.me] = None

    def _on_sync_answer(self, sender: NodeId, message: PromiseResponse | AdoptResponse | RefuseResponse) -> None:
        pipeline = self.pipeline
        if pipeline is None or message.epoch != pipeline.epoch or sender not in pipeline.peers:
            return
        if isinstance(message, RefuseResponse):
            if pipeline.phase is READY:
                self._break()
            else:
                pipeline.refusal = message
        elif isinstance(message, PromiseResponse):
            pipeline.promises[sender] = message
        else:
            pipeline.adopted[sender] = None

    def certify(self) -> None:
        pipeline = self.pipeline
        assert pipeline is not None
        pipeline.is_certifying = True
        self.keeper.certify(pipeline.topology, pipeline.next_head(self.config), pipeline.head_revision)

    def _on_transacted(self, event: Transacted) -> None:
        running, pipeline = self.keeper.ended(event), self.pipeline
        if running is None:
            return
        if pipeline is not None and pipeline.is_certifying and pipeline.epoch == running.epoch:
            if event.end is TransactionEnd.DONE:
                self._on_certified(pipeline, event.revision)
            elif running.purpose is Purpose.CERTIFY:
                reached("journal.lost_certification")
                self._break()
        if event.end is TransactionEnd.DONE:
            self._on_head()
        elif running.purpose is Purpose.FENCE:
            self.backoff.extend(self.now)

    def _on_certified(self, pipeline: Pipeline, revision: Revision) -> None:
        assert self.head is not None
        pipeline.certified(self.head)
        pipeline.is_certifying = False
        self.backoff.reset(self.now)
        self.spool.advance_mark(self.head.start)
        owner = self.turns.owner
        assert owner is not None
        owner.is_reset_done = owner.kind is Kind.RESET
        owner.min_revision = max(owner.min_revision, revision)
        owner.move_to(RESOLVE)

    def drop_pipeline(self, by: Append | None) -> None:
        """Nothing of it counts any more. Proposals on their way are decided by the next certified epoch (J12)."""
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

    def _break(self) -> None:
        """The pipeline failed while it was in use: build another after a while, whether anyone appends or not."""
        self.drop_pipeline(None)
        self.backoff.extend(self.now)
        self.out.append(SetTimer("pulse", self.backoff.until))

    def _on_closed(self, peer: NodeId, epoch: PipelineEpoch) -> None:
        self.replicate.on_closed(peer, epoch)
        if self.pipeline is not None and self.pipeline.epoch == epoch and peer in self.pipeline.peers:
            reached("journal.pipeline_broken")
            self._break()

    # proposals and acknowledgements

    def propose(self, point: Point, append: Append, content: Any = b"") -> None:
        """Send a proposal with the last content it covers, adopt it ourselves, and wait for everybody."""
        pipeline, spool = self.pipeline, self.spool
        assert pipeline is not None
        assert pipeline.phase is READY
        assert spool.promised == pipeline.epoch, "J6: a primary which promised another epoch proposes nothing"
        assert point.end <= pipeline.limit
        head = spool.points[-1]
        if head.begin == head.end < point.end:
            self.first_append_ms = append.body.unix_ms
        seq = pipeline.propose(point, spool.mark, append, content)
        spool.adopt(point)
        if not self.saves.add_own(("acked", pipeline.epoch, seq)):
            self._on_acked(self.me, pipeline.epoch, seq)

    def roll(self, point: Point) -> None:
        """J11: a Fragment is rolled only when all of it is below the mark."""
        assert self.pipeline is not None
        assert self.spool.mark == self.spool.end
        self.pipeline.tell(point, self.spool.mark)
        self.spool.adopt(point)

    def roll_back(self) -> None:
        """The client gave up: peers drop what they were sent, and so do we."""
        if self.spool.pending and self.pipeline is not None:
            self.pipeline.tell(self.spool.head, self.spool.mark)
        self.spool.roll_back()

    def limit_for(self, end: Offset) -> Offset:
        """The pipeline's limit; ahead of need a higher one is asked for."""
        pipeline = self.pipeline
        assert pipeline is not None
        if self.keeper.running is None and pipeline.needs_raise(end, self.config):
            self.keeper.raise_limit(self.config.limit_step)
        return pipeline.limit

    def _on_acked(self, member: NodeId, epoch: PipelineEpoch, seq: int) -> None:
        pipeline = self.pipeline
        if pipeline is None or pipeline.epoch != epoch or member not in pipeline.acked:
            reached("journal.late_ack")
            return
        done = pipeline.acknowledge(member, seq)
        if done:
            self._on_done(pipeline, done)

    def _on_done(self, pipeline: Pipeline, done: list[InFlight]) -> None:
        """J7, J8: every member has adopted these. Whoever waits is told; the mark follows."""
        self.spool.advance_mark(done[-1].end)
        if not pipeline.in_flight:
            pipeline.send_mark(self.spool.mark)
        for entry in done:
            if entry.append is not None:
                entry.append.on_acknowledged()

    # what is durable

    def _on_saved(self, saved: tuple[Own, ...]) -> None:
        for kind, epoch, seq in saved:
            if self.pipeline is None or epoch != self.pipeline.epoch:
                continue
            if kind == "adopted":
                self.pipeline.adopted[self.me] = None
            else:
                self._on_acked(self.me, epoch, seq)

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
        """Where every append stands, and what it waits for. The pulse has no request."""
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
