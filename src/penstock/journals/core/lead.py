"""The primary's side of a pipeline: syncs, proposals, acknowledgements. Design: journals.md J1 to J8, J13.

What always holds: nothing is proposed before the epoch is certified, and in no epoch but the promised one; an append is
done when every member has adopted its proposal, this broker's own durable adoption included. The peer's side is in
`replicate.py`, what waits for its turn in `append_fsm.py`.
"""

from typing import TYPE_CHECKING, Any, Final

from penstock.journals.core.append_fsm import READY, RESOLVE, Append, Kind
from penstock.journals.core.effects import Transacted, TransactionEnd
from penstock.journals.core.head_keeper import Purpose
from penstock.journals.core.pipeline import InFlight, Pipeline
from penstock.journals.core.pulse import TIMER
from penstock.journals.core.saves import Own
from penstock.journals.core.sync import SyncDecision, decide, decide_reset
from penstock.journals.records.api import AppendRequest, Shortage
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.head import HeadRecord
from penstock.journals.records.messages import AdoptResponse, PromiseResponse, RefuseResponse
from penstock.journals.records.point import Point
from penstock.journals.records.registers import whole_bytes
from penstock.kernel.effects import SetTimer
from penstock.kernel.ids import Instant, NodeId, Offset, Revision
from penstock.kernel.probes import reached

if TYPE_CHECKING:
    from penstock.journals.core.replica import Replica

__all__ = ["Lead"]


IN_FLIGHT_LEAST: Final = 4
FEW_LABELS: Final = 8
POINTS_BYTES: Final = 2 << 20  # of the registers of all proposals in flight, if they are large


class Lead:
    """What a replica does as the primary of its journal."""

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica
        self.led = PipelineEpoch(Revision(-1), 0)  # the last epoch this process led, in this run
        self.first_append_ms = 0  # of the current Fragment
        self.shortages: dict[NodeId, Shortage] = {}  # of peers, as far as they have said
        self._built = NO_EPOCH  # the last epoch of our own
        self._lost_at: tuple[object, ...] = ()  # assignments and head record of the last sync without participants

    # syncs

    def start_pipeline(self) -> None:
        """A new epoch; the primary is the first to promise it."""
        replica = self.replica
        topology, keeper = replica.topology, replica.keeper
        assert topology.route.primary == replica.me
        last = max(self._built, replica.spool.promised)
        n = last.n + 1 if last.revision == topology.revision else 1
        epoch = self._built = PipelineEpoch(topology.revision, n)
        replica.replicate.end()
        report = replica.promise(epoch)
        replica.pipeline = replica.pipeline_class(
            replica.me, epoch, topology, keeper.head, keeper.head_revision, replica.out
        )
        replica.pipeline.promises[replica.me] = report
        replica.saves.gate()

    def outbid(self, promised: PipelineEpoch) -> None:
        """A peer has promised this: our next epoch must be higher."""
        self._built = max(self._built, promised)

    def lost_head(self) -> None:
        """A sync found no member that could know where the journal ends: this stays so until members or the head
        change.
        """
        self._lost_at = self._sync_inputs

    def is_head_lost(self) -> bool:
        return self._lost_at == self._sync_inputs

    @property
    def _sync_inputs(self) -> tuple[object, ...]:
        return self.replica.topology.lives, self.replica.keeper.head_revision

    def decide(self, pipeline: Pipeline) -> SyncDecision | None:
        replica, spec = self.replica, self.replica.topology.spec
        least = spec.fewest if spec is not None and spec.fewest < spec.replication else 0
        return decide(pipeline.head, replica.topology.create_revision, pipeline.promises, replica.codec, least)

    def decide_reset(self, head: HeadRecord, wish: AppendRequest) -> SyncDecision:
        start = max(head.limit, self.replica.index_end or Offset(0), wish.offset or Offset(0))
        return decide_reset(start, wish.unix_ms, self.replica.codec)

    def adopt_own(self) -> None:
        """The primary's own part of step two."""
        replica, pipeline = self.replica, self.replica.pipeline
        assert pipeline is not None
        assert pipeline.decision is not None
        self.led = pipeline.epoch
        point = pipeline.decision.point
        if pipeline.decision.is_reset:
            replica.spool.reset(pipeline.epoch, point, pipeline.table)
        else:
            replica.spool.synchronize(pipeline.epoch, point, pipeline.table, pipeline.head_epoch)
        self.first_append_ms = 0
        if not replica.saves.add_own(("adopted", pipeline.epoch, 0)):
            pipeline.adopted[replica.me] = None

    def on_answer(self, sender: NodeId, message: PromiseResponse | AdoptResponse | RefuseResponse) -> None:
        """A peer has promised or adopted, or will not."""
        pipeline = self.replica.pipeline
        if pipeline is None or message.epoch != pipeline.epoch or sender not in pipeline.peers:
            return
        if isinstance(message, RefuseResponse):
            if message.shortage is not None:
                self.note_shortage(sender, message.epoch, message.shortage)
            if pipeline.phase is READY:
                self.replica.break_pipeline(message.shortage)
            else:
                pipeline.refusal = message
        elif isinstance(message, PromiseResponse):
            pipeline.promises[sender] = message
        else:
            pipeline.adopted[sender] = None

    def certify(self) -> None:
        replica, pipeline = self.replica, self.replica.pipeline
        assert pipeline is not None
        pipeline.is_certifying = True
        replica.keeper.certify(pipeline.topology, pipeline.next_head(replica.config), pipeline.head_revision)

    def on_transacted(self, event: Transacted) -> None:
        """The KeySpace has taken a head record, or has not."""
        replica, pipeline = self.replica, self.replica.pipeline
        running = replica.keeper.ended(event)
        if running is None:
            return
        if pipeline is not None and pipeline.is_certifying and pipeline.epoch == running.epoch:
            if event.end is TransactionEnd.DONE:
                self._on_certified(pipeline, event.revision)
            elif running.purpose is Purpose.CERTIFY:
                reached("journal.lost_certification")
                replica.break_pipeline()
        if event.end is TransactionEnd.DONE:
            replica.on_head()
        elif running.purpose is Purpose.FENCE:
            replica.backoff.extend(replica.now)

    def _on_certified(self, pipeline: Pipeline, revision: Revision) -> None:
        replica = self.replica
        assert replica.head is not None
        pipeline.certified(replica.head)
        pipeline.is_certifying = False
        replica.backoff.reset(replica.now)
        replica.spool.advance_mark(replica.head.start)
        owner = replica.turns.owner
        assert owner is not None
        owner.is_reset_done = owner.kind is Kind.RESET
        owner.min_revision = max(owner.min_revision, revision)
        owner.move_to(RESOLVE)

    # proposals

    def propose(self, point: Point, append: Append, content: Any = b"") -> None:
        """Send a proposal with the last content it covers, adopt it ourselves, and wait for everybody."""
        replica = self.replica
        pipeline, spool = replica.pipeline, replica.spool
        assert pipeline is not None
        assert pipeline.phase is READY
        assert spool.promised == pipeline.epoch, "J6: a primary which promised another epoch proposes nothing"
        assert point.end <= pipeline.limit
        head = spool.points[-1]
        if head.begin == head.end < point.end:
            self.first_append_ms = append.body.unix_ms
        seq = pipeline.propose(point, spool.mark, append, content)
        spool.adopt(point)
        if not replica.saves.add_own(("acked", pipeline.epoch, seq)):
            self.on_acked(replica.me, pipeline.epoch, seq)

    def is_pipeline_full(self) -> bool:
        """Return whether as many proposals are in flight as may be.

        Each of them is a point of the Spools, with its registers. A sync sends all points at once.
        """
        pipeline, replica = self.replica.pipeline, self.replica
        if pipeline is None or not pipeline.in_flight:
            return False
        registers, most = replica.spool.registers, replica.config.in_flight_max
        if len(registers.labels) > FEW_LABELS and len(pipeline.in_flight) >= IN_FLIGHT_LEAST:
            most = min(most, POINTS_BYTES // whole_bytes(registers))
        return len(pipeline.in_flight) >= most

    def roll(self, point: Point) -> None:
        """J11: a Fragment is rolled only when all of it is below the mark."""
        pipeline, spool = self.replica.pipeline, self.replica.spool
        assert pipeline is not None
        assert spool.mark == spool.end
        pipeline.tell(point, spool.mark)
        spool.adopt(point)

    def roll_back(self) -> None:
        """The client gave up: peers drop its content, and so do we."""
        pipeline, spool = self.replica.pipeline, self.replica.spool
        if spool.pending and pipeline is not None:
            pipeline.tell(spool.head, spool.mark)
        spool.roll_back()

    def limit_for(self, end: Offset) -> Offset:
        """The pipeline's limit; ahead of need a higher one is asked for."""
        replica, pipeline = self.replica, self.replica.pipeline
        assert pipeline is not None
        if replica.keeper.running is None and pipeline.needs_raise(end, replica.config):
            replica.keeper.raise_limit(replica.config.limit_step)
        return pipeline.limit

    # room

    def note_shortage(self, member: NodeId, epoch: PipelineEpoch, shortage: Shortage | None) -> None:
        """A peer takes no more content, or takes it again. Ask it again soon: its answer to the pulse says so."""
        replica = self.replica
        if replica.pipeline is None or replica.pipeline.epoch != epoch:
            return
        if shortage is None:
            self.shortages.pop(member, None)
        elif self.shortages.get(member) != shortage:
            self.shortages[member] = shortage
            replica.out.append(SetTimer(TIMER, Instant(replica.now + replica.config.shortage_ns)))

    def shortage(self) -> Shortage | None:
        """Why the peers of this pipeline would refuse content, if one of them would."""
        peers = self.replica.pipeline.peers if self.replica.pipeline is not None else ()
        return next((self.shortages[peer] for peer in peers if peer in self.shortages), None)

    # acknowledgements

    def on_acked(self, member: NodeId, epoch: PipelineEpoch, seq: int) -> None:
        """A member has adopted everything up to this proposal."""
        pipeline = self.replica.pipeline
        if pipeline is None or pipeline.epoch != epoch or member not in pipeline.acked:
            reached("journal.late_ack")
            return
        done = pipeline.acknowledge(member, seq)
        if done:
            self._on_done(pipeline, done)

    def _on_done(self, pipeline: Pipeline, done: list[InFlight]) -> None:
        """J7, J8: every member has adopted these. Waiting clients get their answer; the mark follows."""
        spool = self.replica.spool
        spool.advance_mark(done[-1].end)
        if not pipeline.in_flight:
            pipeline.send_mark(spool.mark)
        for entry in done:
            if entry.append is not None:
                entry.append.on_acknowledged()
        if not pipeline.in_flight and self.replica.turns.owner is None:
            self._roll_full()

    def _roll_full(self) -> None:
        """Roll a full Fragment of an idle journal by a pulse: its content waits for the store, not for an append."""
        replica = self.replica
        spec, head = replica.topology.spec, replica.spool.points[-1]
        if spec is not None and head.end - head.begin >= spec.fragment.length:
            replica.start_pulse()

    def on_saved(self, saved: tuple[Own, ...]) -> None:
        """Our own adoptions and acknowledgements count when they are durable."""
        replica = self.replica
        for kind, epoch, seq in saved:
            if replica.pipeline is None or epoch != replica.pipeline.epoch:
                continue
            if kind == "adopted":
                replica.pipeline.adopted[replica.me] = None
            else:
                self.on_acked(replica.me, epoch, seq)
