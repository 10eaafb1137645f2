"""A stream of the rows which commits add to a table. Design: spark.md "Source, stream".

An offset is a commit: `{"commit": id}`, and `{}` before the first batch. A batch from one commit to another reads the
files which the later one has and the earlier one has not; what a replay reads is pinned by the two ids. Files which are
gone are refused, since a stream cannot take rows back: `ignoreDeletes` = true passes over them.

With `maxBytesPerTrigger` a batch ends at the last commit that keeps the batch below that size, and has one commit at
least. The first batch is the table as it is. Design: spark-2.md S16.
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
from penstock.spark.versions import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

__all__ = ["LakeStreamReader"]


class LakeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files added since the last batch."""

    def __init__(
        self,
        access: LakeAccess,
        target: LakeUrl,
        schema: StructType,
        *,
        ignores_deletes: bool,
        max_bytes: int | None = None,
    ) -> None:
        self._access = access
        self._target = target
        self._schema = schema
        self._ignores_deletes = ignores_deletes
        self._max_bytes = max_bytes
        self._planned: dict[str, Any] = {}  # the end of the newest batch; Spark tells it at a restart too
        self._last = ""  # the commit where a run up to now ends
        self._store = place_at(access, target).store

    def initialOffset(self) -> dict[str, Any]:
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._max_bytes is None else ReadMaxBytes(self._max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        self._last = self._head()

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Return the commit where the next batch ends. Before 4.2 Spark tells neither start nor limit."""
        begun = self._planned if start is None else start
        limit = self.getDefaultReadLimit() if limit is None else limit
        head = self._last or self._head()
        if not begun or not isinstance(limit, ReadMaxBytes) or begun["commit"] == head:
            return {"commit": head}
        return {"commit": self._limited(begun["commit"], head, limit.max_bytes)}

    def _head(self) -> str:
        return place_at(self._access, self._target).commit

    def _limited(self, begun: str, head: str, max_bytes: int) -> str:
        """Return the last commit from `begun` to `head` whose batch has at most this many bytes; the next at least."""
        api = f"{LakeUrl(self._target.repository, head).ref_api}/commits"
        ids = [each["id"] for each in self._access.pages(api, first_parent=True, stop_at=begun)]
        if begun not in ids:
            return head  # the branch was reset: its commits do not lead here one by one
        end, size = begun, 0
        for commit in reversed(ids[: ids.index(begun)]):
            changed = changed_files(self._access, self._target, end, commit)
            size += sum(each.file.size for each in changed if each.kind == "insert")
            if size > max_bytes and end != begun:
                return end
            end = commit
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._planned = end
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
