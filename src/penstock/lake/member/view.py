"""A view shows a ref at one position of the queue: a tree, and the uncommitted changes over it. Design: lake.md L6.

Head and areas were captured together; nothing in a view ever changes. Lists merge uncommitted changes into committed
entries in a thread, and ask for no more ranges than the page needs.
"""

import asyncio
from collections.abc import Iterator, Sequence

import polars as pl

from penstock.lake.core.committed.changes import CHANGE_SCHEMA
from penstock.lake.core.committed.entry import STORED_COLUMNS
from penstock.lake.core.committed.metarange import TreeAddress
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.snapshot import Snapshot, after_prefix
from penstock.lake.member.builder import frame_of
from penstock.lake.member.shelves import Shelf
from penstock.lake.records.service import Change, ChangeKind, Object, Page

__all__ = ["View", "as_entry"]

SCAN_ROWS = 1000  # committed entries taken at a time, while uncommitted changes are merged into them
DIFF_ROWS = 10_000  # staged rows compared at a time


class View:
    """What a ref shows."""

    def __init__(self, shelf: Shelf, commit: str, tree: TreeAddress, snapshot: Snapshot | None = None) -> None:
        self.shelf = shelf
        self.commit = commit
        self.tree = tree
        self.snapshot = snapshot  # None: only committed entries

    async def entry(self, path: str) -> Entry | None:
        staged = self.snapshot.overlay.find(path) if self.snapshot is not None else None
        return staged[0] if staged is not None else await self.shelf.trees.get(self.tree, path)

    def is_staged(self, path: str) -> bool:
        return self.snapshot is not None and self.snapshot.overlay.find(path) is not None

    async def list_page(self, prefix: str, after: str, delimiter: str, limit: int) -> Page[Object]:
        snapshot = self.snapshot
        if snapshot is None:
            return await self._list_committed(prefix, after, delimiter, limit)
        tree = _BlockingTree(self.shelf, self.tree, asyncio.get_running_loop())
        # Not in the trees' own threads: this one waits for the loop, which waits for those.
        found = await asyncio.to_thread(
            lambda: snapshot.list(tree, prefix=prefix, after=after, delimiter=delimiter, limit=limit + 1)
        )
        shown = [self.object(each.path, each.entry) for each in found[:limit]]
        return Page(shown, shown[-1].path if len(found) > limit else "")

    async def _list_committed(self, prefix: str, after: str, delimiter: str, limit: int) -> Page[Object]:
        page = await self.shelf.trees.list_page(self.tree, prefix, after=after, delimiter=delimiter, limit=limit)
        shown = [self.object(path, entry) for path, entry in _rows(page.entries)]
        shown += [Object(folder, None) for folder in page.folders]
        return Page(sorted(shown, key=lambda each: each.path), page.next_after)

    def object(self, path: str, entry: Entry | None) -> Object:
        if entry is None:
            return Object(path, None)
        return Object(path, entry, self.shelf.full_address(entry), self.shelf.key(entry))

    async def uncommitted(self, prefix: str, after: str, delimiter: str, limit: int) -> Page[Change]:
        """Return how uncommitted entries differ from committed ones."""
        snapshot = self.snapshot
        if snapshot is None:
            return Page([])
        staged = await self.shelf.trees.files.in_thread(lambda: frame_of(snapshot.changes()))
        found: list[Change] = []
        start = max(prefix, after + "\0" if after else "")
        if delimiter and after.endswith(delimiter):
            start = after_prefix(after) or start
        while len(found) <= limit:
            first = int(staged["path"].search_sorted(start))
            chunk = staged.slice(first, DIFF_ROWS)
            if prefix:
                chunk = chunk.filter(pl.col("path").str.starts_with(prefix))
            if chunk.height == 0:
                break
            start = await self._compare(chunk, prefix, delimiter, limit, found)
        return Page(found[:limit], found[limit - 1].path if len(found) > limit else "")

    async def _compare(self, chunk: pl.DataFrame, prefix: str, delimiter: str, limit: int, found: list[Change]) -> str:
        """Add the differences of a chunk; return where to continue."""
        assert chunk.schema == CHANGE_SCHEMA
        committed = dict(_rows(await self.shelf.trees.get_many(self.tree, chunk["path"])))
        for path, is_live, entry in zip(chunk["path"], chunk["is_live"], _entries(chunk), strict=True):
            kind = _kind(committed.get(path), entry if is_live else None)
            if kind is None:
                continue
            cut = path.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                common = path[: cut + len(delimiter)]
                found.append(Change(common, ChangeKind.PREFIX_CHANGED))
                return after_prefix(common) or common
            found.append(Change(path, kind, entry if is_live else None))
            if len(found) > limit:
                break
        return str(chunk["path"][-1]) + "\0"


def _kind(before: Entry | None, now: Entry | None) -> ChangeKind | None:
    if before is None or now is None:
        if before is None and now is None:
            return None
        return ChangeKind.ADDED if before is None else ChangeKind.REMOVED
    return None if as_entry(before) == as_entry(now) else ChangeKind.CHANGED


def as_entry(entry: Entry) -> tuple[object, ...]:
    """Return the columns that make two entries the same content; without an ETag, the address identifies the bytes."""
    return entry.etag or entry.address, entry.size, entry.content_type, entry.metadata


def _rows(frame: pl.DataFrame) -> list[tuple[str, Entry]]:
    return list(zip(frame["path"], _entries(frame), strict=True))


def _entries(frame: pl.DataFrame) -> Iterator[Entry]:
    return (Entry(*row) for row in frame.select(STORED_COLUMNS).iter_rows())


class _BlockingTree:
    """A commit's tree for a thread which merges a list: the loop reads the ranges, the thread waits."""

    def __init__(self, shelf: Shelf, tree: TreeAddress, loop: asyncio.AbstractEventLoop) -> None:
        self._shelf = shelf
        self._tree = tree
        self._loop = loop

    def get(self, path: str) -> Entry | None:
        reading = self._shelf.trees.get(self._tree, path)
        return asyncio.run_coroutine_threadsafe(reading, self._loop).result()

    def scan(self, start: str, stop: str | None) -> Iterator[Sequence[tuple[str, Entry]]]:
        at: str | None = start
        while at is not None and (stop is None or at < stop):
            rows = asyncio.run_coroutine_threadsafe(self._page(at), self._loop).result()
            inside = rows if stop is None else [row for row in rows if row[0] < stop]
            if inside:
                yield inside
            at = rows[-1][0] + "\0" if len(rows) == SCAN_ROWS and len(inside) == len(rows) else None

    async def _page(self, start: str) -> list[tuple[str, Entry]]:
        """Return entries from `start` on: a listing begins after a path, so the path itself is asked for first."""
        found: list[tuple[str, Entry]] = []
        first = await self._shelf.trees.get(self._tree, start) if start else None
        if first is not None:
            found.append((start, first))
        page = await self._shelf.trees.list_page(self._tree, after=start, limit=SCAN_ROWS - len(found))
        return found + _rows(page.entries)
