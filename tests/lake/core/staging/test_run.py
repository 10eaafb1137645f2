"""Runs: merging by columns, and digests of content."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lake.core.staging.areas.entry_columns import batch_of
from penstock.lake.core.staging.areas.run import SMALL_ROWS_MAX, Run, bisect, find, merge_order
from penstock.lake.core.staging.entry import Entry

paths = st.lists(st.text("abé", min_size=1, max_size=3), unique=True, max_size=12).map(sorted)


def strings(values: list[str]) -> pa.LargeStringArray:
    return pa.array(values, pa.large_string())


@settings(max_examples=50)
@given(paths, paths)
def test_the_newer_of_two_equal_paths_stands_alone(older: list[str], newer: list[str]) -> None:
    order = merge_order(strings(older), strings(newer))
    both = [(path, "old") for path in older] + [(path, "new") for path in newer]
    assert [both[place] for place in order] == sorted(
        (dict.fromkeys(older, "old") | dict.fromkeys(newer, "new")).items()
    )


@given(paths, st.text("abé", max_size=3))
def test_a_path_is_found_where_it_is(values: list[str], path: str) -> None:
    array = strings(values)
    assert find(array, path) == (values.index(path) if path in values else None)
    assert bisect(array, path) == sum(value < path for value in values)
    assert bisect(array, path, "right") == sum(value <= path for value in values)


ROWS = [("a", Entry("1", 1, "e")), ("b", None), ("c", Entry("2"))]


def test_a_digest_is_of_content_alone() -> None:
    run = Run.of(ROWS)
    slice_ = Run(batch_of([("0", None), *ROWS, ("z", None)]).slice(1, 3))
    assert slice_.digest == run.digest == Run.from_bytes(run.to_bytes()).digest


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.text("abé", min_size=1, max_size=3),
        st.one_of(st.none(), st.builds(Entry, st.text(max_size=3), st.integers(-9, 9), st.text(max_size=2))),
        max_size=6,
    )
)
def test_few_rows_have_the_digest_of_their_columns(rows: dict[str, Entry | None]) -> None:
    run = Run.of(rows.items())
    columns = Run(batch_of(sorted(rows.items(), key=lambda change: change[0])))
    assert columns.digest == run.digest
    assert run.to_bytes() == columns.to_bytes()
    assert columns.rows == run.rows == rows


def many(count: int = SMALL_ROWS_MAX + 1) -> Run:
    return Run.of((f"a/{row:04d}", Entry(str(row)) if row % 2 else None) for row in range(count))


def test_a_large_run_answers_as_a_small_one_does() -> None:
    large, small = many(), many(SMALL_ROWS_MAX)
    assert [large.is_small, small.is_small] == [False, True]
    for run in (large, small):
        assert "a/0007" in run
        assert "a/7" not in run
        assert run.get("a/0007") == Entry("7")
        assert run.get("a/0008") is None
        assert len(run.without(("a/0007", "b"), ("a/001",))) == len(run) - 11
        assert run.without(("b",), ("b/",)) is run
        assert [entry is not None for _, entry in run.changes()] == list(run.live())


def test_every_part_of_a_row_is_in_the_digest() -> None:
    entries = [
        Entry("1", 2, "e"),
        Entry("1", 1, "f"),
        Entry("2", 1, "e"),
        Entry("1", 1, "e", 1),
        Entry("1", 1, "e", 0, "t"),
        Entry("1", 1, "e", 0, "", "{}"),
        None,
    ]
    digests = {Run.of([("a", entry)]).digest for entry in [Entry("1", 1, "e"), *entries]}
    assert len(digests) == len(entries) + 1
    assert Run.of([("ab", Entry("c"))]).digest != Run.of([("a", Entry("bc"))]).digest


def test_paths_and_prefixes_are_taken_out() -> None:
    run = Run.of([("a/1", None), ("a/2", None), ("b", None)])
    assert [path for path, _ in run.without(("b",), ("a/1",)).changes()] == ["a/2"]
    assert run.without(("c",), ()) is run
