"""`resolve`: what became of an append whose pipeline broke. Design: journals.md J12.

A pure function of the head table and, for the epoch it is in itself, of one Spool: any broker may answer.
"""

from penstock.journals.core.spool import Spool
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import HeadTable
from penstock.kernel.ids import Offset

__all__ = ["resolve", "resolve_by_table"]


def resolve(spool: Spool, table: HeadTable, epoch: PipelineEpoch, end: Offset) -> Resolution:
    """Return the fate of [.., end) of that epoch."""
    if spool.epoch == epoch and end <= spool.mark:
        return Resolution.COMMITTED
    return resolve_by_table(table, epoch, end)


def resolve_by_table(table: HeadTable, epoch: PipelineEpoch, end: Offset) -> Resolution:
    if table.has_forgotten(epoch):
        return Resolution.EXPIRED
    entry = table.first_after(epoch)
    if entry is None:
        return Resolution.PENDING
    if entry.is_reset:
        return Resolution.LOST_UNKNOWN
    return Resolution.COMMITTED if end <= entry.start else Resolution.ABORTED
