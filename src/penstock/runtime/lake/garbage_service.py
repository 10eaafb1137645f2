"""Garbage of the lake's service: which objects nothing refers to. Design: lake.md L15.

Marked are the objects of every commit which a branch or a tag reaches, and of every staging area, hidden rows included.
What is listed in the store and not marked is garbage; but only what was addressed two collections ago may be swept,
because a younger address may still be linked. A dry run reads, and changes nothing.
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Final

import polars as pl

from penstock.lake.committed.metarange import TreeAddress
from penstock.lake.staging.branch import Repository
from penstock.runtime.lake.builder import frame_of
from penstock.runtime.lake.engine import Engine
from penstock.runtime.lake.service import Garbage
from penstock.runtime.lake.shelves import Shelf

__all__ = ["GarbageSearch"]

EXAMPLES: Final = 10


class GarbageSearch:
    """The part of the service which looks for garbage."""

    engine: Engine

    async def find_garbage(self, repository: str) -> Garbage:
        found = await self.engine.repository(repository)
        shelf, gce = self.engine.shelves.of(found), found.gce
        heads = [branch.head for branch in found.branches.values()] + [tag.commit for tag in found.tags.values()]
        staged = self._staged(found)
        listed = await _listed(shelf)  # before the trees: what comes meanwhile is not in it
        marked = pl.concat([staged, *[await _addresses(shelf, tree) for tree in await _trees(shelf, heads)]]).unique()
        garbage = listed.join(marked, on="address", how="anti")
        is_old = pl.col("address").str.slice(5, 8).cast(pl.Int64, strict=False) < gce
        old = garbage.filter(is_old)
        return Garbage(
            old.height,
            int(old["size"].sum()),
            tuple(old["address"].head(EXAMPLES)),
            is_dry_run=True,
            too_young=garbage.height - old.height,
        )

    def _staged(self, repository: Repository) -> pl.DataFrame:
        """Addresses of everything staged, at one position."""
        frames = [pl.DataFrame(schema={"address": pl.String})]
        for branch in repository.branches.values():
            snapshot = self.engine.machine.capture(branch.instance)
            assert snapshot is not None
            frames += [frame_of(batch).select("address") for batch in snapshot.staged()]
        return pl.concat(frames)


async def _listed(shelf: Shelf) -> pl.DataFrame:
    rows = [
        (each.key[len(shelf.folder) :], each.size)
        async for page in shelf.store.list(shelf.folder + "data/")
        for each in page.objects
    ]
    return pl.DataFrame(rows, schema={"address": pl.String, "size": pl.Int64}, orient="row")


async def _trees(shelf: Shelf, heads: Sequence[str]) -> list[TreeAddress]:
    """The different trees of all commits which the heads reach."""
    trees: dict[str, TreeAddress] = {}
    seen: set[str] = set()
    for head in heads:
        if head in seen:
            continue
        async with aclosing(shelf.history.walk(head)) as lines:
            async for line in lines:
                seen.add(line.id)
                trees[line.commit.tree.id] = line.commit.tree
    return list(trees.values())


async def _addresses(shelf: Shelf, tree: TreeAddress) -> pl.DataFrame:
    contents = await shelf.trees.files.open(tree)
    frames = [(await shelf.trees.files.scan(contents[row])).select("address") for row in range(len(contents))]
    return pl.concat([pl.DataFrame(schema={"address": pl.String}), *frames]).unique()
