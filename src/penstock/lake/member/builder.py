"""The builder: writes metaranges and commits for the core, before any record names them.

Design: lake.md L5, L8, L9, L13.

Everything one attempt writes lies in one folder of its own, (link epoch, attempt), and is durable when `Built` goes
back to the core. Nothing of it is visible before its PERFORM is applied; what loses stays as garbage.
"""

from collections.abc import Callable

import msgspec
import polars as pl
import pyarrow as pa

from penstock.kernel.errors import NotFound
from penstock.lake.core.committed.metarange import Location, TreeAddress, location_of, tree_key
from penstock.lake.core.refs.commit import Commit, generation_of
from penstock.lake.core.staging.proposing.port import Build, BuildMove, Built, LookedUp, LookUp, Rebuild
from penstock.lake.core.staging.records import Basis, CommitId, Instance, Put, Row
from penstock.lake.core.staging.results import Status
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.member.wishes import CommitWish, Draft, HeadMove
from penstock.lake.records.service import Progress

__all__ = ["LakeBuilder", "frame_of"]


class LakeBuilder:
    """Builds for one member. Which repository it is for, a wish says, or a record's instance."""

    def __init__(self) -> None:
        self.shelf_of: Callable[[Instance], LakeShelf | None] = lambda instance: None  # of a branch; set by the engine

    async def build(self, effect: Build | Rebuild | BuildMove) -> Built:
        match effect:
            case Build():
                return await self._build(effect)
            case Rebuild():
                return await self._rebuild(effect)
            case BuildMove():
                return await self._move(effect)

    async def _build(self, effect: Build) -> Built:
        wish: CommitWish = effect.commit.what
        draft = wish.draft
        parent = await draft.shelf.history.get(effect.parent)
        draft.watch(Progress("gathering"))
        trees = draft.shelf.trees
        changes = await trees.files.in_thread(lambda: frame_of(effect.snapshot.changes(effect.range)))
        location = _location(draft.shelf, effect.link_epoch)
        tree = await trees.build(
            parent.tree, changes, location, progress=lambda done, total: draft.watch(Progress("building", done, total))
        )
        return await self._commit(effect, draft, parent, tree)

    async def _rebuild(self, effect: Rebuild) -> Built:
        """The race was lost: the finished tree is laid over the new head (L9)."""
        wish: CommitWish = effect.commit.what
        draft, trees = wish.draft, wish.draft.shelf.trees
        draft.watch(Progress("building again on a newer head"))
        history = draft.shelf.history
        parent, old = await history.get(effect.parent), await history.get(effect.old_parent)
        if effect.rest:
            finished = (await history.get(effect.built.commit)).tree
            gone, rest = (_paths(effect.snapshot.changes(tokens)) for tokens in (effect.gone, effect.rest))
            location = _location(draft.shelf, effect.link_epoch)
            tree = await trees.reparent(old.tree, finished, parent.tree, location, gone=gone, rest=rest)
        else:
            tree = parent.tree
        return await self._commit(effect, draft, parent, tree)

    async def _move(self, effect: BuildMove) -> Built:
        wish: HeadMove = effect.move.what
        draft = wish.draft
        draft.watch(Progress("building"))
        parent = await draft.shelf.history.get(effect.parent)
        made = await wish.make(effect.parent, parent, _location(draft.shelf, effect.link_epoch))
        return await self._commit(effect, draft, parent, made.tree, made.parents, made.sources)

    async def _commit(
        self,
        effect: Build | Rebuild | BuildMove,
        draft: Draft,
        parent: Commit,
        tree: TreeAddress,
        more_parents: tuple[str, ...] = (),
        sources: tuple[str, ...] = (),
    ) -> Built:
        others = [await draft.shelf.history.get(each) for each in more_parents]
        wish = effect.move if isinstance(effect, BuildMove) else effect.commit
        commit = await draft.shelf.history.save(
            Commit(
                tree,
                (effect.parent, *(CommitId(each) for each in more_parents)),
                draft.committer,
                draft.message,
                max(draft.created_ns, 0),
                dict(draft.metadata),
                wish.request.id,
                generation_of([parent, *others]),
            )
        )
        draft.watch(Progress("performing"))
        return Built(
            effect.waiting,
            commit,
            tree_key(tree),
            is_same=tree.id == parent.tree.id,
            sources=tuple(CommitId(each) for each in sources),
        )

    async def look_up(self, effect: LookUp) -> LookedUp:
        """A PUT was made on an old view: look up its paths in the head the result names."""
        record = effect.record
        if effect.result.status is Status.STALE_SOURCE:
            raise NotFound(f"{effect.result.detail!r} has changed while it was copied", kind="source")
        if not isinstance(record, Put):
            return LookedUp(effect.waiting, None)
        shelf = self.shelf_of(record.instance)
        if shelf is None:
            return LookedUp(effect.waiting, None)
        head = effect.result.commit
        tree = (await shelf.history.get(head)).tree
        rows: list[Row] = []
        for row in record.rows:
            basis = None if row.when is None else Basis(head, await shelf.trees.get(tree, row.path))
            rows.append(msgspec.structs.replace(row, basis=basis))
        return LookedUp(effect.waiting, msgspec.structs.replace(record, rows=tuple(rows)))


def frame_of(batch: pa.RecordBatch) -> pl.DataFrame:
    """Staged rows as a frame of changes: the same columns, without copying."""
    frame = pl.from_arrow(batch)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _paths(batch: pa.RecordBatch) -> pl.Series:
    return frame_of(batch)["path"]


def _location(shelf: LakeShelf, link_epoch: int) -> Location:
    """A folder of its own for every build: an attempt refers to nothing it did not write or inherit (L15)."""
    return location_of(link_epoch, shelf.ports.chance.token(8).hex())
