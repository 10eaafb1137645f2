"""A small overlay by itself; that it answers as a large one does is in test_index.py."""

from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.areas.small_overlay import SmallOverlay
from penstock.lake.core.staging.entry import Entry

OVERLAY = SmallOverlay(
    {"a": Entry("1"), "b": Entry("2"), "c": None, "é": Entry("3")}, {"b": None, "c": Entry("4"), "d": None}
)


def test_the_memtable_is_on_top_and_tombstones_are_found_but_not_listed() -> None:
    assert [OVERLAY.find(path) for path in "abcdz"] == [(Entry("1"),), (None,), (Entry("4"),), (None,), None]
    assert list(OVERLAY.entries()) == [("a", Entry("1")), ("c", Entry("4")), ("é", Entry("3"))]
    assert list(OVERLAY.entries("b", "é")) == [("c", Entry("4"))]
    assert OVERLAY.covers(["d", "a", "z"]) == [True, True, False]


def test_as_columns_it_is_sorted_with_its_tombstones() -> None:
    assert [path for path, _ in OVERLAY.changes()] == ["a", "b", "c", "d", "é"]
    assert list(Run(OVERLAY.batch()).changes()) == list(OVERLAY.changes())
    assert Run(OVERLAY.top()).rows == {"b": None, "c": Entry("4"), "d": None}
