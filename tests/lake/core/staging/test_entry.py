"""Batches of entries as bytes."""

from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lake.core.staging.areas.entry_columns import SCHEMA, MalformedBatch, batch_of, batch_to_bytes, read_batch
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.entry import Change, Entry

ROWS: list[Change] = [("b", Entry("x", 3, "e", 5, "text/plain", '{"k":"v"}')), ("a", None)]


def test_a_batch_comes_back_sorted() -> None:
    assert Run(read_batch(batch_to_bytes(batch_of(ROWS)))).changes() == sorted(ROWS)


def test_columns_in_another_order_and_narrower_types_are_taken() -> None:
    table = pa.Table.from_batches([batch_of(ROWS)])
    table = table.select(SCHEMA.names[::-1]).set_column(7, "path", table["path"].cast(pa.string()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    assert Run(read_batch(bytes(sink.getvalue()))).changes() == sorted(ROWS)


@given(st.binary(max_size=200))
def test_whatever_the_bytes_are_they_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedBatch):
        read_batch(data)


@given(st.data())
def test_a_damaged_batch_is_refused_or_read(data: st.DataObject) -> None:
    raw = bytearray(batch_to_bytes(batch_of(ROWS)))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(MalformedBatch):
        assert read_batch(bytes(raw)).schema == SCHEMA


@pytest.mark.parametrize("rows", [[("a", None), ("a", None)], [("", None)]])
def test_a_path_comes_once_and_is_not_empty(rows: list[Change]) -> None:
    with pytest.raises(MalformedBatch):
        read_batch(batch_to_bytes(batch_of(rows)))


def test_a_column_with_nulls_is_refused() -> None:
    columns = [pa.nulls(1, field.type) for field in SCHEMA]
    loose = pa.schema([field.with_nullable(True) for field in SCHEMA])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, loose) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=loose))
    with pytest.raises(MalformedBatch):
        read_batch(bytes(sink.getvalue()))


def test_equal_content_is_another_address() -> None:
    assert Entry("x", 3, "e").identity == Entry("y", 3, "e", 9).identity
    assert Entry("x", 3, "e").identity != Entry("x", 3, "f").identity
