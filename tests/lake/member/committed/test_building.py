"""Build trees of format 3 in a store: references, folds, old trees, merges and grafts."""

import asyncio
from random import Random

import polars as pl
import pytest
from tests.lake.core.committed.shelf import Tree, changes_of, edited, entry
from tests.lake.member.committed.audit import audited
from tests.lake.member.committed.conftest import OPTIONS

from penstock.kernel.errors import DataDamaged, ObjectStoreFailed
from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.diff import DiffKind
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.leaves import fold
from penstock.lake.core.committed.leaves.root import Root
from penstock.lake.core.committed.merging.merge import Strategy
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, TreeAddress, location_of, tree_key
from penstock.lake.member.committed import Trees
from penstock.plumbing.objects import ObjectStore, open_store
from penstock_lab.bench.peers.ranges import RangeTrees


def at(attempt: str) -> Location:
    return location_of(1, attempt)


def numbered(count: int, folder: str = "table/") -> Tree:
    return {f"{folder}p{number:04}": entry(number % 3) for number in range(count)}


async def fresh(trees: Trees, tree: Tree, attempt: str = "first") -> TreeAddress:
    return await trees.build(EMPTY_TREE, puts(entries_from(tree.items())), at(attempt))


async def root_of(trees: Trees, address: TreeAddress) -> Root:
    found = await trees.files.open(address)
    assert isinstance(found, Root)
    return found


async def keys_below(store: ObjectStore, attempt: str) -> list[str]:
    pages = [page async for page in store.list(f"shop/{at(attempt)}/")]
    return [each.key.rpartition("/")[2].partition("-")[0] for page in pages for each in page.objects]


async def old_trees(store: ObjectStore, *trees: Tree) -> list[TreeAddress]:
    """Trees of format 2, the first one the parent of the others."""
    async with RangeTrees(store, "shop/", OPTIONS) as old:
        first = await fresh(old, trees[0], "old-0")
        made = [first]
        for number, tree in enumerate(trees[1:], 1):
            edit = {path: tree.get(path) for path in {*trees[0], *tree} if trees[0].get(path) != tree.get(path)}
            made.append(await old.build(first, changes_of(edit), at(f"old-{number}")))
        return made


async def test_an_old_tree_is_read_and_its_next_commit_is_of_leaves(store: ObjectStore, trees: Trees) -> None:
    tree = numbered(500)
    (old,) = await old_trees(store, tree)
    edit = {"table/p0100": entry(9), "table/p0200": None, "zzz": entry(1)}

    made = await trees.build(old, changes_of(edit), at("next"))

    assert (old.format, made.format) == (2, 3)
    assert await trees.get(old, "table/p0100") == tree["table/p0100"]
    assert await audited(store, "shop/", OPTIONS, made) == edited(tree, edit)
    assert made.id == (await fresh(trees, edited(tree, edit), "scratch")).id
    found = [part async for part in trees.diff(old, made)]
    assert dict(pl.concat(found).select("path", "kind").iter_rows()) == {
        "table/p0100": DiffKind.CHANGED,
        "table/p0200": DiffKind.REMOVED,
        "zzz": DiffKind.ADDED,
    }


@pytest.mark.parametrize("formats", [(2, 2, 2), (2, 3, 2), (2, 2, 3), (2, 3, 3), (3, 3, 3)])
async def test_trees_of_any_formats_are_merged(store: ObjectStore, trees: Trees, formats: tuple[int, int, int]) -> None:
    base = numbered(300)
    ours, theirs = {"table/p0010": entry(7), "a": entry(7)}, {"table/p0011": entry(8), "table/p0250": None}
    sides = base, edited(base, ours), edited(base, theirs)
    old = await old_trees(store, *sides)
    new = [await fresh(trees, side, f"new-{number}") for number, side in enumerate(sides)]
    chosen = [old[side] if format == 2 else new[side] for side, format in enumerate(formats)]

    merged = (await trees.merge(chosen[0], chosen[1], chosen[2], at("merged"), Strategy.REFUSE)).tree

    assert merged is not None
    assert await audited(store, "shop/", OPTIONS, merged) == edited(sides[1], theirs)
    assert merged.id == (await fresh(trees, edited(sides[1], theirs), "scratch")).id


async def test_a_revert_to_equal_content_writes_no_leaf(store: ObjectStore, trees: Trees) -> None:
    base = await fresh(trees, numbered(1000))
    changed = await trees.build(base, changes_of({"table/p0500": entry(9)}), at("changed"))
    other = await trees.build(changed, changes_of({"table/p0100": entry(8)}), at("other"))

    reverted = (await trees.merge(changed, other, base, at("reverted"))).tree

    assert reverted is not None
    assert await keys_below(store, "reverted") == ["root"]
    assert await audited(store, "shop/", OPTIONS, reverted) == edited(numbered(1000), {"table/p0100": entry(8)})


async def test_a_root_or_a_leaf_that_is_not_what_its_name_says_is_refused(store: ObjectStore, trees: Trees) -> None:
    one, other = await fresh(trees, numbered(300)), await fresh(trees, numbered(300, "x/"), "other")
    packs = [next(iter((await root_of(trees, each)).nodes.live)) for each in (one, other)]
    whole = (await store.get(f"shop/{packs[0]}")).data
    await store.put(f"shop/{packs[0]}", bytes(whole[:200]) + bytes(40) + bytes(whole[240:]))
    await store.put(f"shop/{tree_key(other)}", (await store.get(f"shop/{tree_key(one)}")).data)

    async with Trees(store, "shop/", OPTIONS) as others:
        with pytest.raises((ObjectStoreFailed, DataDamaged)):
            await others.get_many(one, pl.Series(sorted(numbered(300))))
        with pytest.raises(ObjectStoreFailed, match="another tree"):
            await others.files.open(other)


async def evolve(seed: int, commits: int, size: int, changed: int) -> tuple[int, int]:
    """Run a history of commits, merges and reverts; return the most packs, and how many leaves were folded."""
    rng = Random(seed)
    async with open_store("memory://") as store, Trees(store, "", OPTIONS) as trees:
        tree = numbered(size)
        heads = [(await fresh(trees, tree), tree)]
        most = 0
        for number in range(commits):
            head, tree = heads[-1]
            edit = {f"table/p{rng.randrange(size):04}": rng.choice([entry(number % 50), None]) for _ in range(changed)}
            child, new = await trees.build(head, changes_of(edit), at(f"c{number}")), edited(tree, edit)
            if rng.randrange(4) == 0:  # a branch from an old commit is merged, or reverted to
                base, old = rng.choice(heads[-5:])
                other = {f"table/p{rng.randrange(size):04}": entry(90 + number % 9)}
                side = await trees.build(base, changes_of(other), at(f"s{number}"))
                found = await trees.merge(base, child, side, at(f"m{number}"), Strategy.SOURCE_WINS)
                assert found.tree is not None
                applied = {path: now for path, now in other.items() if old.get(path) != now}
                child, new = found.tree, edited(new, applied)
            heads.append((child, new))
            most = max(most, len((await root_of(trees, child)).files))
            if number % 10 == 0:
                assert await audited(store, "", OPTIONS, child) == new
        assert heads[-1][0].id == (await fresh(trees, heads[-1][1], "scratch")).id
        names = {key for head, _ in heads for key in (await root_of(trees, head)).files}
        return most, sum("pack-" in key for key in names)


def test_a_history_folds_its_packs_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "SMALL", 64)

    most, packs = asyncio.run(evolve(1, 60, 400, 2))

    assert most < 30
    assert packs > 60


@pytest.mark.parametrize("seed", range(6))
async def test_a_graft_is_the_tree_of_putting_every_entry(trees: Trees, seed: int) -> None:
    rng = Random(seed)
    prefix = rng.choice(["m/", "", "table/p02", "a", "zz"])
    old = {**numbered(rng.randrange(400)), **numbered(rng.randrange(300), "m/"), **numbered(rng.randrange(90), "n/")}
    new = {f"{prefix}{path}": rng.choice([entry(5), entry(6)]) for path in numbered(rng.randrange(300), "x/")}
    parent, source = await fresh(trees, old), await fresh(trees, new, "job")

    made = await trees.graft(parent, source, prefix, at("graft"))

    expected = {**{path: each for path, each in old.items() if not path.startswith(prefix)}, **new}
    assert made.id == (await fresh(trees, expected, "scratch")).id
