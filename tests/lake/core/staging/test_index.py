"""The merged index against a dict."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake.core.staging.areas.index import FANOUT, Index, newest
from penstock.lake.core.staging.areas.run import SMALL_ROWS_MAX, Run
from penstock.lake.core.staging.entry import Entry

paths = st.text("ab/é\U0001f600", min_size=1, max_size=4)
changes = st.dictionaries(paths, st.one_of(st.none(), st.builds(Entry, st.text(max_size=3))), max_size=12)


@settings(max_examples=60)
@given(st.lists(changes, max_size=5), changes, paths, paths, st.sampled_from((0, 8, 256)))
def test_an_overlay_shows_the_newest_change_of_each_path(
    batches: list[dict[str, Entry | None]], memtable: dict[str, Entry | None], start: str, stop: str, small: int
) -> None:
    """Check the index as a dict, as levels, and after the change from one to the other."""
    index, model = Index(small_rows_max=small), dict[str, Entry | None]()
    for batch in batches:
        index.add(Run.of(batch.items()))
        model |= batch
    model |= memtable
    overlay = index.overlay(memtable)
    assert list(overlay.changes()) == sorted(model.items())
    live = [(path, entry) for path, entry in sorted(model.items()) if entry is not None]
    assert list(overlay.entries()) == live
    assert list(overlay.entries(start, stop)) == [(path, entry) for path, entry in live if start <= path < stop]
    asked = [*model, start, stop]
    assert Run(overlay.batch()).rows == model
    assert Run(overlay.top()).rows == memtable
    assert [overlay.find(path) for path in asked] == [(model[path],) if path in model else None for path in asked]
    assert overlay.covers(asked) == [path in model for path in asked]


def test_a_list_of_many_rows_goes_block_by_block() -> None:
    index, model = Index(), dict[str, Entry | None]()
    for step in range(1, 6):
        batch = {f"{row:05d}": Entry(f"{step}") if row % 7 else None for row in range(0, 3000, step)}
        index.add(Run.of(batch.items()))
        model |= batch
    live = [(path, entry) for path, entry in sorted(model.items()) if entry is not None]
    assert list(index.overlay({}).entries()) == live
    assert list(islice(index.overlay({}).entries("01000"), 500)) == [row for row in live if row[0] >= "01000"][:500]


def test_levels_stay_few_however_many_runs_there_are() -> None:
    index = Index(small_rows_max=0)
    for number in range(200):
        index.add(Run.of([(f"{number:04d}", None)]))
    assert index.depth <= 5, f"200 runs in levels {FANOUT} times as long as the next are at most 5"


def test_an_overlay_does_not_change_when_the_index_does() -> None:
    index = Index([Run.of([("a", Entry("1"))])])
    before = index.overlay({})
    index.add(Run.of([("a", None), ("b", Entry("2"))]))
    assert list(before.changes()) == [("a", Entry("1"))]
    assert list(index.overlay({}).changes()) == [("a", None), ("b", Entry("2"))]


@settings(max_examples=40)
@given(st.lists(changes, max_size=5), st.sampled_from((0, SMALL_ROWS_MAX + 1)))
def test_the_newest_of_many_runs(batches: list[dict[str, Entry | None]], more: int) -> None:
    """Check runs as dicts, and with enough more rows that they are columns."""
    batches = [*batches, {f"z{row:04d}": Entry("more") for row in range(more)}]
    model: dict[str, Entry | None] = {}
    for batch in batches:
        model |= batch
    assert newest([Run.of(batch.items()) for batch in batches]).changes() == sorted(model.items())


def test_a_list_walks_over_nothing_that_is_not_shown() -> None:
    """Neither over tombstones nor over what a newer run has overwritten, in whichever levels they are."""
    index = Index()
    index.add(Run.of((f"{row:05d}", Entry("1")) for row in range(4000)))
    index.add(Run.of((f"{row:05d}", Entry("2")) for row in range(900)))
    index.add(Run.of((f"{row:05d}", None) for row in range(100, 300)))
    index.add(Run.of((f"{row:05d}", None) for row in range(3990, 4000)))
    assert index.depth == 4
    assert sum(len(level.live) for level in index._levels) == 4000 - 200 - 10
    assert len(list(index.overlay({}).entries())) == 4000 - 200 - 10
