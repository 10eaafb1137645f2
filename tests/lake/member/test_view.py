"""Pages of a branch: a real tree in memory under uncommitted changes, against a dictionary."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

import pytest
from tests.lake.core.committed.shelf import changes_of, entry
from tests.lake.core.committed.test_branch_listing import Changes, draw, overlay_of
from tests.lake.core.committed.test_listing import oracle

from penstock.lake.core.committed.leaves.cut import LeafCut
from penstock.lake.core.committed.leaves.node import Leaf
from penstock.lake.core.committed.metarange import EMPTY_TREE, Range, location_of
from penstock.lake.core.staging.areas.folding import StagedChanges
from penstock.lake.core.staging.areas.index import Index
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.snapshot import Snapshot
from penstock.lake.member.committed import TreeOptions, Trees
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.member.view import View
from penstock.lake.records.service import ChangeKind
from penstock.plumbing.objects import open_store

CASES = 25
OPTIONS = TreeOptions(leaf_cut=LeafCut(rows_mean=2, rows_min=2, rows_max=8, node_rows_mean=12), threads_max=1)


class OneShelf:
    """As much of a shelf as a view needs."""

    def __init__(self, trees: Trees) -> None:
        self.trees = trees

    def full_address(self, entry: Entry) -> str:
        return entry.address

    def key(self, entry: Entry) -> str:
        return entry.address


class OneSnapshot:
    """As much of a snapshot as a view needs."""

    def __init__(self, overlay: StagedChanges) -> None:
        self.overlay = overlay


async def view_of(trees: Trees, tree: Mapping[str, Entry], staged: StagedChanges) -> View:
    address = await trees.build(EMPTY_TREE, changes_of(tree), location_of(1, "first")) if tree else EMPTY_TREE
    return View(cast("LakeShelf", OneShelf(trees)), "c", address, cast("Snapshot", OneSnapshot(staged)))


async def pages(ask: Any, limit: int, after: str) -> list[Any]:
    found: list[Any] = []
    token: str = after
    while True:
        page = await ask(token, limit)
        assert len(page.results) <= limit
        found += page.results
        token = page.next
        if not token:
            return found


def expected_changes(
    tree: Changes, shown: Changes, prefix: str, after: str, delimiter: str
) -> list[tuple[str, ChangeKind]]:
    """Return what the uncommitted changes of a branch are, in order."""
    names: dict[str, ChangeKind] = {}
    for path in sorted({*tree, *shown}):
        old, new = tree.get(path), shown.get(path)
        if old == new or not path.startswith(prefix):
            continue
        at = path.find(delimiter, len(prefix)) if delimiter else -1
        kind = ChangeKind.ADDED if old is None else ChangeKind.REMOVED if new is None else ChangeKind.CHANGED
        names[path if at < 0 else path[: at + len(delimiter)]] = kind if at < 0 else ChangeKind.PREFIX_CHANGED
    return sorted((name, kind) for name, kind in names.items() if name > after)


async def test_a_branch_is_listed_and_compared_as_the_oracle_shows() -> None:
    for seed in range(CASES):
        random = Random(seed)
        tree, runs = draw(random)
        shown = {name: change for name, change in _overlaid(tree, runs).items() if change is not None}
        prefix, delimiter = random.choice(["", "", "a", "a/", "d/"]), random.choice(["", "/", "/", "//"])
        after, limit = random.choice(["", "", "a/b", "a/bb", "b/", "d/2"]), random.randint(1, 5)
        async with open_store("memory://") as store, Trees(store, "shop/", OPTIONS) as trees:
            view = await view_of(trees, tree, overlay_of(runs, random))

            async def listed(token: str, many: int, view: View = view, p: str = prefix, d: str = delimiter) -> Any:
                return await view.list_page(p, token, d, many)

            async def changed(token: str, many: int, view: View = view, p: str = prefix, d: str = delimiter) -> Any:
                return await view.uncommitted(p, token, d, many)

            names = [each.path for each in await pages(listed, limit, after)]
            changes = [(each.path, each.kind) for each in await pages(changed, limit, after)]
        assert names == oracle(shown, prefix, after, delimiter), seed
        assert changes == expected_changes(tree, shown, prefix, after, delimiter), seed


def _overlaid(tree: Changes, runs: Sequence[Changes]) -> dict[str, Entry | None]:
    return {name: change for layer in (tree, *runs) for name, change in layer.items()}


@pytest.fixture
def parts_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of leaves that were asked for, each once for each question."""
    from penstock.lake.member.committed.files import TreeFiles

    asked: list[str] = []
    one, many = TreeFiles.entries, TreeFiles.entries_of_each

    async def entries(self: TreeFiles, found: Range | Leaf) -> Any:
        asked.append(found.id)
        return await one(self, found)

    async def entries_of_each(self: TreeFiles, parts: Sequence[Range | Leaf]) -> Any:
        asked.extend(each.id for each in parts)
        return await many(self, parts)

    monkeypatch.setattr(TreeFiles, "entries", entries)
    monkeypatch.setattr(TreeFiles, "entries_of_each", entries_of_each)
    return asked


async def test_a_list_of_folders_reads_at_most_a_leaf_for_each_name(parts_read: list[str]) -> None:
    tree = {f"f{folder:03}/{number:03}": entry(1) for folder in range(40) for number in range(30)}
    rows: Changes = {f"f{folder:03}/new{number}": entry(2) for folder in range(0, 40, 2) for number in range(9)}
    gone: Changes = {f"f{folder:03}/{number:03}": None for folder in (3, 5) for number in range(30)}
    staged = Index([Run.of(rows.items())], small_rows_max=0).overlay(gone)
    async with open_store("memory://") as store, Trees(store, "shop/", OPTIONS) as trees:
        view = await view_of(trees, tree, staged)
        parts_read.clear()
        page = await view.list_page("", "", "/", 20)

        assert [each.path for each in page.results] == [f"f{n:03}/" for n in range(22) if n not in (3, 5)]
        beyond = 2 * 30 // 2  # a folder full of tombstones is read through
        assert len(parts_read) <= 21 + beyond


async def test_a_page_of_changes_reads_the_leaves_that_it_shows(parts_read: list[str]) -> None:
    tree = {f"p/{number:04}": entry(1) for number in range(1000)}
    rows: Changes = {f"p/{number:04}": entry(2) for number in range(0, 1000, 10)}
    staged = Index([Run.of(rows.items())], small_rows_max=0).overlay({})
    async with open_store("memory://") as store, Trees(store, "shop/", OPTIONS) as trees:
        view = await view_of(trees, tree, staged)
        parts_read.clear()
        page = await view.uncommitted("", "p/0500", "", 10)

        assert [each.path for each in page.results] == [f"p/{number:04}" for number in range(510, 610, 10)]
        assert len(parts_read) <= 11
