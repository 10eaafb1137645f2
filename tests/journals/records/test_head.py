"""The head record's table: the first later entry decides, and dropped entries are known to be."""

import pytest

from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, LEFT_MAX, TABLE_MAX, EpochStart, HeadRecord, HeadTable
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
    for number in range(TABLE_MAX + 2):
        full = full.with_entry(EpochStart(epoch(number + 1), Offset(number)))
    assert len(full.entries) == TABLE_MAX
    assert full.is_cut
    assert full.has_forgotten(epoch(1))
    assert not full.has_forgotten(epoch(2))
    assert not EMPTY_TABLE.has_forgotten(epoch(1))


def test_the_entry_stays_after_which_a_broker_left() -> None:
    table = EMPTY_TABLE
    a, b, c = map(NodeId, "abc")
    for number in range(TABLE_MAX + 10):
        left = (b,) if number == 2 else ()
        table = table.with_entry(EpochStart(epoch(number + 1), Offset(number), left=left), (a, c))
    assert len(table.entries) == TABLE_MAX + 1
    decides = table.first_after(epoch(2))
    assert decides is not None
    assert (decides.epoch, table.has_forgotten(epoch(2))) == (epoch(3), False)
    assert table.has_forgotten(epoch(1)), "its next entry is gone"
    assert table.has_forgotten(epoch(3)), "the entry that follows in the table is not the next one of this epoch"
    back = table.with_entry(EpochStart(epoch(TABLE_MAX + 11), Offset(TABLE_MAX + 10)), (a, b, c))
    assert len(back.entries) == TABLE_MAX, "a member again: its earlier content was judged by that entry"


def test_entries_of_brokers_that_left_have_a_bound() -> None:
    table = EMPTY_TABLE
    for number in range(TABLE_MAX + LEFT_MAX + 20):
        table = table.with_entry(EpochStart(epoch(number + 1), Offset(number), left=(NodeId(f"b{number}"),)))
    assert len(table.entries) == TABLE_MAX + LEFT_MAX


def test_content_that_few_members_had_is_in_doubt() -> None:
    entry = EpochStart(epoch(2), Offset(10), sure=Offset(7))
    table = EMPTY_TABLE.with_entry(EpochStart(epoch(1), Offset(0))).with_entry(entry)
    assert [table.is_in_doubt(Offset(end)) for end in (0, 7, 8, 10, 11)] == [False, False, True, True, False]


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
