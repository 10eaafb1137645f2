"""What something refers to, and what there is: the two sides which a garbage collector compares. Design: lake.md L15.

Keys are relative to a repository's storage namespace. Every one of them has a link epoch in its name:

    data/<link epoch>/...          bytes of objects
    _penstock/<link epoch>/...     ranges and metaranges

An object without a link epoch is never garbage: commits are kept for ever, and so are objects of other programs.
"""

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final

import msgspec
import polars as pl

from penstock.lake.core.committed.metarange import EMPTY, Range, TreeAddress, metarange_key, range_key
from penstock.lake.core.refs.commit import commit_key
from penstock.lake.core.staging.branch import Repository
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId
from penstock.lake.member.builder import frame_of
from penstock.lake.member.shelves import Shelf
from penstock.lake.records.service import Progress, Watch

__all__ = ["Held", "commit_ids", "held_by", "listed", "mark", "reachable"]

READS_AT_ONCE: Final = 8
KEYS: Final = pl.Schema({"key": pl.String()})
LISTED: Final = pl.Schema({"key": pl.String(), "size": pl.Int64(), "epoch": pl.Int64()})
_EPOCH: Final = r"^(?:data|_penstock)/([0-9]{8})/"


class Held(msgspec.Struct, frozen=True):
    """What a repository's state refers to, at one position of the queue."""

    gce: int
    heads: dict[str, CommitId]  # of each branch
    tags: tuple[CommitId, ...]
    expired: frozenset[CommitId]
    staged: tuple[pl.DataFrame, ...]  # addresses of everything staged, hidden rows included

    @property
    def commits(self) -> tuple[CommitId, ...]:
        return tuple(dict.fromkeys([*self.heads.values(), *self.tags]))


def held_by(machine: StagingMachine, repository: Repository) -> Held:
    """Taken in one go: nothing may be awaited between a SYNC and this."""
    heads = {name: branch.head for name, branch in repository.branches.items()}
    staged: list[pl.DataFrame] = []
    for branch in repository.branches.values():
        snapshot = machine.capture(branch.instance)
        assert snapshot is not None
        staged += [frame_of(batch).select("address") for batch in snapshot.staged()]
    tags = tuple(tag.commit for tag in repository.tags.values())
    return Held(repository.gce, heads, tags, frozenset(repository.expired), tuple(staged))


async def commit_ids(shelf: Shelf) -> set[CommitId]:
    """Return all commits that were ever written, performed or not."""
    folder = shelf.folder + commit_key(CommitId(""))
    return {CommitId(each.key[len(folder) :]) async for page in shelf.store.list(folder) for each in page.objects}


async def reachable(shelf: Shelf, heads: Iterable[CommitId]) -> set[CommitId]:
    """Some commits and all their ancestors."""
    seen: set[CommitId] = set()
    for head in heads:
        if head in seen:
            continue
        async with aclosing(shelf.history.walk(head)) as lines:
            async for line in lines:
                seen.add(line.id)
    return seen


async def listed(shelf: Shelf) -> pl.DataFrame:
    """Everything in the namespace which could be garbage."""
    rows: list[tuple[str, int]] = []
    for folder in ("data/", "_penstock/"):
        async for page in shelf.store.list(shelf.folder + folder):
            rows += [(each.key[len(shelf.folder) :], each.size) for each in page.objects]
    frame = pl.DataFrame(rows, schema={"key": pl.String(), "size": pl.Int64()}, orient="row")
    epoch = pl.col("key").str.extract(_EPOCH).cast(pl.Int64)
    return frame.with_columns(epoch=epoch).filter(pl.col("epoch").is_not_null())


async def mark(
    shelf: Shelf,
    held: Held,
    commits: Iterable[CommitId],
    watch: Watch | None = None,
    *,
    trees_only: Iterable[CommitId] = (),
) -> pl.DataFrame:
    """Return the keys of all uncommitted objects, and of the trees of these commits with all they contain.

    Of `trees_only` the trees alone, not their contents: merges and diffs of other commits still need them.
    """
    trees, ranges = await _metadata(shelf, commits)
    other_trees, other_ranges = await _metadata(shelf, trees_only)
    frames = [_keys([*trees, *ranges, *other_trees, *other_ranges]), *(_below(shelf, each) for each in held.staged)]
    wanted = list(ranges.values())
    for first in range(0, len(wanted), READS_AT_ONCE):
        if watch is not None:
            watch(Progress("marking", first, len(wanted)))
        some = wanted[first : first + READS_AT_ONCE]
        entries = await asyncio.gather(*(shelf.trees.files.scan(each) for each in some))
        frames += [_below(shelf, each.select("address")) for each in entries]
    return await shelf.trees.files.in_thread(lambda: pl.concat(frames).unique())


async def _metadata(shelf: Shelf, commits: Iterable[CommitId]) -> tuple[dict[str, TreeAddress], dict[str, Range]]:
    """The metaranges and ranges of some commits, by key."""
    trees: dict[str, TreeAddress] = {}
    for commit in commits:
        tree = (await shelf.history.get(commit)).tree
        if tree.id != EMPTY.id:
            trees[metarange_key(tree.location, tree.id)] = tree
    ranges: dict[str, Range] = {}
    for tree in trees.values():
        contents = await shelf.trees.files.open(tree)
        for row in range(len(contents)):
            found = contents[row]
            ranges[range_key(found.location, found.id)] = found
    return trees, ranges


def _keys(keys: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"key": keys}, schema=KEYS)


def _below(shelf: Shelf, addresses: pl.DataFrame) -> pl.DataFrame:
    """Return addresses as keys; a full address that lies in this namespace counts too."""
    return addresses.select(key=pl.col("address").str.strip_prefix(shelf.storage + "/"))
