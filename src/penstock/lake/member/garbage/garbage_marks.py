"""What something refers to, and what there is: the two sides which a garbage collector compares. Design: lake.md L15.

Keys are relative to a repository's storage namespace. Every one of them has a link epoch in its name:

    data/<link epoch>/...          bytes of objects
    _penstock/<link epoch>/...     ranges and metaranges

An object without a link epoch is never garbage: commits are kept for ever, and so are objects of other programs.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final

import msgspec
import polars as pl

from penstock.lake.core.committed.leaves.node import Leaves
from penstock.lake.core.committed.leaves.root import Root
from penstock.lake.core.committed.metarange import EMPTY, MetaRange, TreeAddress, range_key, tree_key
from penstock.lake.core.refs.commit import commit_key
from penstock.lake.core.staging.branch import Repository
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId
from penstock.lake.member.builder import frame_of
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.service import Progress, Watch

__all__ = ["Held", "commit_ids", "entries_of", "files_of", "held_by", "listed", "mark", "reachable", "trees_of"]

LEAVES_AT_ONCE: Final = 512  # that are read at once
RANGES_AT_ONCE: Final = 16
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


async def commit_ids(shelf: LakeShelf) -> set[CommitId]:
    """Return all commits that were ever written, performed or not."""
    folder = shelf.folder + commit_key(CommitId(""))
    return {CommitId(each.key[len(folder) :]) async for page in shelf.store.list(folder) for each in page.objects}


async def reachable(shelf: LakeShelf, heads: Iterable[CommitId]) -> set[CommitId]:
    """Some commits and all their ancestors."""
    seen: set[CommitId] = set()
    for head in heads:
        if head in seen:
            continue
        async with aclosing(shelf.history.walk(head)) as lines:
            async for line in lines:
                seen.add(line.id)
    return seen


async def listed(shelf: LakeShelf) -> pl.DataFrame:
    """Everything in the namespace which could be garbage."""
    rows: list[tuple[str, int]] = []
    for folder in ("data/", "_penstock/"):
        async for page in shelf.store.list(shelf.folder + folder):
            rows += [(each.key[len(shelf.folder) :], each.size) for each in page.objects]
    frame = pl.DataFrame(rows, schema={"key": pl.String(), "size": pl.Int64()}, orient="row")
    epoch = pl.col("key").str.extract(_EPOCH).cast(pl.Int64)
    return frame.with_columns(epoch=epoch).filter(pl.col("epoch").is_not_null())


async def mark(
    shelf: LakeShelf,
    held: Held,
    commits: Iterable[CommitId],
    watch: Watch | None = None,
    *,
    trees_only: Iterable[CommitId] = (),
) -> pl.DataFrame:
    """Return the keys of all uncommitted objects, and of the trees of these commits with all they contain.

    Of `trees_only` the trees alone, not their contents: merges and diffs of other commits still need them.
    """
    kept, others = await trees_of(shelf, commits), await trees_of(shelf, trees_only)
    frames = [_keys(sorted(files_of([*kept, *others]))), *(_below(shelf, each) for each in held.staged)]
    known: set[str] = set()
    for done, tree in enumerate(kept):
        if watch is not None:
            watch(Progress("marking", done, len(kept)))
        frames += [_below(shelf, each.select("address")) async for each in entries_of(shelf, tree, known)]
    return await shelf.trees.files.in_thread(lambda: pl.concat(frames).unique())


async def trees_of(shelf: LakeShelf, commits: Iterable[CommitId]) -> list[tuple[str, MetaRange | Root]]:
    """Return the trees of some commits, each once, with the keys of the files that they begin with."""
    found: dict[str, TreeAddress] = {}
    for commit in sorted(commits):
        tree = (await shelf.history.get(commit)).tree
        if tree.id != EMPTY.id:
            found[tree_key(tree)] = tree
    return [(key, await shelf.trees.files.open(tree)) for key, tree in found.items()]


def files_of(trees: Iterable[tuple[str, MetaRange | Root]]) -> set[str]:
    """Return the keys of all files of some trees. A root lists its packs, so no node is read."""
    found: set[str] = set()
    for key, tree in trees:
        found.add(key)
        if isinstance(tree, Root):
            found |= tree.files
        else:
            found.update(range_key(location, id_) for id_, location in tree.locations.items())
    return found


async def entries_of(
    shelf: LakeShelf, tree: tuple[str, MetaRange | Root], known: set[str]
) -> AsyncGenerator[pl.DataFrame, None]:
    """Yield a tree's entries; nodes, leaves and ranges in `known` are left out, and added to it."""
    parts: MetaRange | Leaves
    if isinstance(tree[1], Root):
        nodes = tree[1].nodes
        new = [row for row, id_ in enumerate(nodes.frame["id"]) if id_ not in known]
        known.update(nodes.frame["id"][new])
        parts = await shelf.trees.files.leaves(nodes.of(new))
    else:
        parts = tree[1]
    rows = [row for row, id_ in enumerate(parts.frame["id"]) if id_ not in known]
    known.update(parts.frame["id"][rows])
    wanted = parts.of(rows)
    at_once = LEAVES_AT_ONCE if isinstance(wanted, Leaves) else RANGES_AT_ONCE
    for first in range(0, len(wanted), at_once):
        found = await shelf.trees.files.fetch_parts(wanted.of(slice(first, first + at_once)))
        yield await shelf.trees.files.in_thread(found.entries)


def _keys(keys: list[str]) -> pl.DataFrame:
    return pl.DataFrame({"key": keys}, schema=KEYS)


def _below(shelf: LakeShelf, addresses: pl.DataFrame) -> pl.DataFrame:
    """Return addresses as keys; a full address that lies in this namespace counts too."""
    return addresses.select(key=pl.col("address").str.strip_prefix(shelf.storage + "/"))
