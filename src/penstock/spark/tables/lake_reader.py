"""`spark.read.format("lake")`: small tables, a task for each file. Large ones: `penstock.spark.read_table`."""

import asyncio
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.kernel.errors import NotFound
from penstock.lake.client.lake import LakeUrl
from penstock.plumbing.objects import open_store
from penstock.spark.tables.lake_access import LakeAccess
from penstock.spark.tables.lake_tree import TableFiles, files_of, key_of
from penstock.spark.tables.table_columns import columns_at
from penstock.spark.versions import from_arrow, to_arrow

__all__ = ["FilePartition", "LakeReader", "read_file", "spark_schema"]


@dataclass
class FilePartition(InputPartition):
    """One file, by its key in the store."""

    key: str


def spark_schema(access: LakeAccess, target: LakeUrl) -> StructType:
    """The table's schema: its newest file's, with nothing required."""
    found = files_of(access, target)
    if not found.files:
        raise NotFound(f"lake://{target.repository}@{target.ref}/{target.path} has no files yet")
    if found.schema_etag:
        return columns_at(access, LakeUrl(target.repository, found.place.commit, target.path), found.schema_etag)
    schema = pq.read_schema(io.BytesIO(_read(found.place.store, key_of(found.place, found.newest))))
    return _nullable(from_arrow(schema.remove_metadata(), ntz=True))


class LakeReader(DataSourceReader):
    """Reads the files of one commit, which was resolved when the DataFrame was made."""

    def __init__(self, access: LakeAccess, target: LakeUrl, schema: StructType) -> None:
        found: TableFiles = files_of(access, target)
        self._store = found.place.store
        self._keys = [key_of(found.place, each) for each in found.files]
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [FilePartition(key) for key in self._keys]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, FilePartition)
        yield from read_file(self._store, partition.key, self._schema)


def read_file(store: str, key: str, schema: StructType) -> Iterator[pa.RecordBatch]:
    """A file's rows, exactly as Spark wants them."""
    target = to_arrow(schema)
    table = pq.read_table(io.BytesIO(_read(store, key)))
    absent = [field for field in target if field.name not in table.column_names]
    for field in absent:  # the file is older than the column
        table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    yield from table.select(target.names).cast(target).to_batches()


def _read(store_url: str, key: str) -> bytes:
    async def read() -> bytes:
        async with open_store(store_url) as store:
            return bytes((await store.get(key)).data)

    return asyncio.run(read())


def _nullable(schema: StructType) -> StructType:
    for field in schema.fields:
        field.nullable = True
    return schema
