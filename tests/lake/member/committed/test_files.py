import msgspec
import polars as pl
import pytest
from tests.lake.core.committed.shelf import entry
from tests.lake.member.committed.conftest import OPTIONS

from penstock.kernel.errors import NotFound, ObjectStoreFailed
from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.metarange import EMPTY, EMPTY_TREE, TreeAddress, location_of, metarange_key, range_key
from penstock.lake.member.committed import Trees
from penstock.plumbing.objects import MANY_MAX, ObjectStore

HERE = location_of(1, "attempt-1")
ENTRIES = entries_from((f"p{number:03}", entry(number % 3)) for number in range(100))


async def keys_of(store: ObjectStore) -> list[str]:
    return [each.key async for page in store.list() for each in page.objects]


async def test_objects_lie_in_the_folder_of_their_attempt(store: ObjectStore, trees: Trees) -> None:
    tree = await trees.build(EMPTY_TREE, puts(ENTRIES), HERE)
    contents = await trees.files.open(tree)

    expected = [range_key(each.location, each.id) for each in map(contents.__getitem__, range(len(contents)))]
    expected.append(metarange_key(HERE, tree.id))
    assert len(contents) > 2
    assert await keys_of(store) == sorted(f"shop/{key}" for key in expected)


async def test_other_processes_read_the_same_tree(store: ObjectStore, trees: Trees) -> None:
    tree = await trees.build(EMPTY_TREE, puts(ENTRIES), HERE)

    async with Trees(store, "shop/", OPTIONS) as others:
        contents = await others.files.open(tree)
        rows = [await others.files.scan(contents[row]) for row in range(len(contents))]
    assert pl.concat(rows).equals(ENTRIES)


async def test_what_is_not_what_its_name_says_is_refused(store: ObjectStore, trees: Trees) -> None:
    tree = await trees.build(EMPTY_TREE, puts(ENTRIES), HERE)
    contents = await trees.files.open(tree)
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
    contents = await trees.files.open(await trees.build(EMPTY_TREE, puts(ENTRIES), HERE))

    await trees.files.scan(contents[0])
    assert trees.files.ranges.bytes == 0
    assert await trees.files.entries(contents[0]) is await trees.files.entries(contents[0])
    assert await trees.files.scan(contents[0]) is await trees.files.entries(contents[0])
    assert trees.files.ranges.misses == 1


async def test_ranges_fetched_together_are_checked_held_or_not(store: ObjectStore, trees: Trees) -> None:
    contents = await trees.files.open(await trees.build(EMPTY_TREE, puts(ENTRIES), HERE))
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
    async with Trees(store, "shop/", options) as trees:
        contents = await trees.files.open(await trees.build(EMPTY_TREE, puts(ENTRIES), HERE))
        found = await trees.files.fetch([contents[row] for row in range(len(contents))])

    assert len(contents) > MANY_MAX
    assert found.entries().equals(ENTRIES)


async def test_equal_trees_keep_their_own_locations(store: ObjectStore, trees: Trees) -> None:
    """L15: a child of one must not refer to what only the other refers to, for that may be swept."""
    kept = await trees.build(EMPTY_TREE, puts(ENTRIES), HERE)
    swept = await trees.build(EMPTY_TREE, puts(ENTRIES), location_of(1, "attempt-2"))
    await store.delete(*[key for key in await keys_of(store) if "/attempt-2/" in key])

    child = await trees.build(
        kept, puts(ENTRIES.head(1).with_columns(size=pl.lit(9, pl.Int64))), location_of(2, "child")
    )

    assert kept.id == swept.id
    assert set((await trees.files.open(kept)).frame["location"]) == {HERE}
    assert set((await trees.files.open(child)).frame["location"]) == {HERE, location_of(2, "child")}


async def test_the_empty_tree_is_stored_nowhere(store: ObjectStore, trees: Trees) -> None:
    assert await trees.files.open(EMPTY_TREE) is EMPTY
    assert (await trees.files.save(EMPTY, HERE)).id == EMPTY_TREE.id
    assert await keys_of(store) == []
