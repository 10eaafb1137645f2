"""Name parts of a tree in key order: ranges, leaves or nodes, each with its least and greatest key."""

from bisect import bisect_left
from functools import cached_property
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.lake.core.committed.entry import successor

__all__ = ["Contents"]


class Contents:
    """Parts of one tree, disjoint and in key order. Immutable."""

    schema: ClassVar[pl.Schema]

    def __init__(self, frame: pl.DataFrame) -> None:
        assert frame.schema == self.schema, frame.schema
        self.frame: Final = frame

    @classmethod
    def empty(cls) -> Self:
        return cls(pl.DataFrame(schema=cls.schema))

    def __len__(self) -> int:
        return self.frame.height

    @property
    def count(self) -> int:
        """Return the number of entries."""
        return int(self.frame["count"].sum())

    @cached_property
    def max_keys(self) -> list[str]:
        return self.frame["max_key"].to_list()

    @cached_property
    def min_keys(self) -> list[str]:
        return self.frame["min_key"].to_list()

    @cached_property
    def ids(self) -> list[str]:
        return self.frame["id"].to_list()

    @cached_property
    def counts(self) -> list[int]:
        return self.frame["count"].to_list()

    def of(self, rows: Any) -> Self:
        """Return some of the rows: a slice, or their numbers."""
        if isinstance(rows, list) and len(rows) == len(self) and rows == [*range(len(rows))]:
            return self
        return type(self)(self.frame[rows])

    def find(self, path: str) -> int | None:
        """The part which holds the path, if any does."""
        row = bisect_left(self.max_keys, path)
        return row if row < len(self) and self.min_keys[row] <= path else None

    def below(self, prefix: str) -> range:
        """The parts which may hold paths with the prefix."""
        end = successor(prefix)
        last = len(self) if end is None else bisect_left(self.min_keys, end)
        return range(bisect_left(self.max_keys, prefix), last)

    def segments(self, cut: Any) -> npt.NDArray[np.int64]:
        """Return the row after each part that ends where it does whatever follows. An open last part is left out."""
        raise NotImplementedError

    def check(self) -> None:
        """Parts are not empty, in order and disjoint."""
        lows, highs = self.min_keys, self.max_keys
        assert all(low <= high for low, high in zip(lows, highs, strict=True))
        assert all(high < low for high, low in zip(highs, lows[1:], strict=False))
        assert self.frame["count"].min() != 0
