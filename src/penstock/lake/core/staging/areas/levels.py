"""Levels of a branch's index: sorted paths, and where the change of each is. Design: lake.md L6."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.lake.core.staging.areas.run import bisect, merge_order

__all__ = ["IndexLevel", "LevelCursor"]


class IndexLevel:
    """Sorted paths and where their changes are. Never changed: what hides some of its rows makes another one."""

    def __init__(
        self,
        paths: pa.LargeStringArray,
        locators: npt.NDArray[np.int64],
        live: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.paths = paths
        self.locators = locators
        self.live = np.flatnonzero(locators >= 0) if live is None else live  # the rows which are shown

    def __len__(self) -> int:
        return len(self.paths)

    def hidden_by(self, newer: pa.LargeStringArray) -> "IndexLevel":
        """The same level under some newer paths."""
        if not len(self.live):
            return self
        at = pc.search_sorted(self.paths, newer).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.minimum(at, len(self) - 1)
        same: npt.NDArray[np.bool_] = np.array(pc.equal(self.paths.take(pa.array(rows)), newer))
        if not same.any():
            return self
        return IndexLevel(self.paths, self.locators, np.setdiff1d(self.live, rows[same], assume_unique=True))

    def merged(self, newer: "IndexLevel") -> "IndexLevel":
        order = merge_order(self.paths, newer.paths)
        paths = pa.concat_arrays([self.paths, newer.paths]).take(pa.array(order))
        return IndexLevel(paths, np.concatenate([self.locators, newer.locators])[order])

    def row(self, path: str) -> int:
        """The first row not before the path."""
        return bisect(self.paths, path)

    def has(self, paths: pa.LargeStringArray) -> npt.NDArray[np.bool_]:
        """Return which of these paths the level has, tombstones included."""
        if not len(self):
            return np.zeros(len(paths), dtype=np.bool_)
        at = pc.search_sorted(self.paths, paths).to_numpy(zero_copy_only=False).astype(np.int64)
        there = self.paths.take(pa.array(np.minimum(at, len(self) - 1)))
        found: npt.NDArray[np.bool_] = np.array(pc.equal(there, paths))
        found &= at < len(self)
        return found


class LevelCursor:
    """Goes over the live rows of a level."""

    def __init__(self, level: IndexLevel, start: str, stop: str | None) -> None:
        ends = (level.row(start), len(level) if stop is None else level.row(stop))
        self._level = level
        self._at, self._end = (int(place) for place in np.searchsorted(level.live, ends))

    @property
    def is_open(self) -> bool:
        return self._at < self._end

    def has_more(self, count: int) -> bool:
        return self._at + count < self._end

    def peek(self, count: int) -> pa.LargeStringArray:
        rows = self._level.live[self._at : min(self._at + count, self._end)]
        return self._level.paths.take(pa.array(rows, pa.int64()))

    def take(self, block: pa.LargeStringArray, bound: str | None) -> tuple[pa.LargeStringArray, npt.NDArray[np.int64]]:
        """Return the rows of a peeked block up to the bound, and their locators; the cursor moves past them."""
        if bound is not None and len(block):
            block = block[: bisect(block, bound, "right")]
        rows = self._level.live[self._at : self._at + len(block)]
        self._at += len(block)
        return block, self._level.locators[rows]
