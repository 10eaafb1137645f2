import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import TREES, Tree, as_read

from penstock.lake.core.committed.columns import column_of, joined, narrowed, plain, table_with
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.range import encode_ranges, frame_of, table_of

DICTIONARY = pa.dictionary(pa.int32(), pa.string())
FEW = pa.chunked_array([pa.array(["a", "b", "a"]).dictionary_encode()])
MANY = pa.chunked_array([pa.array([f"value {number}" for number in range(200)]).dictionary_encode()])


def one(column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return pa.table({"text": column})


def test_few_values_stay_a_dictionary_and_many_become_text() -> None:
    assert narrowed(FEW, pa.string()) is FEW
    assert narrowed(MANY, pa.string()) == pa.chunked_array([MANY.chunk(0).dictionary_decode()])
    assert narrowed(pa.chunked_array([["x"]], pa.large_string()), pa.string()).type == pa.string()
    assert narrowed(pa.chunked_array([], DICTIONARY), pa.string()).type == pa.string()


def test_a_dictionary_of_another_kind_becomes_text() -> None:
    wide = pa.array(["a", "b"], pa.large_string()).dictionary_encode()

    assert narrowed(pa.chunked_array([wide]), pa.string()).to_pylist() == ["a", "b"]
    assert narrowed(pa.chunked_array([FEW.chunk(0), FEW.chunk(0)]), pa.string()).type == pa.string()


def test_a_number_without_a_value_is_refused() -> None:
    damaged = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), pa.array(["a"]), safe=False)

    with pytest.raises(pa.ArrowInvalid):
        narrowed(pa.chunked_array([damaged]), pa.string())


def test_dictionaries_with_other_values_become_one() -> None:
    other = pa.array(["c", "a"]).dictionary_encode()

    both = column_of([one(FEW), one(other)], "text")

    assert both.type == DICTIONARY
    assert both.to_pylist() == ["a", "b", "a", "c", "a"]
    assert sorted(both.dictionary.to_pylist()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ([FEW, pa.array(["c"])], DICTIONARY),  # a few changes to many rows
        ([FEW, pa.array(["c"] * 9)], pa.string()),  # few rows among many without one
        ([FEW, pa.array(["c"], pa.large_string())], pa.string()),
        ([FEW, MANY], pa.string()),  # too many values together
        ([pa.array(["c"]), pa.array(["d"])], pa.string()),
        ([pa.array([], pa.string())], pa.string()),
    ],
)
def test_a_joined_column_is_a_dictionary_where_that_is_short(columns: list[pa.Array], kind: pa.DataType) -> None:
    both = column_of([one(column) for column in columns], "text")

    assert both.type == kind
    assert both.to_pylist() == [value for column in columns for value in column.to_pylist()]


def test_a_table_of_such_columns_says_that_nothing_is_missing() -> None:
    table = table_with({"text": FEW, "number": pa.array([1, 2, 3])})

    assert [field.nullable for field in table.schema] == [False, False]
    assert [field.nullable for field in joined([table, table]).schema] == [False, False]


def test_a_dictionary_whose_text_would_be_too_long_becomes_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.lake.core.committed.columns._NARROW_BYTES_MAX", 10)

    assert plain(one(FEW)).column("text") == pa.chunked_array([["a", "b", "a"]], pa.large_string())


@settings(deadline=None, max_examples=50)
@given(TREES.filter(bool), st.data())
def test_ids_and_frames_do_not_depend_on_dictionaries(tree: Tree, data: st.DataObject) -> None:
    entries = entries_from(tree.items())
    ends = sorted({entries.height, *data.draw(st.lists(st.integers(1, entries.height), max_size=3))})
    text = table_of(entries)
    short = as_read(text)

    assert [each.id for each in encode_ranges(short, ends)] == [each.id for each in encode_ranges(text, ends)]
    assert frame_of(short).equals(entries)
    assert frame_of(joined([short, text.slice(0, 0)])).equals(entries)
    for piece in encode_ranges(joined([short]), ends):
        assert pl.read_parquet(bytes(piece.to_parquet())).equals(frame_of(piece.table))
