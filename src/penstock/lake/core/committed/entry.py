"""Frames of entries: what a tree says about many objects, as columns.

Design: lake.md, L9 and L15; committed.md. One `Entry` (`lake/core/staging/entry.py`) is for the edges; in
bulk entries travel as a Polars frame with `ENTRY_SCHEMA`, sorted by path. Two notions of "the same":

- the **stored entry**: every column, address and mtime included. Range ids and re-parenting (L9) go by it.
- the **identity**: size, ETag, content type, metadata. Diffs and merge conflicts go by it, so uploading the same bytes
  again is no change. Where the ETag is absent, the address takes its place: nothing else identifies the bytes.

A frame of entries always has every column, no nulls, and strictly ascending paths (by UTF-8 bytes, which is the order
of code points too: Polars, Python and Spark agree). An address with "://" in it is a full one, as imported, and never
deleted by us; any other lies below the repository's storage namespace.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.staging.entry import Entry

__all__ = [
    "ENTRY_SCHEMA",
    "PATH_BYTES_MAX",
    "STORED_COLUMNS",
    "check_entries",
    "decode_metadata",
    "empty_entries",
    "encode_metadata",
    "entries_from",
    "entry_of",
    "identity",
    "is_ascending",
    "is_full_address",
    "row_of",
    "same",
    "sort_entries",
    "successor",
]

PATH_BYTES_MAX: Final = 1024  # S3's own limit

ENTRY_SCHEMA: Final = pl.Schema(
    {
        "path": pl.String(),
        "address": pl.String(),
        "size": pl.Int64(),
        "etag": pl.String(),
        "mtime_ns": pl.Int64(),
        "content_type": pl.String(),
        "metadata": pl.String(),  # JSON with sorted keys, empty for none: comparable, and readable everywhere
    }
)
_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xE000)  # no characters: UTF-8 has no bytes for them

STORED_COLUMNS: Final = tuple(name for name in ENTRY_SCHEMA if name != "path")


def encode_metadata(metadata: Mapping[str, str]) -> str:
    """The one spelling of a metadata map: JSON with sorted keys and no blanks; nothing for an empty one.

    >>> encode_metadata({"b": "2", "a": "1"})
    '{"a":"1","b":"2"}'
    """
    return msgspec.json.encode(dict(metadata), order="deterministic").decode() if metadata else ""


def decode_metadata(text: str) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def is_full_address(address: str) -> bool:
    """Return whether the object lies outside our storage namespace, so that it is not ours to delete."""
    return "://" in address


def empty_entries() -> pl.DataFrame:
    return pl.DataFrame(schema=ENTRY_SCHEMA)


def entries_from(entries: Iterable[tuple[str, Entry]]) -> pl.DataFrame:
    """A frame of a few entries. For the edges and for tests: bulk comes as columns."""
    rows = [(path, *msgspec.structs.astuple(entry)) for path, entry in entries]
    return sort_entries(pl.DataFrame(rows, schema=ENTRY_SCHEMA, orient="row"))


def row_of(frame: pl.DataFrame, path: str, *, behind: bool = False) -> int:
    """Return how many of the sorted paths are less than this one; with `behind`, not greater."""
    paths: Any = frame[
        "path"
    ]  # read item by item: Polars' own search_sorted looks at the whole column (50 times slower)
    return bisect_right(paths, path) if behind else bisect_left(paths, path)


def successor(prefix: str) -> str | None:
    """The least string which is greater than everything that begins with the prefix; none if there is no such string.

    >>> successor("a/")
    'a0'
    """
    stem = prefix.rstrip(chr(_LAST_CODE_POINT))
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES[1] if code == _SURROGATES[0] else code)


def entry_of(frame: pl.DataFrame, row: int) -> Entry:
    """Return one row as a record."""
    return Entry(*frame.row(row)[1:])


def sort_entries(frame: pl.DataFrame) -> pl.DataFrame:
    """The same entries by ascending path."""
    return frame if frame["path"].is_sorted() else frame.sort("path")


def identity(prefix: str = "") -> list[pl.Expr]:
    """Return the columns that make two entries the same content; they may carry a prefix, as after a join."""
    etag, address = pl.col(f"{prefix}etag"), pl.col(f"{prefix}address")
    names = pl.when(etag == "").then(address).otherwise(etag)
    return [names, *(pl.col(f"{prefix}{name}") for name in ("size", "content_type", "metadata"))]


def same(one: Iterable[pl.Expr], other: Iterable[pl.Expr]) -> pl.Expr:
    """Return whether two sides agree on everything; absent on both is agreement, absent on one is not."""
    return pl.all_horizontal(left.eq_missing(right) for left, right in zip(one, other, strict=True))


def is_ascending(paths: pl.Series) -> bool:
    """Return whether each path is greater than the one before."""
    return bool((paths.slice(1) > paths.slice(0, max(0, len(paths) - 1))).all())


def check_entries(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame itself if it is one of entries, else `InvalidArgument`. Costs a few passes over the columns."""
    if frame.schema != ENTRY_SCHEMA:
        raise InvalidArgument(f"entries have the columns {dict(ENTRY_SCHEMA)}, not {dict(frame.schema)}")
    if frame.height == 0:
        return frame
    facts = frame.select(
        nulls=pl.sum_horizontal(pl.all().null_count()),
        shortest=pl.col("path").str.len_bytes().min(),
        longest=pl.col("path").str.len_bytes().max(),
        smallest=pl.col("size").min(),
    ).row(0, named=True)
    problem = _problem(facts, is_ascending(frame["path"]))
    if problem:
        raise InvalidArgument(f"not entries: {problem}")
    return frame


def _problem(facts: Mapping[str, int], ascending: bool) -> str | None:
    if facts["nulls"]:
        return "a value is missing"
    if not ascending:
        return "the paths are not strictly ascending"
    if facts["shortest"] == 0 or facts["longest"] > PATH_BYTES_MAX:
        return f"a path is empty or longer than {PATH_BYTES_MAX} bytes"
    if facts["smallest"] < 0:
        return "a size is negative"
    return None
