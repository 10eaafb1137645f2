import io

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tests.lake.core.committed.shelf import TREES, Tree, entry, tree_of

from penstock.kernel.errors import ObjectStoreFailed
from penstock.lake.core.committed.columns import joined
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, entries_from
from penstock.lake.core.committed.range import (
    RangeId,
    compact,
    decode_range,
    encode_range,
    encode_ranges,
    frame_of,
    table_of,
)
from penstock_lab.bench.lake_rows import made_rows

ENTRIES = entries_from([("a", entry(1)), ("b", entry(2, metadata='{"k":"ü"}')), ("c", entry(3))])


@settings(deadline=None, max_examples=30)
@given(TREES.filter(bool))
def test_a_range_is_read_back_as_it_was_written(tree: Tree) -> None:
    encoded = encode_range(entries_from(tree.items()))

    assert tree_of(decode_range(encoded.to_parquet(), encoded.id)) == tree
    assert (encoded.min_key, encoded.max_key, encoded.count) == (min(tree), max(tree), len(tree))
    assert encoded.size == sum(each.size for each in tree.values())


def test_ranges_cut_from_one_table_are_those_of_their_rows() -> None:
    ranges = encode_ranges(table_of(ENTRIES), [1, 3])

    assert [(each.id, each.min_key, each.max_key, each.count, each.size) for each in ranges] == [
        (each.id, each.min_key, each.max_key, each.count, each.size)
        for each in (encode_range(ENTRIES.head(1)), encode_range(ENTRIES.tail(2)))
    ]
    assert [tree_of(decode_range(each.to_parquet(), each.id)) for each in ranges] == [
        tree_of(ENTRIES.head(1)),
        tree_of(ENTRIES.tail(2)),
    ]
    assert encode_ranges(table_of(ENTRIES.clear()), []) == []


def test_the_id_is_part_of_the_format() -> None:
    assert encode_range(ENTRIES).id == "e2304492c51cba1960789034087e681d1b86fc866ed2bd8a1ef3aa2ad178cf94"


def test_the_id_does_not_depend_on_who_wrote_the_file() -> None:
    other_writer = io.BytesIO()
    ENTRIES.write_parquet(other_writer, compression="snappy", row_group_size=2)
    chunked = pl.concat([ENTRIES.head(1), ENTRIES.tail(2)], rechunk=False)

    assert decode_range(other_writer.getvalue(), encode_range(ENTRIES).id).equals(ENTRIES)
    assert encode_range(chunked).id == encode_range(ENTRIES).id


@pytest.mark.parametrize("column", list(ENTRY_SCHEMA))
def test_every_stored_column_is_in_the_id(column: str) -> None:
    other = "z" if ENTRY_SCHEMA[column] == pl.String else 99
    changed = ENTRIES.with_columns(pl.when(pl.col("path") == "c").then(pl.lit(other)).otherwise(column).alias(column))

    assert encode_range(changed).id != encode_range(ENTRIES).id


def test_a_file_with_other_entries_is_refused() -> None:
    other = encode_range(ENTRIES.head(2))

    with pytest.raises(ObjectStoreFailed, match="holds other entries") as failed:
        decode_range(other.to_parquet(), encode_range(ENTRIES).id)
    assert not failed.value.retryable
    assert "older than today's ids" in failed.value.next_step


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"not parquet at all"])
def test_a_file_which_is_no_parquet_is_refused(damage: bytes) -> None:
    with pytest.raises(ObjectStoreFailed):
        decode_range(damage, RangeId("0" * 64))


def test_a_truncated_or_foreign_file_is_refused() -> None:
    encoded = encode_range(ENTRIES)
    foreign = io.BytesIO()
    pl.DataFrame({"x": [1]}).write_parquet(foreign)

    with pytest.raises(ObjectStoreFailed):
        decode_range(encoded.to_parquet()[:-20], encoded.id)
    with pytest.raises(ObjectStoreFailed):
        decode_range(foreign.getvalue(), encoded.id)


def test_a_file_with_a_missing_value_or_other_types_is_refused() -> None:
    for column in (pl.lit(None, pl.String).alias("etag"), pl.lit("many").alias("size")):
        other = io.BytesIO()
        ENTRIES.with_columns(column).write_parquet(other)

        with pytest.raises(ObjectStoreFailed, match="is not the Parquet file it should be"):
            decode_range(other.getvalue(), encode_range(ENTRIES).id)


def test_text_beyond_32_bit_offsets_has_the_same_id(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = encode_range(ENTRIES)
    monkeypatch.setattr("penstock.lake.core.committed.columns._NARROW_BYTES_MAX", 0)

    wide = encode_range(ENTRIES)

    assert (narrow.table.schema.field("path").type, wide.table.schema.field("path").type) == (
        pa.string(),
        pa.large_string(),
    )
    assert wide.id == narrow.id
    assert decode_range(wide.to_parquet(), narrow.id).equals(ENTRIES)


def test_ranges_are_joined_whatever_their_offsets() -> None:
    one, other = ENTRIES.head(1), ENTRIES.tail(2)

    table = joined([one.to_arrow(), table_of(other)])

    assert table.column("path").num_chunks == 1
    assert frame_of(table).equals(ENTRIES)


def test_other_engines_read_the_file() -> None:
    assert pl.read_parquet(io.BytesIO(encode_range(ENTRIES).to_parquet())).equals(ENTRIES)


def test_other_engines_see_plain_columns() -> None:
    schema = pq.read_schema(io.BytesIO(encode_range(ENTRIES).to_parquet()))

    assert not any(field.nullable for field in schema)
    assert [(field.name, str(field.type)) for field in schema] == [
        ("path", "string"),
        ("address", "string"),
        ("size", "int64"),
        ("etag", "string"),
        ("mtime_ns", "int64"),
        ("content_type", "string"),
        ("metadata", "string"),
    ]


def test_a_few_rows_of_a_range_do_not_hold_on_to_the_text_of_the_others() -> None:
    encoded = encode_range(made_rows(4096).sort("path"))
    data = encoded.to_parquet()
    held: list[int] = []
    for take in (lambda frame: frame, compact):
        before = pa.total_allocated_bytes()
        kept = take(decode_range(data, encoded.id).gather_every(1000))
        held.append(pa.total_allocated_bytes() - before)
        assert kept.height == 5
    assert held[1] < 10_000 < 200_000 < held[0]
