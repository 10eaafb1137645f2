"""A source for Spark which does nothing: record batches that are ready, over and over.

Its cost is that of any source written in Python: workers, the socket, and the rows Spark makes of columns. No reader of
journals can be faster than that.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

__all__ = ["ReadyBatches"]

BATCH_ROWS: Final = 50_000
PARTS: Final = 4


class ReadyBatches(DataSource):
    """`spark.read.format("ready").option("rows", 1_000_000)`: rows of the benchmark's schema."""

    @classmethod
    def name(cls) -> str:
        return "ready"

    def schema(self) -> str:
        return "account string, amount double, kind string, number long"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(int(self.options["rows"]))


class _Reader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self._batches = max(1, rows // BATCH_ROWS // PARTS)  # of each part
        self._batch_rows = rows // PARTS // self._batches

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        numbers = range(self._batch_rows)
        columns = {
            "account": [f"account-{number % 100_000:05}" for number in numbers],
            "amount": [number / 100 for number in numbers],
            "kind": ["deposit"] * self._batch_rows,
            "number": list(numbers),
        }
        batch = pa.record_batch(columns)
        for _ in range(self._batches):
            yield batch
