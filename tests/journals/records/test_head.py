"""The head record's table: the first later entry decides, and dropped entries are known to be."""

import pytest

from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, TABLE_MAX, EpochStart, HeadRecord, HeadTable
from penstock.journals.records.registers import NO_REGISTERS
from penstock.kernel.ids import NodeId, Offset, Revision


def epoch(revision: int) -> PipelineEpoch:
    return PipelineEpoch(Revision(revision), 1)


def table(*starts: int) -> HeadTable:
    return HeadTable(tuple(EpochStart(epoch(10 * (n + 1)), Offset(start)) for n, start in enumerate(starts)))


def test_the_first_later_entry_decides() -> None:
    assert table(0, 5, 9).first_after(epoch(10)) == EpochStart(epoch(20), Offset(5))
    assert table(0, 5, 9).first_after(epoch(30)) is None


def test_a_full_table_forgets_its_oldest() -> None:
    full = EMPTY_TABLE
    for number in range(TABLE_MAX + 1):
        full = full.with_entry(EpochStart(epoch(number + 1), Offset(number)))
    assert len(full.entries) == TABLE_MAX
    assert full.is_cut
    assert full.has_forgotten(epoch(1))
    assert not full.has_forgotten(epoch(2))
    assert not EMPTY_TABLE.has_forgotten(epoch(1))


def test_check_holds_the_order_of_epochs_and_starts() -> None:
    def record(starts: HeadTable) -> HeadRecord:
        last = starts.entries[-1]
        return HeadRecord(
            create_revision=Revision(1),
            epoch=last.epoch,
            start=last.start,
            members=(),
            primary=NodeId("a"),
            registers=NO_REGISTERS,
            limit=Offset(100),
            table=starts,
        )

    record(table(0, 5, 5)).check()
    with pytest.raises(AssertionError, match="I7"):
        record(table(0, 5, 4)).check()
