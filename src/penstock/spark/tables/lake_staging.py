"""Files which a task stages for the lake: Arrow batches in, Parquet in the store, and what to say of each file.

Every attempt of a task writes to addresses of its own, named by a random id: what a failed, speculative or late attempt
leaves there is never linked, and removed by age. Files and row groups are cut by bytes, so a task's memory is bounded.
"""

import hashlib
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.lake.records.sink_batch import BatchFile, staged_address
from penstock.spark.tables.staging_place import StagingPlace

__all__ = ["StagedFiles", "partition_folder", "stage"]

ROW_GROUP_BYTES: Final = 64 << 20  # of Arrow data
FILE_BYTES: Final = 128 << 20  # of Parquet
HELD_BYTES_MAX: Final = 256 << 20  # in one task, over all partitions
HOST: Final = socket.gethostname()[:200]
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


def stage(
    batches: Iterable[pa.RecordBatch], place: StagingPlace, prefix: str, name: str, partition_by: Sequence[str] = ()
) -> list[BatchFile]:
    """Write batches below a table's prefix; the files they became."""
    files = StagedFiles(place, prefix, name, partition_by)
    for batch in batches:
        files.add(batch)
    return files.finish()


class StagedFiles:
    """The files of one attempt of one task."""

    def __init__(self, place: StagingPlace, prefix: str, name: str, partition_by: Sequence[str] = ()) -> None:
        self._place = place
        self._prefix = prefix
        self._name = name
        self._partition_by = tuple(partition_by)
        self._attempt = secrets.token_hex(12)
        self._open: dict[str, _File] = {}  # by partition folder
        self._files: list[BatchFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        for folder, rows in _by_partition(batch, self._partition_by):
            file = self._open.setdefault(folder, _File())
            file.add(rows)
            if file.is_full:
                self._close(folder)
        while sum(each.held_bytes for each in self._open.values()) > HELD_BYTES_MAX:
            self._close(max(self._open, key=lambda folder: self._open[folder].held_bytes))

    def finish(self) -> list[BatchFile]:
        for folder in list(self._open):
            self._close(folder)
        return self._files

    def _close(self, folder: str) -> None:
        file = self._open.pop(folder)
        data = file.finish()
        number = len(self._files)
        address = staged_address(self._place.place.data, self._attempt, number)
        self._place.put_file(address, data)
        path = f"{self._prefix}{folder}{self._name}-{self._attempt}-{number:05d}.parquet"
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        self._files.append(BatchFile(path, address, len(data), etag, file.rows, HOST))


class _File:
    """A Parquet file being made in memory."""

    def __init__(self) -> None:
        self.rows = 0
        self._batches: list[pa.RecordBatch] = []
        self._batch_bytes = 0
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None

    @property
    def held_bytes(self) -> int:
        return self._batch_bytes + int(self._sink.tell())

    @property
    def is_full(self) -> bool:
        return int(self._sink.tell()) >= FILE_BYTES

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._batches.append(batch)
        self._batch_bytes += batch.nbytes
        if self._batch_bytes >= ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        """Write the gathered batches as one row group: small ones make readers slow."""
        table = pa.Table.from_batches(self._batches)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._sink, table.schema, compression="snappy", store_schema=False)
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._batches, self._batch_bytes = [], 0

    def finish(self) -> memoryview:
        if self._batches:
            self._write_group()
        assert self._writer is not None, "a file without rows"
        self._writer.close()
        return memoryview(self._sink.getvalue())


def _by_partition(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a batch by the folder they go to. Partition columns stay in the files, so a reader of a single file
    has them.
    """
    if batch.num_rows == 0:
        return
    if not columns:
        yield "", batch
        return
    keys = pa.Table.from_batches([batch.select(columns)])
    for combination in keys.group_by(list(columns)).aggregate([]).to_pylist():
        mask: Any = None
        for name, value in combination.items():
            column = batch.column(name)
            same = pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))
            mask = same if mask is None else pc.and_kleene(mask, same)
        yield partition_folder(combination), batch.filter(mask)


def partition_folder(values: dict[str, Any]) -> str:
    """
    >>> partition_folder({"day": "2026-11-15", "shop": "a/b", "note": None})
    'day=2026-11-15/shop=a%2Fb/note=__HIVE_DEFAULT_PARTITION__/'
    """
    return "".join(
        f"{quote(name, safe='')}={NO_VALUE if value is None else quote(str(value), safe=' :+,')}/"
        for name, value in values.items()
    )
