"""What a commit or a head move is made of, outside the queue: drafts which the builder turns into trees and commits.

A draft is what the core carries as `what`. It knows its repository's shelf, and makes its tree on whatever head it is
given: after a lost race it is asked again, with the new one (lake.md L9, L13).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from penstock.kernel.errors import InvalidArgument, MergeConflict, NoChanges
from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.importing import imported_entries
from penstock.lake.core.committed.merging.merge import Strategy
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, TreeAddress
from penstock.lake.core.refs.commit import Commit
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.service import ImportPath, Progress

__all__ = ["CherryPickWish", "CommitWish", "Draft", "HeadMove", "ImportWish", "Made", "MergeWish", "RevertWish"]

CONFLICTS_SHOWN = 1000
Watch = Callable[[Progress], None]


@dataclass(slots=True)
class Draft:
    """What every commit has."""

    shelf: LakeShelf
    message: str
    committer: str
    metadata: Mapping[str, str]
    created_ns: int
    watch: Watch = field(default=lambda progress: None)


@dataclass(slots=True)
class CommitWish:
    """Commit the uncommitted changes."""

    draft: Draft


@dataclass(slots=True)
class Made:
    """The tree of a head move, the parents of its commit besides the head, and the commits it took objects from."""

    tree: TreeAddress
    parents: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


class HeadMove(Protocol):
    """A head move."""

    @property
    def draft(self) -> Draft: ...

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        """The tree on top of a head. `MergeConflict`, `NoChanges` or `InvalidArgument` if there is none."""
        ...


@dataclass(slots=True)
class MergeWish:
    """The source's changes since the merge base, laid over the branch."""

    draft: Draft
    source: str
    strategy: Strategy
    squash: bool
    may_be_empty: bool

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        history, trees = self.draft.shelf.history, self.draft.shelf.trees
        source = await history.get(self.source)
        base_id = await history.merge_base(head, self.source)
        if base_id == self.source and not self.may_be_empty:
            raise NoChanges(
                "no changes: the source has nothing the branch does not have",
                next_step="uncommitted changes of the source are not merged: penstock lake commit them first",
            )
        base = (await history.get(base_id)).tree if base_id is not None else EMPTY_TREE
        merged = await trees.merge(base, parent.tree, source.tree, location, self.strategy)
        tree = _conflict_free(merged.tree, merged.conflicts)
        return Made(tree, () if self.squash else (self.source,), (self.source,))


@dataclass(slots=True)
class RevertWish:
    """Undo what a commit did against one of its parents."""

    draft: Draft
    commit: str
    parent: int  # from 1; 0 if it has only one

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        history, trees = self.draft.shelf.history, self.draft.shelf.trees
        commit = await history.get(self.commit)
        before_id = chosen_parent(self.commit, commit, self.parent)
        before = (await history.get(before_id)).tree if before_id else EMPTY_TREE
        merged = await trees.merge(commit.tree, parent.tree, before, location)
        tree = _conflict_free(merged.tree, merged.conflicts)
        return Made(tree, (), (before_id,) if before_id else ())


@dataclass(slots=True)
class CherryPickWish:
    """Do again what a commit did against one of its parents."""

    draft: Draft
    commit: str
    parent: int

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        history, trees = self.draft.shelf.history, self.draft.shelf.trees
        commit = await history.get(self.commit)
        before_id = chosen_parent(self.commit, commit, self.parent)
        before = (await history.get(before_id)).tree if before_id else EMPTY_TREE
        merged = await trees.merge(before, parent.tree, commit.tree, location)
        return Made(_conflict_free(merged.tree, merged.conflicts), (), (self.commit,))


@dataclass(slots=True)
class ImportWish:
    """Objects which lie elsewhere, put below prefixes of the branch without copying them."""

    draft: Draft
    listings: Sequence[tuple[ImportPath, list[pa.RecordBatch]]]  # the objects, and where they go

    async def make(self, head: str, parent: Commit, location: Location) -> Made:
        tree = parent.tree
        trees = self.draft.shelf.trees
        for path, listing in self.listings:
            if path.is_prefix:
                tree = await trees.import_objects(tree, listing, path.destination, location)
            else:  # one object replaces one object, and nothing whose path begins like its own
                tree = await trees.build(tree, puts(imported_entries(listing, path.destination)), location)
        return Made(tree)


def chosen_parent(id_: str, commit: Commit, number: int) -> str:
    """The parent to compare a commit with; empty for the first commit of all."""
    if number == 0:
        if len(commit.parents) > 1:
            raise InvalidArgument(
                f"commit {id_} has {len(commit.parents)} parents: say which one (parent_number), from 1",
                status=409,
                next_step="the same with --parent 1: against the branch which it was merged into",
            )
        return commit.parents[0] if commit.parents else ""
    if not 0 < number <= len(commit.parents):
        raise InvalidArgument(f"commit {id_} has no parent number {number}: it has {len(commit.parents)}")
    return commit.parents[number - 1]


def _conflict_free(tree: TreeAddress | None, conflicts: Sequence[str]) -> TreeAddress:
    if tree is None:
        raise MergeConflict(
            f"Conflict: {len(conflicts)} paths were changed on both sides, the first is {conflicts[0]!r}",
            paths=list(conflicts[:CONFLICTS_SHOWN]),
            count=len(conflicts),
        )
    return tree
