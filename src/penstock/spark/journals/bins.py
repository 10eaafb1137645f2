"""Put the ranges of many journals into few tasks, by their bytes. Design: performance.md D4, spark-2.md T7.

A stream reads whole journals in a task, in the order of their bytes. A hundred journals with a row each are one task,
hence one file of a table. A task has a few megabytes, until there are as many tasks as may run; then they grow.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.spark.journals.ranges import BATCH_ROWS, Range

__all__ = ["BIN_BYTES", "Bin", "bins_of", "read_ranges"]

BIN_BYTES: Final = 4 << 20
SMALL_BYTES: Final = 256 << 10  # of a range that is read next to others, and kept in memory
READERS: Final = 8
GROUP: Final = 64  # small ranges whose rows are in memory at once
ReadRange = Callable[[Range], Iterator[Any]]


class Bin(InputPartition):
    """Ranges of several journals, for one task."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges

    def __repr__(self) -> str:
        return f"Bin({', '.join(map(repr, self.ranges))})"


def bins_of(ranges: Sequence[Range], tasks_max: int, bin_bytes: int = BIN_BYTES) -> list[InputPartition]:
    """Return the tasks that read some ranges. The largest ranges come first, each into the bin with the least bytes."""
    total = sum(each.end - each.begin for each in ranges)
    count = max(1, min(tasks_max, len(ranges), -(-total // bin_bytes)))
    if len(ranges) <= count:
        return list(ranges)
    loads, bins = [0] * count, [list[Range]() for _ in range(count)]
    for each in sorted(ranges, key=lambda one: (one.begin - one.end, one.journal)):
        least = loads.index(min(loads))
        loads[least] += each.end - each.begin
        bins[least].append(each)
    return [each[0] if len(each) == 1 else Bin(tuple(each)) for each in bins]


def read_ranges(partition: InputPartition, read: ReadRange) -> Iterator[Any]:
    """Yield the rows of a task's ranges. Those of a journal are in order; small ranges are read at the same time."""
    ranges = partition.ranges if isinstance(partition, Bin) else (partition,) if isinstance(partition, Range) else ()
    small = [each for each in ranges if each.end - each.begin <= SMALL_BYTES] if len(ranges) > 1 else []
    for each in ranges:
        if each not in small:
            yield from read(each)
    for at in range(0, len(small), GROUP):
        yield from _together(small[at : at + GROUP], read)


def _together(ranges: Sequence[Range], read: ReadRange) -> Iterator[Any]:
    with ThreadPoolExecutor(READERS, "penstock-ranges") as pool:
        batches = [batch for found in pool.map(lambda each: list(read(each)), ranges) for batch in found]
    if batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
