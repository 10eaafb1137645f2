"""The schema of journals' messages, where the user gives none: from the first messages there are.

JSON: what Arrow finds in up to a mebibyte of lines; Arrow: what the first batch says; raw: one column of bytes. Every
column is nullable, because a later message may lack it.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.json as pj
from pyspark.sql.types import StructType

from penstock.journals.records.protocol import JournalInfo
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.messages.columns import fixed_columns, json_columns
from penstock.messages.framing.fixed import BODY_AT, Fixed
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.uuid import ACK_TXN
from penstock.spark.options import CONTENT_TYPES, Framing, SourceOptions
from penstock.spark.shared.content import Access, Content
from penstock.spark.shared.rows import METADATA
from penstock.spark.versions import from_arrow, to_arrow

__all__ = ["arrow_schema", "find_schema", "framing_of"]

SAMPLE_BYTES: Final = 1 << 20
DECLARE: Final = "declare it, like .schema('id bigint, name string')"


def arrow_schema(schema: StructType) -> Any:
    """The Arrow schema which Spark expects of a DataFrame's schema."""
    return to_arrow(schema)


def framing_of(info: JournalInfo, given: Framing | None) -> Framing:
    """The framing: as given, or as the journal's content type says, or JSON."""
    return given or CONTENT_TYPES.get(info.spec.labels.value_of("content-type") or "", "json")


def find_schema(access: Access, options: SourceOptions, infos: list[JournalInfo]) -> StructType:
    """The schema of the first journal which has messages."""
    if not infos:
        raise NotFound(f"no journal fits {options.selector}, so no schema is found: {DECLARE}")
    for info in sorted(infos, key=lambda each: each.spec.name):
        framing = framing_of(info, options.framing)
        if framing == "csv":
            raise InvalidArgument(f"framing csv has no column names: {DECLARE}")
        if framing == "raw":
            return _spark_schema(pa.schema([("value", pa.binary())]), options)
        found = _look(access, info.spec.name, framing)
        if found is not None:
            return _spark_schema(found, options)
    raise NotFound(f"no journal of {options.selector} has messages yet, so no schema is found: {DECLARE}")


def _spark_schema(found: Any, options: SourceOptions) -> StructType:
    names = options.columns or found.names
    unknown = [name for name in names if name not in found.names]
    if unknown:
        raise InvalidArgument(f"option columns: there is no {unknown[0]}; there are {', '.join(found.names)}")
    fields = [pa.field(name, _plain(found.field(name).type)) for name in names]
    return from_arrow(pa.schema([*fields, *METADATA] if options.has_metadata else fields))


def _look(access: Access, journal: str, framing: Framing) -> Any:
    """The schema of the first messages of a journal; None if it has none."""
    head = access.ask(lambda: access.journals.stat(journal, 0))
    size = SAMPLE_BYTES
    while head.offset < head.write_head:
        end = min(head.write_head, head.offset + size)
        pieces = list(Content(access, journal, fails_on_loss=False).read(head.offset, end))
        data = b"".join(data for _, data in pieces)
        found = _of_lines(journal, data) if framing == "json" else _of_batches(data)
        if found is not None or end == head.write_head:
            return found
        size *= 8  # not one whole message in it
    return None


def _of_lines(journal: str, data: bytes) -> Any:
    columns = json_columns(data, JsonLines())
    rows = np.flatnonzero((columns.flags != ACK_TXN) | (columns.clocks == 0)).tolist()
    if not rows:
        return None
    lines = b"".join([data[columns.begins[row] : columns.ends[row]] for row in rows])
    try:
        read = pj.ReadOptions(block_size=len(lines) + 1, use_threads=False)
        schema = pj.read_json(pa.BufferReader(lines), read_options=read).schema
    except pa.ArrowException as error:
        raise InvalidArgument(f"{journal}: no schema fits its first messages ({error}): {DECLARE}") from None
    return pa.schema([field for field in schema if field.name != "_meta"])


def _of_batches(data: bytes) -> Any:
    columns = fixed_columns(data, Fixed())
    for begin, end in zip(columns.begins.tolist(), columns.ends.tolist(), strict=True):
        if end - begin > BODY_AT:
            return pa.ipc.open_stream(pa.py_buffer(data[begin + BODY_AT : end])).schema
    return None


def _plain(kind: Any) -> Any:
    """A type which Spark has, with everything in it nullable."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_unsigned_integer(kind):
        return pa.int64() if kind.bit_width < 64 else pa.decimal128(20, 0)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _plain(field.type)) for field in kind])
    return kind
