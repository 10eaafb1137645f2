from collections.abc import AsyncIterator

import msgspec
import polars as pl
import pytest
from tests.lake.core.committed.shelf import entry
from tests.lake.member.committed.conftest import OPTIONS

from penstock.kernel.errors import FormatTooNew, NotFound, ObjectStoreFailed
from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.changes import deletes, puts
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.leaves.root import Root
from penstock.lake.core.committed.metarange import (
    EMPTY,
    EMPTY_TREE,
    Location,
    MetaRange,
    MetaRangeId,
    TreeAddress,
    location_of,
    metarange_key,
    range_key,
)
from penstock.lake.member.committed import Trees
from penstock.plumbing.objects import MANY_MAX, ObjectStore
from penstock_lab.bench.peers.ranges import RangeTrees

HERE = location_of(1, "attempt-1")
ENTRIES = entries_from((f"p{number:03}", entry(number % 3)) for number in range(100))


async def keys_of(store: ObjectStore) -> list[str]:
    return [each.key async for page in store.list() for each in page.objects]


async def ranges_of(trees: Trees, tree: TreeAddress) -> MetaRange:
    found = await trees.files.open(tree)
    assert isinstance(found, MetaRange)
    return found


async def old_tree(trees: Trees, where: Location = HERE) -> TreeAddress:
    """A tree of format 2."""
    return await trees.build(EMPTY_TREE, puts(ENTRIES), where)


@pytest.fixture
async def trees(store: ObjectStore) -> AsyncIterator[Trees]:
    async with RangeTrees(store, "shop/", OPTIONS) as opened:
        yield opened


async def test_objects_lie_in_the_folder_of_their_attempt(store: ObjectStore, trees: Trees) -> None:
    tree = await old_tree(trees)
    contents = await ranges_of(trees, tree)

    expected = [range_key(each.location, each.id) for each in map(contents.__getitem__, range(len(contents)))]
    expected.append(metarange_key(HERE, tree.id))
    assert len(contents) > 2
    assert await keys_of(store) == sorted(f"shop/{key}" for key in expected)


async def test_other_processes_read_the_same_tree(store: ObjectStore, trees: Trees) -> None:
    tree = await old_tree(trees)

    async with Trees(store, "shop/", OPTIONS) as others:
        contents = await ranges_of(others, tree)
        rows = [await others.files.scan(contents[row]) for row in range(len(contents))]
    assert pl.concat(rows).equals(ENTRIES)


async def test_what_is_not_what_its_name_says_is_refused(store: ObjectStore, trees: Trees) -> None:
    tree = await old_tree(trees)
    contents = await ranges_of(trees, tree)
    one, other = (f"shop/{range_key(HERE, contents[row].id)}" for row in (0, 1))
    await store.copy(other, one)
    await store.put(f"shop/{metarange_key(HERE, tree.id)}", b"garbage")

    async with Trees(store, "shop/", OPTIONS) as others:
        with pytest.raises(ObjectStoreFailed, match="holds other entries"):
            await others.files.entries(contents[0])
        with pytest.raises(ObjectStoreFailed, match="Parquet"):
            await others.files.open(tree)
        with pytest.raises(NotFound):
            await others.files.open(TreeAddress(tree.id, location_of(2, "nowhere")))


async def test_a_range_is_read_once_for_those_who_come_again_and_scans_leave_no_trace(trees: Trees) -> None:
    contents = await ranges_of(trees, await old_tree(trees))

    await trees.files.scan(contents[0])
    assert trees.files.ranges.bytes == 0
    assert await trees.files.entries(contents[0]) is await trees.files.entries(contents[0])
    assert await trees.files.scan(contents[0]) is await trees.files.entries(contents[0])
    assert trees.files.ranges.misses == 1


async def test_ranges_fetched_together_are_checked_held_or_not(store: ObjectStore, trees: Trees) -> None:
    contents = await ranges_of(trees, await old_tree(trees))
    ranges = [contents[row] for row in range(len(contents))]

    nothing_held = await trees.files.fetch(ranges)
    await trees.files.entries(ranges[0])
    first_held = await trees.files.fetch(ranges)

    assert nothing_held.entries().equals(ENTRIES)
    assert first_held.entries().equals(ENTRIES)
    assert (await trees.files.fetch([])).entries().equals(ENTRIES.clear())
    await store.copy(*(f"shop/{range_key(HERE, each.id)}" for each in (ranges[0], ranges[1])))
    wrong = await trees.files.fetch(ranges)
    with pytest.raises(ObjectStoreFailed, match="holds other entries"):
        wrong.tables()


async def test_more_ranges_than_one_call_of_the_store_takes_are_stored_and_read(store: ObjectStore) -> None:
    options = msgspec.structs.replace(OPTIONS, chunking=Chunking(rows_mean=2))
    async with RangeTrees(store, "shop/", options) as trees:
        contents = await ranges_of(trees, await old_tree(trees))
        found = await trees.files.fetch([contents[row] for row in range(len(contents))])

    assert len(contents) > MANY_MAX
    assert found.entries().equals(ENTRIES)


async def test_equal_trees_keep_their_own_places(store: ObjectStore) -> None:
    """L15: a child of one must not refer to what only the other refers to, for that may be swept."""
    async with Trees(store, "shop/", OPTIONS) as trees:
        kept = await old_tree(trees)
        swept = await old_tree(trees, location_of(1, "attempt-2"))
        await store.delete(*[key for key in await keys_of(store) if "/attempt-2/" in key])
        change = puts(ENTRIES.head(1).with_columns(size=pl.lit(9, pl.Int64)))
        child = await trees.build(kept, change, location_of(2, "child"))
        roots = [await trees.files.open(each) for each in (kept, child)]

    assert kept.id == swept.id
    folders = [{key.rpartition("/")[0] for key in root.files} for root in roots if isinstance(root, Root)]
    assert folders == [{HERE}, {HERE, location_of(2, "child")}]


async def test_the_empty_tree_is_stored_nowhere(store: ObjectStore) -> None:
    async with Trees(store, "shop/", OPTIONS) as trees:
        tree = await old_tree(trees)
        nothing = await trees.build(tree, deletes(ENTRIES["path"]), location_of(2, "child"))

        assert await trees.files.open(EMPTY_TREE) is EMPTY
    assert nothing == EMPTY_TREE
    assert [key for key in await keys_of(store) if "child" in key] == []


async def test_a_tree_of_a_newer_release_is_refused_by_name(trees: Trees) -> None:
    with pytest.raises(FormatTooNew, match="reads version 2 to 3"):
        await trees.files.open(TreeAddress(MetaRangeId("0" * 64), HERE, 4))
