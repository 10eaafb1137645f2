"""Listing a tree: a page of the paths below a prefix, with all paths that share a folder folded into it.

`TreeListing` is a small machine: it names the next part of the tree, and takes its entries until the page is full.
A node is a part that is entered. After a folded folder it seeks, so a folder of a million files costs two parts.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

import msgspec
import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, empty_entries, row_of, successor
from penstock.lake.core.staging.areas.folding import folder_in, name_after
from penstock.lake.core.staging.entry import Entry

__all__ = ["LISTING_MAX", "ListPage", "TreeListing"]

LISTING_MAX: Final = 10_000  # entries and folders of one page


class ListPage(msgspec.Struct, frozen=True):
    """A page: entries and folders ("a/b/"), each sorted. `next_after` continues after it; empty if that was all."""

    frames: tuple[pl.DataFrame, ...]
    folders: tuple[str, ...]
    next_after: str

    @property
    def entries(self) -> pl.DataFrame:
        return pl.concat([empty_entries(), *self.frames])

    @property
    def paths(self) -> list[str]:
        return [path for frame in self.frames for path in frame["path"].to_list()]

    def lines(self) -> Iterator[tuple[str, Entry]]:
        """Return the entries by path. Column by column: Polars has no faster way to rows, and wakes no threads so."""
        for frame in self.frames:
            columns = [frame.get_column(name).to_list() for name in ENTRY_SCHEMA]
            yield from ((path, Entry(*values)) for path, *values in zip(*columns, strict=True))


class TreeListing:
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
        # the least path which may still count; none if there is no more
        self._first = name_after(prefix, after, delimiter)
        self._end = successor(prefix)
        self._found: list[pl.DataFrame] = []
        self._folders: list[str] = []
        self._count = 0  # of both
        self._row = 0
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
        """The entries of the part that was wanted."""
        rows = self._inside(entries)
        if self._delimiter:
            self._fold(rows)
        else:
            self._add_entries(rows.head(self._limit + 1 - self._count))
        self._row += 1
        self._seek()

    def page(self) -> ListPage:
        """Return the page, once nothing more is wanted."""
        assert self.wanted() is None
        frames = [frame for frame in self._found if frame.height]
        folders = self._folders
        if self._has_room:
            return ListPage(tuple(frames), tuple(folders), "")
        # The last name only says that there is more.
        if folders and (not frames or folders[-1] > frames[-1]["path"][-1]):
            folders = folders[:-1]
        else:
            frames[-1] = frames[-1].head(-1)
        last = [frame["path"][-1] for frame in frames[-2:] if frame.height]
        return ListPage(tuple(frames), tuple(folders), max([*folders[-1:], *last[-1:]]))

    @property
    def _has_room(self) -> bool:
        """True if more entries are wanted: one more than the limit, to know if there is a next page."""
        return self._count <= self._limit

    def _inside(self, entries: pl.DataFrame) -> pl.DataFrame:
        """The rows below the prefix, from the first which may count."""
        start = row_of(entries, self._first or "")
        end = entries.height if self._end is None else row_of(entries, self._end)
        return entries.slice(start, max(0, end - start))

    def _fold(self, rows: pl.DataFrame) -> None:
        """Take the rows, those in folders once for each folder, as far as there is room."""
        paths: list[str] = rows["path"].to_list()
        at = plain = 0  # rows from `plain` to `at` are no folders
        while at < len(paths) and self._has_room:
            folder = folder_in(paths[at], self._prefix, self._delimiter)
            if not folder:
                at += 1
                self._count += 1
                continue
            self._found.append(rows.slice(plain, at - plain))
            self._add_folder(folder)
            at = plain = len(paths) if self._first is None else bisect_left(paths, self._first, at)
        self._found.append(rows.slice(plain, at - plain))

    def _add_entries(self, rows: pl.DataFrame) -> None:
        self._found.append(rows)
        self._count += rows.height

    def _add_folder(self, folder: str) -> None:
        self._folders.append(folder)
        self._count += 1
        self._first = successor(folder)  # the rest of this folder no longer counts

    def _seek(self) -> None:
        """Go to the first part, from here on, with a key that may count; there may be none.

        A part that begins in a folder shows the folder by its least key, unread; so does a node.
        """
        while self._first is not None and self._has_room:
            self._row = max(self._row, bisect_left(self._contents.max_keys, self._first))
            if self._row >= len(self._contents):
                if self._outer is None:
                    break
                (self._contents, self._row), self._outer = self._outer, None
                continue
            least = self._contents.min_keys[self._row]
            if self._end is not None and least >= self._end:
                break
            folder = folder_in(least, self._prefix, self._delimiter) if least >= self._first else ""
            if not folder:
                return
            self._add_folder(folder)
        self._first = None
