"""Listing a tree: a page of the paths below a prefix, with all paths that share a folder folded into it.

`Listing` is a small machine: it names the part of the tree to read next, takes its entries, and knows when the page is
full. A node is a part that is entered. After a folded folder it seeks, so a folder of a million files costs two parts.
"""

from bisect import bisect_left
from typing import Final

import msgspec
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, empty_entries, row_of, successor

__all__ = ["LISTING_MAX", "ListPage", "Listing"]

LISTING_MAX: Final = 10_000  # entries and folders of one page
_LARGE_FOLDERS: Final = 8  # of one range are skipped by binary search; then all its rows are looked at


class ListPage(msgspec.Struct, frozen=True):
    """A page: entries and folders ("a/b/"), each sorted. `next_after` continues after it; empty if that was all."""

    entries: pl.DataFrame
    folders: tuple[str, ...]
    next_after: str


class Listing:
    """One page being made. `wanted()` names the part to read next; `take()` gets its entries, `enter()` its leaves."""

    def __init__(
        self, contents: Contents, prefix: str = "", *, after: str = "", delimiter: str = "", limit: int = 1000
    ) -> None:
        if not 0 < limit <= LISTING_MAX:
            raise InvalidArgument(f"a page has between 1 and {LISTING_MAX} entries, not {limit}")
        self._contents = contents
        self._outer: tuple[Contents, int] | None = None  # the tree's nodes, and the next one, while in a node
        self._prefix = prefix
        self._delimiter = delimiter
        self._limit = limit
        self._first: str | None = prefix  # the least path which may still count; none if there is no more
        self._end = successor(prefix)
        self._found: list[pl.DataFrame] = []
        self._folders: list[str] = []
        self._count = 0  # of both
        self._row = 0
        if after:
            self._skip_to(after)
        self._seek()

    def wanted(self) -> tuple[Contents, int] | None:
        """Return the part to read next, as a row of the tree or of the node entered; none if the page is complete."""
        return None if self._first is None else (self._contents, self._row)

    def enter(self, leaves: Contents) -> None:
        """Descend into the wanted node."""
        self._outer = self._contents, self._row + 1
        self._contents, self._row = leaves, 0
        self._seek()

    def take(self, entries: pl.DataFrame) -> None:
        """The entries of the range that was wanted."""
        rows = self._inside(entries)
        if self._delimiter:
            rows = self._take_large_folders(rows)
        if rows.height and self._has_room:
            self._take_each(rows)
        if self._has_room:
            self._row += 1
            self._seek()
        else:
            self._first = None

    def page(self) -> ListPage:
        """Return the page, once nothing more is wanted."""
        assert self.wanted() is None
        entries = pl.concat([empty_entries(), *self._found])
        if self._has_room:
            return ListPage(entries, tuple(self._folders), "")
        last = max(self._folders[-1:] + entries["path"].tail(1).to_list())  # only says that there is more
        entries = entries.head(entries.height - (entries["path"].tail(1).to_list() == [last]))
        folders = [folder for folder in self._folders if folder != last]
        return ListPage(entries, tuple(folders), max(folders[-1:] + entries["path"].tail(1).to_list()))

    @property
    def _has_room(self) -> bool:
        """True if more entries are wanted: one more than the limit, to know if there is a next page."""
        return self._count <= self._limit

    def _skip_to(self, after: str) -> None:
        """Begin after a path; if it names a folder, after the folder."""
        below = after[len(self._prefix) :] if after.startswith(self._prefix) else ""
        is_folder = bool(self._delimiter) and below.find(self._delimiter) == len(below) - len(self._delimiter) >= 0
        first = successor(after) if is_folder else after + "\0"
        self._first = None if first is None else max(self._prefix, first)

    def _inside(self, entries: pl.DataFrame) -> pl.DataFrame:
        """The rows below the prefix, from the first which may count."""
        start = row_of(entries, self._first or "")
        end = entries.height if self._end is None else row_of(entries, self._end)
        return entries.slice(start, max(0, end - start))

    def _take_large_folders(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Take the folders that the rows begin with, each by one binary search; return the rows after them."""
        for _ in range(_LARGE_FOLDERS):
            path = rows["path"][0] if rows.height and self._has_room else ""
            at = path.find(self._delimiter, len(self._prefix))
            if at < 0:
                break
            self._add_folders([path[: at + len(self._delimiter)]])
            rows = rows.slice(rows.height if self._first is None else row_of(rows, self._first))
        return rows

    def _take_each(self, rows: pl.DataFrame) -> None:
        """Take all rows, those in folders once for each folder, as far as there is room."""
        room = self._limit + 1 - self._count
        if not self._delimiter:
            self._add_entries(rows.head(room))
            return
        below = pl.col("path").str.strip_prefix(self._prefix)
        is_folder = below.str.contains(self._delimiter, literal=True)
        folder = pl.lit(self._prefix) + below.str.splitn(self._delimiter, 2).struct.field("field_0") + self._delimiter
        keyed = rows.with_columns(key=pl.when(is_folder).then(folder).otherwise("path"), is_folder=is_folder)
        shown = keyed.unique("key", keep="first", maintain_order=True).head(room)
        self._add_entries(shown.filter(~pl.col("is_folder")).select(ENTRY_SCHEMA.names()))
        self._add_folders(shown.filter("is_folder")["key"].to_list())

    def _add_entries(self, rows: pl.DataFrame) -> None:
        if rows.height:
            self._found.append(rows)
            self._count += rows.height

    def _add_folders(self, folders: list[str]) -> None:
        if folders:
            self._folders += folders
            self._count += len(folders)
            self._first = successor(folders[-1])  # the rest of this folder no longer counts

    def _seek(self) -> None:
        """Go to the first part, from here on, with a key that may count; there may be none."""
        if self._first is None:
            return
        keys = self._contents.max_keys
        self._row = max(self._row, bisect_left(keys, self._first))
        if self._row >= len(keys) and self._outer is not None:
            (self._contents, self._row), self._outer = self._outer, None
            self._seek()
        elif self._row >= len(keys) or (self._end is not None and self._contents.min_keys[self._row] >= self._end):
            self._first = None
