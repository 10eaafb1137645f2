import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import PATHS, TREES, Shelf, Tree, entry, tree_of

from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.lookup import find_entry, plan_lookup
from penstock.lake.core.committed.metarange import EMPTY


@settings(deadline=None, max_examples=25)
@given(TREES, st.sets(PATHS))
def test_many_paths_are_found_at_once(tree: Tree, paths: set[str]) -> None:
    shelf = Shelf()

    found = shelf.lookup(shelf.tree(tree), pl.Series(sorted(paths), dtype=pl.String))

    assert found["path"].is_sorted()
    assert tree_of(found) == {path: each for path, each in tree.items() if path in paths}


@settings(deadline=None, max_examples=25)
@given(TREES, PATHS)
def test_one_path_is_found_where_it_may_be(tree: Tree, path: str) -> None:
    shelf = Shelf()
    built = shelf.tree(tree)
    row = built.find(path)

    assert (None if row is None else find_entry(shelf.load(built, row), path)) == tree.get(path)


def test_ranges_with_none_of_the_paths_are_not_planned() -> None:
    shelf = Shelf()
    tree = shelf.tree({f"p{number:03}": entry(1) for number in range(100)})

    assert [found.row for found in plan_lookup(tree, pl.Series(["a", "p050", "z"]))] == [tree.find("p050")]
    assert plan_lookup(EMPTY, pl.Series(["a"])) == []
    assert plan_lookup(tree, pl.Series([], dtype=pl.String)) == []
    assert find_entry(entries_from([]), "a") is None
