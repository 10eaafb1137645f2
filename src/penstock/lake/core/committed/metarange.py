"""Metaranges: the table of contents of a tree: its ranges in order, each with its keys and where it is stored.

The **metarange id** is the digest of everything but the locations: equal trees have equal ids on every member, whatever
led to them, and wherever their ranges were written. The **location** of a range is the folder of the attempt which
wrote it, (link epoch, attempt), as lake.md L15 demands: garbage collection goes by locations, comparison by ids.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NewType

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.boundary import Chunking, is_boundary
from penstock.lake.core.committed.digest import digest_table
from penstock.lake.core.committed.entry import successor
from penstock.lake.core.committed.range import (
    RangeId,
    frame_of,
    narrow_schema,
    other_content,
    read_parquet,
    table_of,
    write_parquet,
)

__all__ = [
    "EMPTY",
    "EMPTY_TREE",
    "RANGE_SCHEMA",
    "Location",
    "MetaRange",
    "MetaRangeId",
    "Range",
    "TreeAddress",
    "decode_metarange",
    "encode_metarange",
    "location_of",
    "metarange_key",
    "range_key",
]

MetaRangeId = NewType("MetaRangeId", str)  # 64 hexadecimal digits
Location = NewType("Location", str)  # the folder of one attempt, below the repository's storage namespace

RANGE_SCHEMA: Final = pl.Schema(
    {
        "id": pl.String(),
        "min_key": pl.String(),
        "max_key": pl.String(),
        "count": pl.Int64(),
        "size": pl.Int64(),
        "location": pl.String(),
    }
)
_NARROW: Final = narrow_schema(RANGE_SCHEMA)
_ATTEMPT: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TAG: Final = "penstock metarange 2"
_CONTENT: Final = ("id", "min_key", "max_key", "count", "size")


class TreeAddress(msgspec.Struct, frozen=True):
    """A metarange and where it is stored, which is enough to read a tree. Two are the same tree if the ids are."""

    id: MetaRangeId
    location: Location


class Range(msgspec.Struct, frozen=True):
    """One row of a metarange."""

    id: RangeId
    min_key: str
    max_key: str
    count: int
    size: int
    location: Location


class MetaRange:
    """The ranges of one tree, in key order and disjoint. Immutable."""

    def __init__(self, frame: pl.DataFrame) -> None:
        assert frame.schema == RANGE_SCHEMA, frame.schema
        self.frame: Final = frame

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> "MetaRange":
        rows = [msgspec.structs.astuple(each) for each in ranges]
        return cls(pl.DataFrame(rows, schema=RANGE_SCHEMA, orient="row"))

    @cached_property
    def id(self) -> MetaRangeId:
        return MetaRangeId(digest_table(_TAG, self.frame.rechunk().to_arrow(), _CONTENT))

    def __len__(self) -> int:
        return self.frame.height

    def __getitem__(self, row: int) -> Range:
        return Range(*self.frame.row(row))

    @property
    def count(self) -> int:
        """The number of entries."""
        return int(self.frame["count"].sum())

    @cached_property
    def max_keys(self) -> list[str]:
        return self.frame["max_key"].to_list()

    @cached_property
    def min_keys(self) -> list[str]:
        return self.frame["min_key"].to_list()

    @cached_property
    def locations(self) -> dict[str, str]:
        """Return the location of each range: a child of this tree may refer to it without writing it."""
        return dict(zip(self.frame["id"].to_list(), self.frame["location"].to_list(), strict=True))

    def find(self, path: str) -> int | None:
        """The range which holds the path, if any does."""
        row = bisect_left(self.max_keys, path)
        return row if row < len(self) and self.min_keys[row] <= path else None

    def below(self, prefix: str) -> range:
        """The ranges which may hold paths with the prefix."""
        end = successor(prefix)
        last = len(self) if end is None else bisect_left(self.min_keys, end)
        return range(bisect_left(self.max_keys, prefix), last)

    def segments(self, chunking: Chunking) -> npt.NDArray[np.int64]:
        """Return where segments end: range numbers, exclusive. An open last segment, which may still grow, is not
        counted.
        """
        return np.flatnonzero(is_boundary(self.frame["max_key"], chunking)) + 1

    def check(self) -> None:
        """Ranges are not empty, in order and disjoint."""
        lows, highs = self.min_keys, self.max_keys
        assert all(low <= high for low, high in zip(lows, highs, strict=True))
        assert all(high < low for high, low in zip(highs, lows[1:], strict=False))
        assert self.frame["count"].min() != 0


EMPTY: Final = MetaRange.of([])
EMPTY_TREE: Final = TreeAddress(EMPTY.id, Location(""))  # is stored nowhere


def encode_metarange(metarange: MetaRange) -> memoryview:
    return write_parquet(table_of(metarange.frame))


def decode_metarange(data: bytes | memoryview, expected: MetaRangeId) -> MetaRange:
    """Return the metarange in a file, if it is the one that the id names."""
    metarange = MetaRange(frame_of(read_parquet(data, _NARROW, expected)))
    if metarange.id != expected:
        raise other_content(f"metarange {expected} holds another tree: its id is {metarange.id}")
    return metarange


def location_of(link_epoch: int, attempt: str) -> Location:
    """The folder of one attempt: everything it writes lies there, and it refers to nothing it found elsewhere (L15)."""
    if link_epoch < 0 or not _ATTEMPT.fullmatch(attempt):
        raise InvalidArgument(f"no attempt: {link_epoch}, {attempt!r}")
    return Location(f"_penstock/{link_epoch:08d}/{attempt}")


def range_key(location: str, range_id: str) -> str:
    return f"{location}/range-{range_id}.parquet"


def metarange_key(location: str, metarange_id: str) -> str:
    return f"{location}/metarange-{metarange_id}.parquet"
