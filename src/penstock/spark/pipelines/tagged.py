"""Put the rows of all sinks of a flow into one DataFrame, and take them apart in tasks. Design: spark-2.md S1.

    _sink int, _0 struct<columns of the first sink>, _1 struct<columns of the second>, ...

A row fills the struct of its own sink; the others are null. So a flow is one streaming query, whatever its function
returns, and Spark keeps the state of every operator in it from batch to batch.
"""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

__all__ = ["kinds_of", "parts_of", "tagged"]

SINK: Final = "_sink"


def tagged(frames: Sequence[DataFrame]) -> DataFrame:
    """Return one DataFrame with the rows of all, each tagged with the number of its own."""
    kinds = [each.schema for each in frames]

    def wrapped(number: int) -> DataFrame:
        columns = [
            (F.struct("*") if other == number else F.lit(None).cast(kind)).alias(f"_{other}")
            for other, kind in enumerate(kinds)
        ]
        return frames[number].select(F.lit(number).alias(SINK), *columns)

    return reduce(DataFrame.union, (wrapped(number) for number in range(len(frames))))


def kinds_of(rows: DataFrame) -> list[StructType]:
    """Return the columns of each sink in tagged rows."""
    return [field.dataType for field in rows.schema.fields[1:] if isinstance(field.dataType, StructType)]


def parts_of(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each sink in a batch of tagged rows, with the sink's number and columns."""
    tags = batch.column(0)
    numbers = pc.unique(tags).to_pylist()
    for number in numbers:
        rows = batch if len(numbers) == 1 else batch.filter(pc.equal(tags, number))
        column = rows.column(number + 1)
        yield number, pa.RecordBatch.from_arrays(column.flatten(), schema=pa.schema(list(column.type)))
