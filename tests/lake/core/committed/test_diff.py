import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import EDITS, TREES, Edit, Shelf, Tree, changes_of, edited, entry

from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.diff import DiffKind, plan_diff, visible
from penstock.lake.core.committed.entry import STORED_COLUMNS, entries_from, entry_of
from penstock.lake.core.committed.metarange import EMPTY
from penstock.lake.core.staging.entry import Entry

Difference = tuple[DiffKind, Entry | None, Entry | None]


def oracle(left: Tree, right: Tree) -> dict[str, Difference]:
    return {
        path: (kind_of(left.get(path), right.get(path)), left.get(path), right.get(path))
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    }


def kind_of(left: Entry | None, right: Entry | None) -> DiffKind:
    if left is None:
        return DiffKind.ADDED
    if right is None:
        return DiffKind.REMOVED
    return DiffKind.READDRESSED if left.identity == right.identity else DiffKind.CHANGED


def as_dict(diff: pl.DataFrame) -> dict[str, Difference]:
    left = diff.select("path", *(pl.col(f"left_{name}").alias(name) for name in STORED_COLUMNS))
    right = diff.select("path", *STORED_COLUMNS)
    return {
        path: (
            DiffKind(kind),
            None if kind == DiffKind.ADDED else entry_of(left, row),
            None if kind == DiffKind.REMOVED else entry_of(right, row),
        )
        for row, (path, kind) in enumerate(diff.select("path", "kind").iter_rows())
    }


@settings(deadline=None, max_examples=20)
@given(TREES, TREES)
def test_the_diff_of_any_two_trees_is_the_oracles(left: Tree, right: Tree) -> None:
    shelf = Shelf()

    diff = shelf.diff(shelf.tree(left), shelf.tree(right))

    assert diff["path"].is_sorted()
    assert as_dict(diff) == oracle(left, right)


@settings(deadline=None, max_examples=20)
@given(TREES, EDITS)
def test_the_diff_of_a_tree_and_its_child_is_the_oracles(tree: Tree, edit: Edit) -> None:
    shelf = Shelf()
    parent = shelf.tree(tree)
    child = shelf.build(parent, changes_of(edit))

    assert as_dict(shelf.diff(parent, child)) == oracle(tree, edited(tree, edit))


@settings(deadline=None, max_examples=20)
@given(TREES, TREES)
def test_a_prefix_shows_its_part_of_the_diff(left: Tree, right: Tree) -> None:
    shelf = Shelf()
    expected = {path: each for path, each in oracle(left, right).items() if path.startswith("b/")}

    assert as_dict(shelf.diff(shelf.tree(left), shelf.tree(right), "b/")) == expected


def test_only_what_differs_is_read() -> None:
    shelf = Shelf(Chunking(rows_mean=50))
    tree = {f"p{number:05}": entry(1) for number in range(5000)}
    left = shelf.tree(tree)
    right = shelf.build(left, changes_of({"p01000": entry(2), "p04000": None}))
    shelf.reads = 0

    diff = shelf.diff(left, right)

    assert diff["path"].to_list() == ["p01000", "p04000"]
    assert shelf.reads <= 5  # one or two ranges on each side of each change, of a hundred
    assert plan_diff(left, left) == []
    assert all(overlap.left and overlap.right for overlap in plan_diff(left, right))


@settings(deadline=None, max_examples=20)
@given(TREES, TREES, st.sampled_from(["", "a", "a/3", "b", "b/7", "c", "z"]))
def test_a_plan_from_a_path_on_leaves_out_what_ends_before_it(left: Tree, right: Tree, start: str) -> None:
    shelf = Shelf()
    one, other = shelf.tree(left), shelf.tree(right)
    whole = plan_diff(one, other)

    assert plan_diff(one, other, start=start) == [overlap for overlap in whole if overlap.upto >= start]


def test_a_late_page_reads_as_much_as_the_first() -> None:
    shelf = Shelf(Chunking(rows_mean=50))
    left = shelf.tree({f"p{number:05}": entry(1) for number in range(5000)})
    right = shelf.build(left, changes_of({f"p{number:05}": entry(2) for number in range(0, 5000, 50)}))

    assert len(plan_diff(left, right)) > 20
    assert len(plan_diff(left, right, start="p04990")) <= 2


def test_a_tree_against_the_empty_one_is_all_of_it() -> None:
    shelf = Shelf()
    tree = {f"p{number}": entry(number) for number in range(30)}

    assert set(shelf.diff(EMPTY, shelf.tree(tree))["kind"]) == {DiffKind.ADDED}
    assert set(shelf.diff(shelf.tree(tree), EMPTY)["kind"]) == {DiffKind.REMOVED}


def test_people_are_not_shown_new_addresses_of_the_same_content() -> None:
    shelf = Shelf()
    left, right = shelf.tree({"a": entry(1), "b": entry(2)}), shelf.tree({"a": entry(1, "data/new"), "b": entry(3)})

    diff = shelf.diff(left, right)

    assert as_dict(diff)["a"][0] is DiffKind.READDRESSED
    assert visible(diff)["path"].to_list() == ["b"]
    assert entries_from([("b", entry(3))]).equals(visible(diff).select("path", *STORED_COLUMNS))
