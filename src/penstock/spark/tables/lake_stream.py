"""A stream of the rows which commits add to a table. Design: spark.md "Source, stream".

An offset is a commit: `{"commit": id}`, and `{}` before the first batch. A batch from one commit to another reads the
files which the later one has and the earlier one has not; what a replay reads is pinned by the two ids. Files which are
gone are refused, since a stream cannot take rows back: `ignoreDeletes` = true passes over them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.kernel.errors import InvalidArgument
from penstock.lake.client.lake import LakeUrl
from penstock.spark.tables.lake_access import LakeAccess
from penstock.spark.tables.lake_reader import FilePartition, read_file
from penstock.spark.tables.lake_tree import changed_files, files_of, key_of, place_at
from penstock.spark.versions import ReadLimit

__all__ = ["LakeStreamReader"]


class LakeStreamReader(DataSourceStreamReader):
    """Reads the files added since the last batch."""

    def __init__(self, access: LakeAccess, target: LakeUrl, schema: StructType, *, ignores_deletes: bool) -> None:
        self._access = access
        self._target = target
        self._schema = schema
        self._ignores_deletes = ignores_deletes
        self._store = place_at(access, target).store

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        return {"commit": place_at(self._access, self._target).commit}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if not end:
            return []
        repository, path = self._target.repository, self._target.path
        if not start:
            found = files_of(self._access, LakeUrl(repository, end["commit"], path))
            return [FilePartition(key_of(found.place, each)) for each in found.files]
        place = place_at(self._access, LakeUrl(repository, end["commit"]))
        changed = changed_files(self._access, self._target, start["commit"], end["commit"])
        gone = [each.file.path for each in changed if each.kind == "delete"]
        if gone and not self._ignores_deletes:
            raise InvalidArgument(
                f"{len(gone)} files of {path} are gone or changed, the first is {gone[0]!r}: "
                "a stream of additions cannot take rows back; option ignoreDeletes = true passes over it"
            )
        return [FilePartition(key_of(place, each.file)) for each in changed if each.kind == "insert"]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, FilePartition)
        yield from read_file(self._store, partition.key, self._schema)
