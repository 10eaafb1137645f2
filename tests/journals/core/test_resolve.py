"""What became of an append: told by the first later epoch, by any broker which knows it."""

import pytest

from penstock.journals.core.resolve import resolve
from penstock.journals.core.spool import Spool
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EpochStart, HeadTable
from penstock.kernel.ids import Incarnation, Offset, Revision


def epoch(revision: int) -> PipelineEpoch:
    return PipelineEpoch(Revision(revision), 1)


def spool(revision: int, mark: int) -> Spool:
    made = Spool("a/journal", Incarnation("i"), [], is_kept=False)
    made.epoch, made.mark = epoch(revision), Offset(mark)
    return made


TABLE = HeadTable((EpochStart(epoch(4), Offset(0)), EpochStart(epoch(8), Offset(10)), EpochStart(epoch(9), Offset(30))))


@pytest.mark.parametrize(
    ("asked", "end", "expected"),
    [
        (4, 10, Resolution.COMMITTED),
        (4, 11, Resolution.ABORTED),
        (5, 20, Resolution.ABORTED),
        (8, 30, Resolution.COMMITTED),
        (9, 31, Resolution.PENDING),
    ],
)
def test_the_first_later_epoch_decides(asked: int, end: int, expected: Resolution) -> None:
    assert resolve(spool(3, 0), TABLE, epoch(asked), Offset(end)) is expected


def test_a_spool_of_the_same_epoch_knows_what_is_below_its_mark() -> None:
    assert resolve(spool(9, 31), TABLE, epoch(9), Offset(31)) is Resolution.COMMITTED
    assert resolve(spool(9, 31), TABLE, epoch(9), Offset(32)) is Resolution.PENDING


def test_a_reset_leaves_only_the_store_to_ask() -> None:
    table = HeadTable((EpochStart(epoch(8), Offset(1_000), is_reset=True),))
    assert resolve(spool(3, 0), table, epoch(4), Offset(1)) is Resolution.LOST_UNKNOWN


def test_what_the_table_has_forgotten_is_expired() -> None:
    table = HeadTable(TABLE.entries, is_cut=True)
    assert resolve(spool(3, 0), table, epoch(3), Offset(1)) is Resolution.EXPIRED
    assert resolve(spool(3, 0), table, epoch(4), Offset(1)) is Resolution.COMMITTED
