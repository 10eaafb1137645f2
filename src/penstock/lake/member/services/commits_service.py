"""Commits of the lake's service: commit, log, diff, merge, revert, cherry-pick. Design: lake.md L7 to L9, L13."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import polars as pl

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.kernel.ids import SECOND
from penstock.lake.core.committed.diff import DiffKind
from penstock.lake.core.committed.entry import STORED_COLUMNS
from penstock.lake.core.committed.merging.merge import Strategy as MergeStrategy
from penstock.lake.core.committed.metarange import EMPTY_TREE, TreeAddress
from penstock.lake.core.refs import commit as records
from penstock.lake.core.staging.areas.folding import after_prefix
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.proposing import port
from penstock.lake.core.staging.records import Instance
from penstock.lake.member.engine import Engine
from penstock.lake.member.services.checks import nanoseconds
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.member.view import as_entry
from penstock.lake.member.wishes import CherryPickWish, CommitWish, Draft, HeadMove, MergeWish, RevertWish
from penstock.lake.records.service import AMOUNT_MAX, Change, ChangeKind, Commit, Page, Progress, Strategy

__all__ = ["CommitsService", "shown"]

TTL_NS: Final = 60 * SECOND  # of a commit's attempt; its owner extends it while it builds
DEFAULT_COMMITTER: Final = "penstock"
_KINDS: Final = {
    DiffKind.ADDED.value: ChangeKind.ADDED,
    DiffKind.REMOVED.value: ChangeKind.REMOVED,
    DiffKind.CHANGED.value: ChangeKind.CHANGED,
}
_STRATEGIES: Final = {
    "": MergeStrategy.REFUSE,
    "source-wins": MergeStrategy.SOURCE_WINS,
    "dest-wins": MergeStrategy.DEST_WINS,
}
Watch = Callable[[Progress], None]


class CommitsService:
    """The part of the service which deals with commits."""

    engine: Engine
    user = ""  # the default committer

    async def commit(
        self,
        repository: str,
        branch: str,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
        created_at: float | None = None,
        watch: Watch | None = None,
    ) -> Commit:
        found, known = await self.engine.branch(repository, branch)
        draft = self._draft(self.engine.shelves.of(found), message, committer, metadata, watch, created_at)
        wish = port.Commit(self.engine.request(), known.instance, TTL_NS, CommitWish(draft), allow_empty)
        return await self._performed(wish, draft.shelf, branch)

    def _draft(
        self,
        shelf: LakeShelf,
        message: str,
        committer: str,
        metadata: Mapping[str, str] | None,
        watch: Watch | None = None,
        created_at: float | None = None,
    ) -> Draft:
        created_ns = self.engine.ports.clock.time_ns() if created_at is None else nanoseconds(created_at, "date")
        draft = Draft(shelf, message, committer or self.user or DEFAULT_COMMITTER, dict(metadata or {}), created_ns)
        if watch is not None:
            draft.watch = watch
        return draft

    async def _performed(self, wish: port.Commit | port.Move, shelf: LakeShelf, branch: str) -> Commit:
        result = await self.engine.ask(wish)
        self.engine.judge(result, branch)
        return shown(result.commit, await shelf.history.get(result.commit))

    # looking

    async def get_commit(self, repository: str, ref: str) -> Commit:
        shelf, commit = await self.engine.commit_of(repository, ref)
        return shown(commit, await shelf.history.get(commit))

    async def log(
        self,
        repository: str,
        ref: str,
        *,
        after: str = "",
        limit: int = AMOUNT_MAX,
        first_parent: bool = False,
        since: float | None = None,
        stop_at: str = "",
        paths: Sequence[str] = (),
        prefixes: Sequence[str] = (),
    ) -> Page[Commit]:
        shelf, head = await self.engine.commit_of(repository, ref)
        stop = (await self.engine.commit_of(repository, stop_at))[1] if stop_at else ""
        found: list[Commit] = []
        is_behind = not after
        async for line in shelf.history.walk(head, first_parent=first_parent):
            if since is not None and line.commit.created_ns < since * 1e9:
                break
            if is_behind and await self._touches(shelf, line.commit, paths, prefixes):
                found.append(shown(line.id, line.commit))
            is_behind = is_behind or line.id == after
            if len(found) > limit or line.id == stop:
                break
        return Page(found[:limit], found[limit - 1].id if len(found) > limit else "")

    async def _touches(
        self, shelf: LakeShelf, commit: records.Commit, paths: Sequence[str], prefixes: Sequence[str]
    ) -> bool:
        """Return whether a commit changed something there against its first parent."""
        if not paths and not prefixes:
            return True
        before = (await shelf.history.get(commit.parents[0])).tree if commit.parents else EMPTY_TREE
        for path in paths:
            if await shelf.trees.get(before, path) != await shelf.trees.get(commit.tree, path):
                return True
        for prefix in prefixes:
            async with aclosing(shelf.trees.diff(before, commit.tree, prefix)) as frames:
                async for frame in frames:
                    if frame.height:
                        return True
        return False

    # diffs

    async def uncommitted(
        self,
        repository: str,
        branch: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        limit: int = AMOUNT_MAX,
    ) -> Page[Change]:
        view = await self.engine.view(repository, branch)
        if view.snapshot is None:
            raise NotFound(f"there is no branch {branch!r} in {repository}", kind="branch")
        return await view.uncommitted(prefix, after, delimiter, limit)

    async def diff(
        self,
        repository: str,
        left: str,
        right: str,
        *,
        three_dot: bool = True,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        limit: int = AMOUNT_MAX,
    ) -> Page[Change]:
        shelf, left_id = await self.engine.commit_of(repository, left)
        _, right_id = await self.engine.commit_of(repository, right)
        left_tree, right_tree = [(await shelf.history.get(each)).tree for each in (left_id, right_id)]
        base_tree = left_tree
        if three_dot:
            base = await shelf.history.merge_base(left_id, right_id)
            base_tree = (await shelf.history.get(base)).tree if base is not None else EMPTY_TREE
        start = _start(prefix, after, delimiter)
        changes = _changes(shelf, base_tree, right_tree, left_tree, prefix, start)
        return await _paged(changes, prefix, start, delimiter, limit)

    # head moves

    async def merge(
        self,
        repository: str,
        source: str,
        branch: str,
        *,
        message: str = "",
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        strategy: Strategy = "",
        allow_empty: bool = False,
        squash: bool = False,
        watch: Watch | None = None,
    ) -> Commit:
        if strategy not in _STRATEGIES:
            raise InvalidArgument(f"strategy {strategy!r}: expected source-wins or dest-wins")
        _, commit = await self.engine.commit_of(repository, source)
        found, known = await self.engine.branch(repository, branch)
        text = message or f"Merge '{source}' into '{branch}'"
        draft = self._draft(self.engine.shelves.of(found), text, committer, metadata, watch)
        draft.metadata = {**draft.metadata, ".lakefs.merge.strategy": strategy or "default"}
        wish = MergeWish(draft, commit, _STRATEGIES[strategy], squash, allow_empty)
        # Two parents are a change even where the tree is the same: whether that is wanted, the wish has decided.
        return await self._move(wish, known.instance, branch, allow_empty=True)

    async def merge_base(self, repository: str, left: str, right: str) -> str:
        shelf, one = await self.engine.commit_of(repository, left)
        _, other = await self.engine.commit_of(repository, right)
        base = await shelf.history.merge_base(one, other)
        if base is None:
            raise NotFound(f"{left} and {right} have no common ancestor", kind="commit")
        return base

    async def revert(
        self, repository: str, branch: str, ref: str, *, parent: int = 0, committer: str = "", allow_empty: bool = False
    ) -> Commit:
        _, commit = await self.engine.commit_of(repository, ref)
        found, known = await self.engine.branch(repository, branch)
        draft = self._draft(self.engine.shelves.of(found), f"Revert {commit}", committer, None)
        return await self._move(RevertWish(draft, commit, parent), known.instance, branch, allow_empty=allow_empty)

    async def cherry_pick(
        self, repository: str, branch: str, ref: str, *, parent: int = 0, committer: str = ""
    ) -> Commit:
        shelf, commit = await self.engine.commit_of(repository, ref)
        found, known = await self.engine.branch(repository, branch)
        picked = await shelf.history.get(commit)
        origin = {"cherry-pick-origin": commit, "cherry-pick-committer": picked.committer}
        draft = self._draft(self.engine.shelves.of(found), picked.message, committer, {**picked.metadata, **origin})
        return await self._move(CherryPickWish(draft, commit, parent), known.instance, branch)

    async def _move(self, wish: HeadMove, instance: str, branch: str, *, allow_empty: bool = False) -> Commit:
        move = port.Move(self.engine.request(), Instance(instance), wish, allow_empty, is_clean=True)
        return await self._performed(move, wish.draft.shelf, branch)


def shown(id_: str, commit: records.Commit) -> Commit:
    """A stored commit as the service shows it."""
    return Commit(
        id_,
        commit.parents,
        commit.message,
        commit.committer,
        commit.created_ns / 1e9,
        commit.metadata,
        commit.tree.id,
        commit.generation,
    )


async def _changes(
    shelf: LakeShelf, base: TreeAddress, right: TreeAddress, left: TreeAddress, prefix: str, start: str
) -> AsyncIterator[Change]:
    """Yield the changes from the base to the right tree that the left tree lacks; a conflict if it has another one."""
    async with aclosing(shelf.trees.diff(base, right, prefix, start=start)) as frames:
        async for frame in frames:
            theirs: dict[str, Entry | None] = {}
            if left.id != base.id:
                other = await shelf.trees.get_many(left, frame["path"])
                theirs = dict(zip(other["path"], _entries(other, ""), strict=True))
            for path, kind, now, before in zip(
                frame["path"], frame["kind"], _entries(frame, ""), _entries(frame, "left_"), strict=True
            ):
                shown = _KINDS[kind]
                if left.id != base.id:
                    sides = (theirs.get(path), before, now)
                    left_entry, base_entry, right_entry = (None if each is None else as_entry(each) for each in sides)
                    if left_entry == right_entry:
                        continue  # both sides made the same change
                    shown = shown if left_entry == base_entry else ChangeKind.CONFLICT
                yield Change(path, shown, now or before)


def _entries(frame: pl.DataFrame, side: str) -> list[Entry | None]:
    columns = frame.select([f"{side}{name}" for name in STORED_COLUMNS])
    return [Entry(*row) if row[1] is not None else None for row in columns.iter_rows()]


def _start(prefix: str, after: str, delimiter: str) -> str:
    """Return the first path that a page may show."""
    start = max(prefix, after + "\0" if after else "")
    return (after_prefix(after) or start) if delimiter and after.endswith(delimiter) else start


async def _paged(changes: AsyncIterator[Change], prefix: str, start: str, delimiter: str, limit: int) -> Page[Change]:
    found: list[Change] = []
    async with aclosing(changes) as rows:  # type: ignore[type-var]
        async for change in rows:
            if change.path < start:
                continue
            cut = change.path.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                common = change.path[: cut + len(delimiter)]
                change = Change(common, ChangeKind.PREFIX_CHANGED)
                start = after_prefix(common) or start
            found.append(change)
            if len(found) > limit:
                break
    return Page(found[:limit], found[limit - 1].path if len(found) > limit else "")
