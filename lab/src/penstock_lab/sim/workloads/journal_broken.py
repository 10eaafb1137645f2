"""Replicas with one rule broken each: what the mutants of the journal are made of. See `journal_mutants`."""

from typing import Any

import msgspec

from penstock.journals.core.append_fsm import Append, AppendState
from penstock.journals.core.certify import certify
from penstock.journals.core.head_keeper import HeadKeeper, Purpose
from penstock.journals.core.lead import Lead
from penstock.journals.core.pipeline import Pipeline
from penstock.journals.core.replica import Replica
from penstock.journals.core.replicate import Replicate, report_of
from penstock.journals.core.resolve import resolve
from penstock.journals.core.spool import Spool, SpoolState
from penstock.journals.core.sync import SyncDecision, decide, participants_of
from penstock.journals.records.api import AppendRequest, Fate, Resolution
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.fragment import EMPTY_SUM
from penstock.journals.records.head import HeadRecord, HeadTable
from penstock.journals.records.messages import Message, PromiseRequest, PromiseResponse
from penstock.journals.records.point import Point
from penstock.journals.records.registers import LOST_REGISTERS
from penstock.journals.records.route import Topology
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.keyspace.core.transaction import Transaction


def _last_alone(table: HeadTable) -> HeadTable:
    """A table whose last entry seems to follow on everything."""
    return HeadTable(tuple(msgspec.structs.replace(entry, after=NO_EPOCH) for entry in table.entries[-1:]))


# Spools


class ShowsAtAdopt(Spool):
    """J9: readers see what this replica adopted, acknowledged by others or not."""

    def adopt(self, point: Point) -> None:
        super().adopt(point)
        self.advance_mark(self.end)


class MarksAtSync(Spool):
    """J4: the mark is set when the sync is adopted, certified or not."""

    def synchronize(self, epoch: PipelineEpoch, point: Point, table: HeadTable, head_epoch: PipelineEpoch) -> None:
        super().synchronize(epoch, point, table, head_epoch)
        self.advance_mark(point.end)


class KeepsTail(Spool):
    """J4: what lies above the point of a sync stays."""

    def trim(self, offset: Offset) -> None:
        self.roll_back()


class UploadsAll(Spool):
    """J11: who leaves uploads the rest of its Spool unchecked, as Gazette does."""

    def settle(self, table: HeadTable) -> Offset:
        return self.end


class SettlesByLast(Spool):
    """J11: the last entry of the table decides about a tail, not the first after it."""

    def settle(self, table: HeadTable) -> Offset:
        return super().settle(_last_alone(table))


class ResetCounts(Spool):
    """306: who adopted a reset takes part in the next sync, certified or not."""

    def reset(self, epoch: PipelineEpoch, point: Point, table: HeadTable) -> None:
        self.synchronize(epoch, point, table, head_epoch=epoch)


class ForgetsReset(Spool):
    """306: a restart takes an uncertified reset for truth."""

    @property
    def state(self) -> SpoolState:
        return msgspec.structs.replace(super().state, reset_from=None)


# pipelines


class MajorityAcks(Pipeline):
    """J7: a majority of acknowledgements commits."""

    def least_acked(self) -> int:
        acked = sorted(self.acked.values(), reverse=True)
        return acked[len(acked) // 2]


class CertifiesEarly(Pipeline):
    """J4: the sync is certified when the primary has adopted it, whatever the others did."""

    def has_all_adopted(self) -> bool:
        return self.me in self.adopted


# peers


class AppliesOldEpochs(Replicate):
    """J4, J6: promises mean nothing: what an older stream proposes is still applied and acknowledged."""

    def follows(self, sender: NodeId, message: Message) -> bool:
        return message.create_revision == self.replica.spool.create_revision

    def _applies(self, sender: NodeId, message: Message) -> bool:
        return message.epoch == self.replica.spool.epoch and message.epoch.n > 0

    def _promise(self, sender: NodeId, message: PromiseRequest) -> None:
        self.primary = None
        super()._promise(sender, message)


# primaries


class LargestEnd(Lead):
    """J4: the largest end of the participants."""

    def decide(self, pipeline: Pipeline) -> SyncDecision | None:
        decision = super().decide(pipeline)
        participants = participants_of(pipeline.head, pipeline.promises)
        if decision is None or not participants:
            return decision
        most = max(participants, key=lambda promise: promise.points[-1].end).points[-1]
        return decision if most.end == decision.point.end else SyncDecision(most.rolled())


class LargestEndOfAnybody(Lead):
    """J4: the largest end of all members, whichever epoch they are from."""

    def decide(self, pipeline: Pipeline) -> SyncDecision | None:
        decision = super().decide(pipeline)
        if decision is None:
            return None
        most = max(pipeline.promises.values(), key=lambda promise: promise.points[-1].end).points[-1]
        return decision if most.end <= decision.point.end else SyncDecision(most.rolled())


class OwnRegisters(Lead):
    """J4: the new primary's own registers instead of those at the point."""

    def decide(self, pipeline: Pipeline) -> SyncDecision | None:
        decision = super().decide(pipeline)
        if decision is None:
            return None
        point = decision.point
        changed = Point(point.end, point.end, EMPTY_SUM, self.replica.spool.registers, point.codec, point.path_postfix)
        return decision if changed.registers == point.registers else SyncDecision(changed)


class NoHeadRecord(Lead):
    """J2, J5: the present members may decide, as if the journal were virgin."""

    def decide(self, pipeline: Pipeline) -> SyncDecision | None:
        return decide(None, self.replica.topology.create_revision, pipeline.promises, self.replica.codec)


class ResetsAtIndexEnd(Lead):
    """J13: reset-head continues where the index ends."""

    def decide_reset(self, head: HeadRecord, wish: AppendRequest) -> SyncDecision:
        end = Offset(max(self.replica.index_end or 0, head.start))
        return SyncDecision(Point(end, end, EMPTY_SUM, LOST_REGISTERS), is_reset=True)


class QuotesUnmarked(Lead):
    """J10: a mismatch is answered at once, from what the primary alone may hold."""

    def propose(self, point: Point, append: Append, content: Any = b"") -> None:
        is_quote = append.answer is not None and append.answer.fate is Fate.ABORTED
        if is_quote and append.state is AppendState.READ_ACKNOWLEDGEMENTS:
            append.on_acknowledged()
        else:
            super().propose(point, append, content)


# replicas


class ReportsErrors(Replica):
    """J12: a pipeline that broke after a proposal is reported as a definite error."""

    def drop_pipeline(self, by: Append | None) -> None:
        super().drop_pipeline(by)
        for append in list(self.undecided):
            append.decided(Fate.ABORTED)


class ResolvesByLast(Replica):
    """J12: the last epoch decides, not the first later one."""

    def resolve(self, epoch: PipelineEpoch, end: Offset) -> Resolution:
        return resolve(self.spool, _last_alone(self.table), epoch, end)


class TrustsOldMark(Replica):
    """J4: a primary which was restarted counts with the mark it saved."""

    def promise(self, epoch: PipelineEpoch) -> PromiseResponse:
        if self.spool.is_kept and self.lead.led.revision < 0:
            self.lead.led = self.spool.epoch
            self.spool.start = self.spool.mark
        return super().promise(epoch)


class LateAcks(Lead):
    """Acknowledgements of a pipeline which was dropped are counted."""

    late: Pipeline | None = None

    def on_acked(self, member: NodeId, epoch: PipelineEpoch, seq: int) -> None:
        late = self.late
        if late is not None and late.epoch == epoch:
            for entry in late.acknowledge(member, seq):
                if entry.append in self.replica.undecided:
                    entry.append.decided(Fate.COMMITTED)
        else:
            super().on_acked(member, epoch, seq)


class CountsLateAcks(Replica):
    """J4, J7: a primary which was superseded, and has promised a newer epoch, still counts acknowledgements."""

    lead: LateAcks
    lead_class = LateAcks

    def drop_pipeline(self, by: Append | None) -> None:
        if self.pipeline is not None and self.pipeline.in_flight:
            self.lead.late = self.pipeline
        super().drop_pipeline(by)


class CountsBelowStart(Replica):
    """302: a primary counts with its mark, even where its epoch began above."""

    def promise(self, epoch: PipelineEpoch) -> PromiseResponse:
        super().promise(epoch)
        self.spool.start = mark = self.spool.mark
        report = report_of(self, epoch)
        return report if report.points else msgspec.structs.replace(report, points=(Point(mark, mark),))


class SureOfHead(HeadKeeper):
    """301: a pipeline is started while a certification may still be on its way."""

    def is_sure(self, topology: Topology) -> bool:
        self.running = None
        return True


class ForgetsAssignments(HeadKeeper):
    """J4: a certification compares the head record, and no assignment."""

    def certify(self, topology: Topology, head: HeadRecord, head_revision: Revision) -> None:
        whole = certify(self.key, head, head_revision, topology.assignments, topology.route)
        compared = (head_revision, topology.assignments)
        self._run(Purpose.CERTIFY, Transaction(whole.compares[:1], whole.then[:1]), head.epoch, head, whole=compared)


class AnyNumber(Append):
    """303: an epoch may have fewer members than the journal wants."""

    def _too_few(self) -> AppendState | None:
        return None if self.state is AppendState.START_PIPELINE else super()._too_few()
