"""Ranges of many journals in few tasks: each range is in one task, and small ones are read together. No Spark runs."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.journals.bins import BIN_BYTES, SMALL_BYTES, Bin, bins_of, read_ranges
from penstock.spark.journals.ranges import Range


def ranges_of(sizes: list[int]) -> list[Range]:
    return [Range(f"j{at:03d}", 10, 10 + size, "json", "", None) for at, size in enumerate(sizes)]


def inside(partition: Any) -> tuple[Range, ...]:
    return partition.ranges if isinstance(partition, Bin) else (partition,)


def test_a_hundred_journals_with_a_row_each_are_one_task() -> None:
    (one,) = bins_of(ranges_of([40] * 100), 4)
    assert len(inside(one)) == 100
    (alone,) = bins_of(ranges_of([40]), 4)
    assert isinstance(alone, Range)  # a journal of its own is as it always was


@given(st.lists(st.integers(1, 3 * BIN_BYTES), max_size=60), st.integers(1, 9))
def test_each_range_is_in_one_task_and_no_task_has_much_more_than_its_share(sizes: list[int], tasks: int) -> None:
    ranges = ranges_of(sizes)
    found = bins_of(ranges, tasks)
    assert len(found) <= max(tasks, 1)
    assert sorted(each.journal for part in found for each in inside(part)) == [each.journal for each in ranges]
    loads = [sum(each.end - each.begin for each in inside(part)) for part in found]
    if loads:
        assert max(loads) <= sum(loads) / len(loads) + max(sizes)


@pytest.mark.parametrize("size", [100, SMALL_BYTES + 1])
def test_all_rows_of_a_task_are_read_those_of_a_journal_in_order(size: int) -> None:
    def read(part: Range) -> Iterator[Any]:
        for number in range(3):
            yield pa.RecordBatch.from_pydict({"journal": [part.journal], "n": [number]})

    bins = bins_of(ranges_of([size] * 70), 1)
    batches = [batch for each in bins for batch in read_ranges(each, read)]
    rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert sorted(rows) == [(f"j{at:03d}", number) for at in range(70) for number in range(3)]
    assert [number for journal, number in rows if journal == "j007"] == [0, 1, 2]
    assert len(batches) == (2 if size == 100 else 210)  # small ones are few batches


def test_a_failure_of_one_range_is_that_of_its_task() -> None:
    def read(part: Range) -> Iterator[Any]:
        if part.journal == "j003":
            raise ValueError("gone")
        yield pa.RecordBatch.from_pydict({"n": [1]})

    (task,) = bins_of(ranges_of([10] * 5), 2)
    with pytest.raises(ValueError, match="gone"):
        list(read_ranges(task, read))
