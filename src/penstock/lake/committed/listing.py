"""Listing a tree: a page of the paths below a prefix, with everything behind a delimiter folded into its folder.

`Listing` is a small machine: it names the range to read next, takes its entries, and knows when the page is full.
Behind a folded folder it seeks, so a folder of a million files costs two ranges, not all of them.
"""

from bisect import bisect_left
from typing import Final

import msgspec
import polars as pl

from penstock.base.errors import InvalidArgument
from penstock.lake.committed.entry import ENTRY_SCHEMA, empty_entries
from penstock.lake.committed.metarange import MetaRange

__all__ = ["LISTING_MAX", "ListPage", "Listing", "successor"]

LISTING_MAX: Final = 10_000  # entries and folders of one page
_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xE000)  # no characters: UTF-8 has no bytes for them


class ListPage(msgspec.Struct, frozen=True):
    """A page: entries and folders ("a/b/"), each sorted. `next_after` continues behind it; empty if that was all."""

    entries: pl.DataFrame
    folders: tuple[str, ...]
    next_after: str


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


class Listing:
    """One page being made. `wanted()` names the range to read next; `take()` gets what is in it."""

    def __init__(
        self, metarange: MetaRange, prefix: str = "", *, after: str = "", delimiter: str = "", limit: int = 1000
    ) -> None:
        if not 0 < limit <= LISTING_MAX:
            raise InvalidArgument(f"a page has between 1 and {LISTING_MAX} entries, not {limit}")
        self._metarange = metarange
        self._prefix = prefix
        self._delimiter = delimiter
        self._limit = limit
        self._first: str | None = prefix  # the least path which may still count; none if there is no more
        self._end = successor(prefix)
        self._found: list[pl.DataFrame] = []
        self._count = 0
        self._row = 0
        if after:
            self._skip_to(after)
        self._seek()

    def wanted(self) -> int | None:
        """The range to read next; none if the page is complete."""
        return None if self._first is None else self._row

    def take(self, entries: pl.DataFrame) -> None:
        """The entries of the range that was wanted."""
        rows = self._folded(self._inside(entries))
        room = self._limit + 1 - self._count  # one more than asked for says whether there is more
        if rows.height:
            self._found.append(rows.head(room))
            self._count += self._found[-1].height
        if rows.height >= room:
            self._first = None
            return
        if rows.height and rows["is_folder"][-1]:
            self._first = successor(rows["key"][-1])
        self._row += 1
        self._seek()

    def page(self) -> ListPage:
        """What was found, once nothing more is wanted."""
        assert self.wanted() is None
        if not self._found:
            return ListPage(empty_entries(), (), "")
        rows = pl.concat(self._found)
        shown = rows.head(self._limit)
        return ListPage(
            entries=shown.filter(~pl.col("is_folder")).select(ENTRY_SCHEMA.names()),
            folders=tuple(shown.filter("is_folder")["key"]),
            next_after=shown["key"][-1] if rows.height > self._limit else "",
        )

    def _skip_to(self, after: str) -> None:
        """Begin behind a path; behind a folder, if it is the name of one."""
        below = after[len(self._prefix) :] if after.startswith(self._prefix) else ""
        is_folder = bool(self._delimiter) and below.find(self._delimiter) == len(below) - len(self._delimiter) >= 0
        first = successor(after) if is_folder else after + "\0"
        self._first = None if first is None else max(self._prefix, first)

    def _inside(self, entries: pl.DataFrame) -> pl.DataFrame:
        """The rows below the prefix, from the first which may count."""
        paths = entries["path"]
        start = int(paths.search_sorted(self._first or "", side="left"))
        end = entries.height if self._end is None else int(paths.search_sorted(self._end, side="left"))
        return entries.slice(start, max(0, end - start))

    def _folded(self, rows: pl.DataFrame) -> pl.DataFrame:
        """One row per path or folder, with `key` (what the page shows) and `is_folder`."""
        if not self._delimiter:
            return rows.with_columns(key=pl.col("path"), is_folder=pl.lit(False))
        below = pl.col("path").str.strip_prefix(self._prefix)
        inside = below.str.contains(self._delimiter, literal=True)
        name = below.str.splitn(self._delimiter, 2).struct.field("field_0")
        folder = pl.lit(self._prefix) + name + pl.lit(self._delimiter)
        keyed = rows.with_columns(key=pl.when(inside).then(folder).otherwise("path"), is_folder=inside)
        return keyed.unique("key", keep="first", maintain_order=True)

    def _seek(self) -> None:
        """Go to the first range, from here on, with a key that may count; there may be none."""
        if self._first is None:
            return
        keys = self._metarange.max_keys
        self._row = max(self._row, bisect_left(keys, self._first))
        if self._row >= len(keys) or (self._end is not None and self._metarange.min_keys[self._row] >= self._end):
            self._first = None
