"""Trees in real stores do what the pure parts say; what those decide is tested in tests/lake/committed."""

import asyncio
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import EDITS, TREES, Edit, Tree, changes_of, edited, entry, tree_of
from tests.lake.member.committed.conftest import OPTIONS

from penstock.kernel.errors import DataDamaged
from penstock.lake.core.committed.changes import lay_over, puts
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.diff import DiffKind
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.leaves.node import Leaves
from penstock.lake.core.committed.merging.merge import Strategy
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, TreeAddress, location_of
from penstock.lake.member.committed import MergeOutcome, Trees
from penstock.lake.member.committed.files import Fetched
from penstock.lake.member.committed.packs import FetchedLeaves
from penstock.plumbing.objects import ObjectStore, open_store


def at(attempt: str) -> Location:
    return location_of(1, attempt)


def numbered(count: int) -> Tree:
    return {f"table/p{number:04}": entry(number % 3) for number in range(count)}


async def build(trees: Trees, tree: Tree, attempt: str = "first") -> TreeAddress:
    return await trees.build(EMPTY_TREE, puts(entries_from(tree.items())), at(attempt))


async def contents(trees: Trees, address: TreeAddress) -> Tree:
    page = await trees.list_page(address, limit=10_000)
    return tree_of(page.entries)


async def leaves(trees: Trees, address: TreeAddress) -> Leaves:
    found = await trees.files.all_parts(await trees.files.open(address))
    assert isinstance(found, Leaves)
    return found


async def differences(trees: Trees, left: TreeAddress, right: TreeAddress) -> dict[str, DiffKind]:
    parts = [part async for part in trees.diff(left, right)]
    return {path: DiffKind(kind) for part in parts for path, kind in part.select("path", "kind").iter_rows()}


async def test_a_tree_is_built_read_and_listed(trees: Trees) -> None:
    tree = numbered(300)
    address = await build(trees, tree)

    paths = pl.Series(["a", "table/p0000", "table/p0150", "table/p0299", "z"])
    assert await contents(trees, address) == tree
    assert await trees.get(address, "table/p0123") == tree["table/p0123"]
    assert [await trees.get(address, path) for path in ("", "table/", "table/p01234", "z")] == [None] * 4
    assert tree_of(await trees.get_many(address, paths)) == {path: tree[path] for path in paths if path in tree}
    assert (await trees.list_page(address, delimiter="/")).folders == ("table/",)


async def test_a_small_change_writes_little_and_refers_to_the_rest(store: ObjectStore, trees: Trees) -> None:
    tree = numbered(1000)
    first = await build(trees, tree)
    second = await trees.build(first, changes_of({"table/p0500": entry(9), "table/p0501": None}), at("second"))

    written = [each.key async for page in store.list(f"shop/{at('second')}/") for each in page.objects]
    assert len(await leaves(trees, first)) > 50
    assert [key.rpartition("/")[2].partition("-")[0] for key in sorted(written)] == ["index", "pack", "root"]
    assert (await leaves(trees, second)).frame.filter(pl.col("pack").str.contains("/second/")).height <= 3
    assert await contents(trees, second) == edited(tree, {"table/p0500": entry(9), "table/p0501": None})
    assert await differences(trees, first, second) == {"table/p0500": DiffKind.CHANGED, "table/p0501": DiffKind.REMOVED}


async def test_equal_content_is_the_same_tree_and_is_not_written_again(store: ObjectStore, trees: Trees) -> None:
    tree = numbered(100)
    first = await build(trees, tree)

    again = await trees.build(first, changes_of({"table/p0001": tree["table/p0001"]}), at("again"))
    elsewhere = await build(trees, tree, "elsewhere")

    assert again == first  # by its parent, so it may be referred to
    assert elsewhere.id == first.id
    assert elsewhere.location != first.location  # by a stranger: L15 wants it written again
    assert [page async for page in store.list(f"shop/{at('again')}/") if page.objects] == []


async def test_progress_is_told(trees: Trees) -> None:
    told: list[tuple[int, int]] = []

    await trees.build(EMPTY_TREE, changes_of(numbered(50)), at("a"), progress=lambda *done: told.append(done))

    assert told == [(1, 1)]


async def test_merge_revert_and_cherry_pick(trees: Trees) -> None:
    base = await build(trees, numbered(200))
    dest = await trees.build(base, changes_of({"table/p0010": entry(7)}), at("dest"))
    source = await trees.build(base, changes_of({"table/p0150": entry(8)}), at("source"))

    merged = (await trees.merge(base, dest, source, at("merged"))).tree
    assert merged is not None
    assert await contents(trees, merged) == edited(numbered(200), {"table/p0010": entry(7), "table/p0150": entry(8)})
    assert await trees.merge(source, merged, base, at("revert")) == MergeOutcome(TreeAddress(dest.id, at("revert"), 3))
    assert (await trees.merge(base, dest, source, at("pick"))).tree == TreeAddress(merged.id, at("pick"), 3)
    assert await trees.merge(base, base, source, at("forward")) == MergeOutcome(source)
    assert await trees.merge(base, dest, base, at("nothing")) == MergeOutcome(dest)


async def test_a_merge_reads_nothing_that_only_one_side_changed(trees: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    base = await build(trees, numbered(1000))
    dest = await trees.build(base, changes_of({"table/p0010": entry(7), "table/p0500": entry(7)}), at("dest"))
    source = await trees.build(base, changes_of({"table/p0900": entry(8)}), at("source"))
    reads: list[int] = []
    fetch = trees.files.fetch_parts

    async def counted(parts: Contents) -> Fetched | FetchedLeaves:
        reads.append(len(parts))
        return await fetch(parts)

    monkeypatch.setattr(trees.files, "fetch_parts", counted)
    merged = (await trees.merge(base, dest, source, at("merged"))).tree
    picked = (await trees.merge(base, source, dest, at("picked"))).tree
    assert merged is not None
    assert picked is not None
    reverted = (await trees.merge(source, merged, base, at("reverted"))).tree

    assert (merged.id, reverted) == (picked.id, TreeAddress(dest.id, at("reverted"), 3))
    assert sum(reads) == 0


async def test_conflicts_are_reported_or_resolved(trees: Trees) -> None:
    base = await build(trees, {"x": entry(0)})
    dest = await trees.build(base, changes_of({"x": entry(1)}), at("dest"))
    source = await trees.build(base, changes_of({"x": None}), at("source"))

    refused = await trees.merge(base, dest, source, at("a"))
    ours = await trees.merge(base, dest, source, at("b"), Strategy.DEST_WINS)
    theirs = await trees.merge(base, dest, source, at("c"), Strategy.SOURCE_WINS)

    assert refused == MergeOutcome(None, ("x",))
    assert ours == MergeOutcome(dest)
    assert theirs.tree is not None
    assert await contents(trees, theirs.tree) == {}


async def test_a_lost_race_is_re_parented(trees: Trees) -> None:
    parent = await build(trees, {"x": entry(0), "y": entry(0), "z": entry(0)})
    gone, rest = changes_of({"x": entry(1), "y": entry(1)}), changes_of({"y": entry(2)})
    finished = await trees.build(parent, lay_over([gone, rest]), at("mine"))
    head = await trees.build(parent, changes_of({"x": entry(9), "z": None}), at("theirs"))

    moved = await trees.reparent(parent, finished, head, at("moved"), gone=gone["path"], rest=rest["path"])

    assert await contents(trees, moved) == {"x": entry(9), "y": entry(2)}
    assert moved.id == (await trees.build(head, rest, at("anew"))).id


async def test_objects_are_imported_in_place_of_a_prefix(trees: Trees) -> None:
    parent = await build(trees, {**numbered(100), "raw/old": entry(1), "rawer": entry(2)})
    listing = pa.RecordBatch.from_pydict(
        {"path": ["new"], "address": ["s3://b/new"], "size": [1], "etag": ["e"], "mtime_ns": [1]}
    )

    imported = await trees.import_objects(parent, [listing], "raw/", at("import"))

    assert await differences(trees, parent, imported) == {"raw/new": DiffKind.ADDED, "raw/old": DiffKind.REMOVED}


async def test_a_damaged_pack_fails_the_build_and_leaves_the_parent(tmp_path: object) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store, Trees(store, "", OPTIONS) as trees:
        parent = await build(trees, numbered(100))
        found = (await leaves(trees, parent))[0]
        whole = (await store.get(found.pack)).data
        await store.put(found.pack, b"damaged")

        with pytest.raises(DataDamaged, match=found.pack):
            await trees.build(parent, changes_of({found.min_key: None}), at("b"))
        await store.put(found.pack, whole)
        assert await contents(trees, parent) == numbered(100)


@settings(deadline=None, max_examples=15)
@given(TREES, st.lists(EDITS, max_size=3))
def test_any_history_in_a_store_is_the_tree_of_its_content(tree: Tree, edits: Sequence[Edit]) -> None:
    async def run() -> None:
        nonlocal tree
        async with open_store("memory://") as store, Trees(store, "", OPTIONS) as trees:
            address = await build(trees, tree)
            for number, edit in enumerate(edits):
                before, tree = tree, edited(tree, edit)
                child = await trees.build(address, changes_of(edit), at(f"edit-{number}"))
                changed = {path for path in edit if _content(before, path) != _content(tree, path)}
                assert set(await differences(trees, address, child)) == changed
                address = child
            assert address.id == (await build(trees, tree, "anew")).id
            assert await contents(trees, address) == tree

    asyncio.run(run())


def _content(tree: Tree, path: str) -> object:
    return tree[path].identity if path in tree else None
