"""Reads of a tree: one entry, some entries, a page of names, and whether changes hide a folder.

Searches in cached leaves use neither Polars nor a thread: a call of Polars costs more than the search for a path.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import polars as pl

from penstock.lake.core.committed.branch_listing import hides_all
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import empty_entries, row_of, successor
from penstock.lake.core.committed.leaves.node import Leaf, Leaves
from penstock.lake.core.committed.leaves.root import Nodes, Root
from penstock.lake.core.committed.listing import ListPage, TreeListing
from penstock.lake.core.committed.lookup import LookupBatch, batches_of, entries_at, find_entry, plan_lookup
from penstock.lake.core.committed.metarange import MetaRange, Range, TreeAddress
from penstock.lake.core.staging.areas.folding import StagedChanges
from penstock.lake.core.staging.entry import Entry
from penstock.lake.member.committed.files import TreeFiles
from penstock.lake.member.committed.in_order import in_order

__all__ = ["Tree", "TreeReads"]

ROWS_AT_ONCE: Final = 1 << 16  # of a lookup

Tree = MetaRange | Root


class TreeReads:
    """Reads of the trees of one repository. For one event loop."""

    def __init__(self, files: TreeFiles, reads_in_flight_max: int) -> None:
        self.files: Final = files
        self._reads_in_flight_max = reads_in_flight_max

    async def get(self, tree: TreeAddress, path: str) -> Entry | None:
        """The entry of one path."""
        part = await self._part_of(await self.files.open(tree), path)
        return None if part is None else find_entry(await self.files.entries(part), path)

    async def _part_of(self, tree: Tree, path: str) -> Range | Leaf | None:
        """Return the range or the leaf that may hold a path."""
        if isinstance(tree, MetaRange):
            row = tree.find(path)
            return None if row is None else tree[row]
        node = tree.nodes.find(path)
        if node is None:
            return None
        leaves = await self.files.leaves_at(tree.nodes, node)
        row = leaves.find(path)
        return None if row is None else leaves[row]

    async def entries_of(self, tree: TreeAddress, paths: Sequence[str]) -> dict[str, Entry]:
        """Return the entries of a few paths, out of the cache where it has them; the others are read at once."""
        opened = await self.files.open(tree)
        parts: dict[str, Range | Leaf] = {}
        wanted: dict[str, list[str]] = {}
        for path in paths:
            part = await self._part_of(opened, path)
            if part is not None:
                parts[part.id] = part
                wanted.setdefault(part.id, []).append(path)
        frames = await self.files.entries_of_each(list(parts.values()))
        found: dict[str, Entry] = {}
        for frame, asked in zip(frames, wanted.values(), strict=True):
            found.update((path, entry) for path in asked if (entry := find_entry(frame, path)) is not None)
        return found

    async def get_many(self, tree: TreeAddress, paths: pl.Series) -> pl.DataFrame:
        """The entries of those paths which the tree has, sorted."""
        return await self._look_up(await self.files.open(tree), paths if paths.is_sorted() else paths.sort())

    async def _look_up(self, tree: Tree | Leaves, paths: pl.Series) -> pl.DataFrame:
        if isinstance(tree, Root):
            tree = await self.files.leaves(tree.nodes.of([each.row for each in plan_lookup(tree.nodes, paths)]))
        wanted = tree

        async def part(batch: LookupBatch) -> pl.DataFrame:
            found = await self.files.fetch_parts(wanted.of(batch.rows))
            asked = paths.slice(batch.start, batch.end - batch.start)
            return await self.files.in_thread(lambda: entries_at(found.entries(), asked))

        batches = batches_of(tree, paths, ROWS_AT_ONCE)
        async with aclosing(in_order(batches, part, self._reads_in_flight_max)) as parts:
            return pl.concat([empty_entries(), *[frame async for frame in parts]])

    async def list_page(
        self, tree: TreeAddress, prefix: str = "", *, after: str = "", delimiter: str = "", limit: int = 1000
    ) -> ListPage:
        """A page of what lies below a prefix."""
        opened = await self.files.open(tree)
        contents: Contents = opened.nodes if isinstance(opened, Root) else opened
        listing = TreeListing(contents, prefix, after=after, delimiter=delimiter, limit=limit)
        while (wanted := listing.wanted()) is not None:
            parts, row = wanted
            if isinstance(parts, Nodes):
                listing.enter(await self.files.leaves_at(parts, row))
            else:
                assert isinstance(parts, MetaRange | Leaves)
                listing.take(await self.files.entries(parts[row]))
        return listing.page()

    async def paths_below(self, tree: TreeAddress, prefix: str) -> pl.Series:
        """Return all paths that begin with a prefix, sorted."""
        opened = await self.files.open(tree)
        contents: MetaRange | Leaves
        if isinstance(opened, Root):
            contents = await self.files.leaves(opened.nodes.of(list(opened.nodes.below(prefix))))
        else:
            contents = opened
        found = [pl.Series("path", [], pl.String)]
        below = contents.of(list(contents.below(prefix)))
        for first in range(0, len(below), ROWS_AT_ONCE >> 8):
            some = await self.files.fetch_parts(below.of(slice(first, first + (ROWS_AT_ONCE >> 8))))
            found.append((await self.files.in_thread(some.entries))["path"])
        paths = pl.concat(found)
        return paths.filter(paths.str.starts_with(prefix))

    async def shows(self, tree: TreeAddress, staged: StagedChanges, folder: str) -> bool:
        """Return whether a tree has a path that begins with `folder` and that no change hides.

        Nodes and leaves that have more entries than there are changes between their keys are not read.
        """
        opened = await self.files.open(tree)
        if isinstance(opened, MetaRange):
            return await self._shows_in(opened, staged, folder)
        for row in opened.nodes.below(folder):
            if _is_shown(opened.nodes, row, staged, folder):
                return True
            if await self._shows_in(await self.files.leaves_at(opened.nodes, row), staged, folder):
                return True
        return False

    async def _shows_in(self, parts: MetaRange | Leaves, staged: StagedChanges, folder: str) -> bool:
        below = parts.below(folder)
        if any(_is_shown(parts, row, staged, folder) for row in below):
            return True
        end = successor(folder)
        for row in below:
            frame = await self.files.entries(parts[row])
            last = frame.height if end is None else row_of(frame, end)
            first = row_of(frame, folder)
            if not all(staged.covers(frame["path"].slice(first, max(0, last - first)).to_list())):
                return True
        return False


def _is_shown(parts: Contents, row: int, staged: StagedChanges, folder: str) -> bool:
    """Return whether a part lies in a folder and has more entries than changes can hide."""
    low, high = parts.min_keys[row], parts.max_keys[row]
    is_inside = low.startswith(folder) and high.startswith(folder)
    return is_inside and not hides_all(staged, low, high, parts.counts[row])
