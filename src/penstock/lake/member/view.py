"""A view shows a ref at one position of the queue: a tree, and the uncommitted changes over it. Design: lake.md L6.

Head and areas were captured together; nothing in a view ever changes. A list merges the names of both, and asks for no
more leaves than the page needs; so does a page of uncommitted changes.
"""

from functools import partial

from penstock.lake.core.committed.branch_listing import Ask, CommittedNames, FolderShown, StagedNames, list_branch
from penstock.lake.core.committed.listing import ListPage
from penstock.lake.core.committed.metarange import TreeAddress
from penstock.lake.core.staging.areas.folding import after_prefix, fold, folder_in, name_after
from penstock.lake.core.staging.areas.index import Overlay
from penstock.lake.core.staging.areas.small_overlay import SmallOverlay
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.snapshot import Snapshot
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.service import Change, ChangeKind, Object, Page

__all__ = ["View", "as_entry"]

DIFF_ROWS = 10_000  # staged rows compared at a time


class View:
    """What a ref shows."""

    def __init__(self, shelf: LakeShelf, commit: str, tree: TreeAddress, snapshot: Snapshot | None = None) -> None:
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
        if self.snapshot is None:
            return await self._list_committed(prefix, after, delimiter, limit)
        steps = list_branch(self.snapshot.overlay, after, limit + 1)
        answer: ListPage | list[tuple[str, Entry | None]] | bool | None = None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as done:
                shown = [self.object(*line) for line in done.value[:limit]]
                return Page(shown, shown[-1].path if len(done.value) > limit else "")
            answer = await self._answer(asked, prefix, delimiter)

    async def _answer(
        self, asked: Ask, prefix: str, delimiter: str
    ) -> ListPage | list[tuple[str, Entry | None]] | bool:
        """Return what a list of the branch asks for."""
        trees, overlay = self.shelf.trees, self._overlay()
        match asked:
            case CommittedNames(after, limit):
                return await trees.list_page(self.tree, prefix, after=after, delimiter=delimiter, limit=limit)
            case StagedNames(after, limit):
                if isinstance(overlay, SmallOverlay):
                    return fold(overlay, prefix, after, delimiter, limit)
                return await trees.files.in_thread(lambda: fold(overlay, prefix, after, delimiter, limit))
            case FolderShown(folder):
                return await trees.shows(self.tree, overlay, folder)

    def _overlay(self) -> Overlay | SmallOverlay:
        assert self.snapshot is not None
        return self.snapshot.overlay

    async def _list_committed(self, prefix: str, after: str, delimiter: str, limit: int) -> Page[Object]:
        page = await self.shelf.trees.list_page(self.tree, prefix, after=after, delimiter=delimiter, limit=limit)
        shown = [self.object(path, entry) for path, entry in page.lines()]
        if page.folders:
            shown += [Object(folder, None) for folder in page.folders]
            shown.sort(key=lambda each: each.path)
        return Page(shown, page.next_after)

    def object(self, path: str, entry: Entry | None) -> Object:
        if entry is None:
            return Object(path, None)
        return Object(path, entry, self.shelf.full_address(entry), self.shelf.key(entry))

    async def uncommitted(self, prefix: str, after: str, delimiter: str, limit: int) -> Page[Change]:
        """Return how uncommitted entries differ from committed ones."""
        if self.snapshot is None:
            return Page([])
        found: list[Change] = []
        start = name_after(prefix, after, delimiter)
        rows = limit + 1
        while start is not None and len(found) <= limit:
            ask = partial(self._overlay().changes_from, start, min(rows, DIFF_ROWS))
            chunk = await self.shelf.trees.files.in_thread(ask)
            if not chunk:
                break
            inside = [change for change in chunk if change[0].startswith(prefix)]
            start = await self._compare(inside, prefix, delimiter, limit, found) if inside else None
            rows *= 4  # many changes may be none: then the next chunk is larger
        return Page(found[:limit], found[limit - 1].path if len(found) > limit else "")

    async def _compare(
        self, chunk: list[tuple[str, Entry | None]], prefix: str, delimiter: str, limit: int, found: list[Change]
    ) -> str | None:
        """Add the differences of a chunk; return where to continue, or none if there can be no more."""
        committed = await self.shelf.trees.entries_of(self.tree, [path for path, _ in chunk])
        first = ""
        for path, entry in chunk:
            if path < first:
                continue  # in a folder that is shown already
            kind = _kind(committed.get(path), entry)
            if kind is None:
                continue
            folder = folder_in(path, prefix, delimiter)
            if folder:
                found.append(Change(folder, ChangeKind.PREFIX_CHANGED))
                behind = after_prefix(folder)
                if behind is None:
                    return None
                first = behind
            else:
                found.append(Change(path, kind, entry))
            if len(found) > limit:
                break
        return max(first, chunk[-1][0] + "\0")


def _kind(before: Entry | None, now: Entry | None) -> ChangeKind | None:
    if before is None or now is None:
        if before is None and now is None:
            return None
        return ChangeKind.ADDED if before is None else ChangeKind.REMOVED
    return None if as_entry(before) == as_entry(now) else ChangeKind.CHANGED


def as_entry(entry: Entry) -> tuple[object, ...]:
    """Return the columns that make two entries the same content; without an ETag, the address identifies the bytes."""
    return entry.etag or entry.address, entry.size, entry.content_type, entry.metadata
