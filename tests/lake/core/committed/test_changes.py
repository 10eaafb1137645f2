import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import EDITS, TREES, Edit, Tree, changes_of, edited, entry, tree_of

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.changes import (
    check_changes,
    deletes,
    empty_changes,
    lay_over,
    newest,
    overlay,
    overlay_rows,
    puts_of,
)
from penstock.lake.core.committed.entry import check_entries, entries_from


@settings(deadline=None, max_examples=25)
@given(TREES, st.lists(EDITS, max_size=4))
def test_areas_laid_over_a_tree_are_the_edits_one_after_the_other(tree: Tree, edits: list[Edit]) -> None:
    changes = check_changes(lay_over([changes_of(edit) for edit in edits]))
    for edit in edits:
        expected = edited(tree, edit)
        tree, before = expected, tree
        assert tree_of(overlay(entries_from(before.items()), changes_of(edit))) == expected

    assert list(changes["path"]) == sorted({path for edit in edits for path in edit})
    shown = check_entries(overlay(entries_from(tree.items()), changes))
    assert tree_of(shown) == tree  # laying the same over again changes nothing


def test_the_last_change_of_a_path_counts() -> None:
    made = pl.concat([changes_of({"b": entry(1)}), changes_of({"a": entry(1)}), changes_of({"b": None})])

    assert newest(made).equals(changes_of({"a": entry(1), "b": None}))


def test_nothing_changes_nothing() -> None:
    entries = entries_from([("a", entry(1))])

    assert overlay(entries, empty_changes()).equals(entries)
    assert overlay(entries.clear(), deletes(pl.Series(["a"]))).height == 0
    assert puts_of(empty_changes()).height == 0
    assert lay_over([]).equals(empty_changes())


def test_an_overlay_says_where_its_rows_come_from() -> None:
    edit = {"a": entry(1), "b": entry(1), "c": None, "d": None, "e": entry(1), "g": entry(1), "h": entry(1)}

    rows, replaced = overlay_rows(pl.Series(["b", "c", "e", "f"]), changes_of(edit))

    assert rows.tolist() == [4, 5, 6, 3, 7, 8]  # a, b, e, the old f, g, h
    assert replaced.tolist() == [-1, 0, 2, -1, -1]


def test_changes_in_disorder_are_refused() -> None:
    twice = pl.concat([changes_of({"a": None}), changes_of({"a": None})])

    with pytest.raises(InvalidArgument, match="ascending"):
        check_changes(twice)
    with pytest.raises(InvalidArgument, match="columns"):
        check_changes(twice.drop("is_live"))
