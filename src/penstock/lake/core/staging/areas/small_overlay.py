"""All uncommitted changes of a branch, when they are few: a dict of rows under the memtable. Design: lake.md L6.

It answers what `Overlay` answers, for as long as all runs of a branch together are small: most branches, most of the
time. A call of Arrow costs some microseconds, a look into a dict a tenth of one.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from penstock.lake.core.staging.areas.entry_columns import batch_of
from penstock.lake.core.staging.entry import Change, Entry

__all__ = ["SmallBlock", "SmallOverlay"]

Rows = Mapping[str, Entry | None]


class SmallOverlay:
    """The newest change of each path. Nothing in it ever changes; any thread may use it."""

    def __init__(self, rows: Rows, memtable: Rows) -> None:
        self._rows = rows
        self._memtable = memtable

    def find(self, path: str) -> tuple[Entry | None] | None:
        """The newest change of a path: (entry,), (None,) for a tombstone, None if nothing is staged."""
        if path in self._memtable:
            return (self._memtable[path],)
        return (self._rows[path],) if path in self._rows else None

    def covers(self, paths: Sequence[str]) -> list[bool]:
        """Return which of these paths have an uncommitted change, an entry or a tombstone, which hides the committed
        entry.
        """
        return [path in self._memtable or path in self._rows for path in paths]

    def entries(self, start: str = "", stop: str | None = None) -> Iterator[tuple[str, Entry]]:
        """Staged entries (no tombstones) in [start, stop), sorted."""
        rows = self._live
        end = len(rows) if stop is None else bisect_left(rows, stop, key=_path)
        yield from rows[bisect_left(rows, start, key=_path) : end]

    def blocks(self, start: str = "", stop: str | None = None) -> "Iterator[SmallBlock]":
        """The same in one block."""
        yield SmallBlock(list(self.entries(start, stop)))

    def changed_in(self, start: str, stop: str | None) -> int:
        """Return how many changes there are in [start, stop)."""
        end = len(self._all) if stop is None else bisect_left(self._all, stop, key=_path)
        return end - bisect_left(self._all, start, key=_path)

    def changes_from(self, start: str, count: int) -> list[Change]:
        """Return the first changes from a path on, tombstones included, sorted: at most `count`, none at the end."""
        first = bisect_left(self._all, start, key=_path)
        return self._all[first : first + count]

    def changes(self) -> Iterator[Change]:
        """Everything staged, tombstones included, sorted."""
        yield from self._all

    def batch(self) -> pa.RecordBatch:
        """Everything staged, tombstones included, as sorted columns: what a commit writes."""
        return batch_of(self._all)

    def top(self) -> pa.RecordBatch:
        """The rows of the memtable."""
        return batch_of(sorted(self._memtable.items(), key=_path))

    @cached_property
    def _all(self) -> list[Change]:
        return sorted({**self._rows, **self._memtable}.items(), key=_path)

    @cached_property
    def _live(self) -> list[tuple[str, Entry]]:
        return [(path, entry) for path, entry in self._all if entry is not None]


class SmallBlock:
    """Staged entries by path, sorted."""

    def __init__(self, rows: list[tuple[str, Entry]]) -> None:
        self.paths = [path for path, _ in rows]
        self._rows = rows

    def entries(self, rows: Sequence[int]) -> list[Entry]:
        """Return the entries of some of the paths."""
        return [self._rows[row][1] for row in rows]


def _path(change: Change) -> str:
    return change[0]
