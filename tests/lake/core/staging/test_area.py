"""A staging area: rows, runs and its part of the state's sum."""

from tests.lake.core.staging.lakes import entry

from penstock.lake.core.staging.areas.area import MEMTABLE_ROWS_MAX, StagingArea
from penstock.lake.core.staging.areas.run import Run


def test_the_sum_follows_every_change() -> None:
    area = StagingArea("b1", "t0")
    total = 0
    for path, address in (("a", "1"), ("b", "1"), ("a", "2")):
        total += area.put(path, entry(address))
        assert total == area.sum()
    run, change = area.flush()
    assert run is not None
    total += change
    total += area.add_run(Run.of([("a", None)]))
    total += area.put("c", None)
    assert total == area.sum()
    assert area.flush()[0] is not None
    assert area.flush() == (None, 0)
    assert len(area) == 4, "overwritten rows of older runs count"


def test_the_newest_row_is_found() -> None:
    area = StagingArea("b1", "t0", [Run.of([("a", entry("1")), ("b", entry("1"))]), Run.of([("b", None)])])
    area.put("c", entry("2"))
    assert [area.find(path) for path in "abcd"] == [(entry("1"),), (None,), (entry("2"),), None]
    assert area.changes() == {"a": entry("1"), "b": None, "c": entry("2")}


def test_what_was_shared_does_not_change() -> None:
    area = StagingArea("b1", "t0")
    area.put("a", entry("1"))
    shared = area.share()
    area.put("a", entry("2"))
    assert (shared["a"], area.memtable["a"]) == (entry("1"), entry("2"))


def test_it_is_full_at_a_count_of_rows() -> None:
    area = StagingArea("b1", "t0")
    for number in range(MEMTABLE_ROWS_MAX - 1):
        area.put(f"{number}", None)
    assert not area.is_full
    area.put("last", None)
    assert area.is_full
