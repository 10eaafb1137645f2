import polars as pl
import pytest
from tests.lake.core.committed.shelf import entry

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.changes import CHANGE_SCHEMA
from penstock.lake.core.committed.entry import (
    ENTRY_SCHEMA,
    check_entries,
    decode_metadata,
    encode_metadata,
    entries_from,
    entry_of,
    identity,
    is_ascending,
    is_full_address,
    row_of,
    same,
    successor,
)
from penstock.lake.core.staging.areas.entry_columns import SCHEMA, batch_of
from penstock.lake.core.staging.entry import Entry


def test_a_staged_batch_is_a_frame_of_changes_as_it_is() -> None:
    batch = batch_of([("a", entry(1)), ("b", None)])

    frame = pl.DataFrame(batch)

    assert frame.schema == CHANGE_SCHEMA
    assert list(ENTRY_SCHEMA) == [name for name in SCHEMA.names if name != "is_live"]


def test_rows_and_records_are_the_same() -> None:
    entries = {
        "b": entry(1, metadata='{"x":"y"}'),
        "a": entry(2),
        "ä": Entry("s3://bucket/key", 3, "e", 4, "text/plain"),
    }

    frame = check_entries(entries_from(entries.items()))

    assert frame["path"].to_list() == ["a", "b", "ä"]
    assert {path: entry_of(frame, row) for row, path in enumerate(frame["path"])} == entries


def test_metadata_has_one_spelling() -> None:
    assert encode_metadata({"b": "ü", "a": "1"}) == '{"a":"1","b":"ü"}' == encode_metadata({"a": "1", "b": "ü"})
    assert encode_metadata({}) == ""
    assert decode_metadata('{"a":"1","b":"ü"}') == {"a": "1", "b": "ü"}
    assert decode_metadata("") == {}


def test_identity_leaves_out_address_and_mtime_unless_there_is_no_etag() -> None:
    kept, moved, unnamed, elsewhere = Entry("x", 1, "e", 1), Entry("y", 1, "e", 2), Entry("x", 1), Entry("y", 1)
    left = entries_from([("a", kept), ("b", unnamed), ("c", unnamed), ("d", kept)])
    right = entries_from([("a", moved), ("b", elsewhere), ("c", unnamed), ("d", Entry("x", 1, "other", 1))])

    both = left.join(right, on="path", suffix="_right").rename(lambda name: _prefixed(name))

    assert both.select(same(identity(), identity("right_"))).to_series().to_list() == [True, False, True, False]


def _prefixed(name: str) -> str:
    return f"right_{name.removesuffix('_right')}" if name.endswith("_right") else name


def test_only_an_address_with_a_scheme_is_full() -> None:
    assert is_full_address("s3://bucket/key")
    assert not is_full_address("data/00000001/key")


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([("b", entry(1)), ("a", entry(1))], "ascending"),
        ([("a", entry(1)), ("a", entry(2))], "ascending"),
        ([("", entry(1))], "empty"),
        ([("x" * 1025, entry(1))], "longer"),
        ([("a", Entry("x", -1, "e"))], "negative"),
    ],
)
def test_frames_which_are_none_of_entries_are_refused(rows: list[tuple[str, Entry]], problem: str) -> None:
    frame = pl.concat([entries_from([row]) for row in rows])

    with pytest.raises(InvalidArgument, match=problem):
        check_entries(frame)


def test_missing_columns_and_values_are_refused() -> None:
    frame = entries_from([("a", entry(1))])

    with pytest.raises(InvalidArgument, match="columns"):
        check_entries(frame.drop("etag"))
    with pytest.raises(InvalidArgument, match="missing"):
        check_entries(frame.with_columns(pl.lit(None, pl.String).alias("etag")))


def test_successors() -> None:
    assert successor("") is None
    assert successor("\U0010ffff") is None
    assert successor("a\U0010ffff") == "b"
    assert successor("\ud7ff") == "\ue000"


@pytest.mark.parametrize(
    ("paths", "expected"), [("", True), ("b", True), ("abä", True), ("aa", False), ("ba", False), ("acb", False)]
)
def test_paths_are_ascending_or_not(paths: str, expected: bool) -> None:
    assert is_ascending(pl.Series(list(paths), dtype=pl.String)) is expected


def test_rows_are_found_by_path() -> None:
    frame = entries_from([("a", entry(1)), ("c", entry(2))])

    assert [row_of(frame, path) for path in "abcd"] == [0, 1, 1, 2]
    assert [row_of(frame, path, behind=True) for path in "abcd"] == [1, 1, 2, 2]
