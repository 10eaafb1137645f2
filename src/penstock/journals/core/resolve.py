"""`resolve`: what became of an append whose pipeline broke. Design: journals.md J12.

A pure function of the head table and, for the epoch it is in itself, of one Spool: any broker may answer.
"""

from typing import Final

from penstock.journals.core.spool import Spool
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import HeadTable
from penstock.kernel.ids import Offset

__all__ = ["resolve", "resolve_by_table"]

NOTHING: Final = Offset(0)


def resolve(
    spool: Spool, table: HeadTable, epoch: PipelineEpoch, end: Offset, stored_to: Offset = NOTHING
) -> Resolution:
    """Return the fate of [.., end) of that epoch. Everything below `stored_to` is in the store."""
    if spool.epoch == epoch and end <= spool.mark:
        return Resolution.COMMITTED
    return resolve_by_table(table, epoch, end, stored_to)


def resolve_by_table(table: HeadTable, epoch: PipelineEpoch, end: Offset, stored_to: Offset = NOTHING) -> Resolution:
    if table.has_forgotten(epoch):
        return Resolution.EXPIRED
    entry = table.first_after(epoch)
    if entry is None:
        return Resolution.PENDING
    if entry.is_reset:
        return Resolution.LOST_UNKNOWN
    if end > entry.start:
        return Resolution.ABORTED
    is_sure = entry.sure is None or end <= max(entry.sure, stored_to)
    return Resolution.COMMITTED if is_sure else Resolution.PENDING
