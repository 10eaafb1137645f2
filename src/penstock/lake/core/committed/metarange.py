"""Metaranges: the table of contents of a tree: its ranges in order, each with its keys and where it is stored.

The **metarange id** is the digest of everything but the locations: equal trees have equal ids on every member, whatever
led to them, and wherever their ranges were written. The **location** of a range is the folder of the attempt which
wrote it, (link epoch, attempt), as lake.md L15 demands: garbage collection goes by locations, comparison by ids.
"""

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NewType

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.boundary import Chunking, is_boundary
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.digest import digest_table
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
    "tree_key",
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


class TreeAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """The id, the folder and the format of a stored tree. Two are the same tree if the ids are."""

    id: MetaRangeId
    location: Location
    format: int = 2  # 2: a metarange of ranges; 3: a root of nodes and leaves


class Range(msgspec.Struct, frozen=True):
    """One row of a metarange."""

    id: RangeId
    min_key: str
    max_key: str
    count: int
    size: int
    location: Location


class MetaRange(Contents):
    """The ranges of one tree of format 2."""

    schema = RANGE_SCHEMA

    @classmethod
    def of_ranges(cls, ranges: Iterable[Range]) -> "MetaRange":
        rows = [msgspec.structs.astuple(each) for each in ranges]
        return cls(pl.DataFrame(rows, schema=RANGE_SCHEMA, orient="row"))

    @cached_property
    def id(self) -> MetaRangeId:
        return MetaRangeId(digest_table(_TAG, self.frame.rechunk().to_arrow(), _CONTENT))

    def __getitem__(self, row: int) -> Range:
        return Range(*self.frame.row(row))

    @cached_property
    def locations(self) -> dict[str, str]:
        """Return the location of each range: a child of this tree may refer to it without writing it."""
        return dict(zip(self.frame["id"].to_list(), self.frame["location"].to_list(), strict=True))

    def segments(self, cut: Chunking) -> npt.NDArray[np.int64]:
        """Return the range after each segment. An open last segment, which may still grow, is not counted."""
        return np.flatnonzero(is_boundary(self.frame["max_key"], cut)) + 1


EMPTY: Final = MetaRange.of_ranges([])
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


def tree_key(tree: TreeAddress) -> str:
    """Return the key of the file that a tree begins with."""
    name = "metarange" if tree.format == 2 else "root"
    return f"{tree.location}/{name}-{tree.id}.parquet"


def metarange_key(location: str, metarange_id: str) -> str:
    return f"{location}/metarange-{metarange_id}.parquet"
