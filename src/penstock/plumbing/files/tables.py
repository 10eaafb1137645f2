"""Tables of pandas, Polars and Arrow: from one library to another, and to and from files.

A table is any object that gives Arrow data (`__arrow_c_stream__`, `__arrow_c_array__`), so none of the libraries is
imported before a table is at hand. A named index of a pandas DataFrame becomes columns; an unnamed one is dropped.
"""

import io
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.extras import extra

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

__all__ = ["FORMATS", "ArrowTable", "encode_table", "format_of", "is_table", "to_arrow", "to_pandas", "to_polars"]

FORMATS: Final = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "feather",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
}


@runtime_checkable
class ArrowTable(Protocol):
    """An object that gives Arrow data: a DataFrame of pandas or Polars, a table of PyArrow."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


def is_table(value: object) -> bool:
    """Return whether the value gives Arrow data."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")


def to_arrow(table: Any) -> "pyarrow.Table":
    """Return any table as one of Arrow."""
    with extra("tables", "a table"):
        import pyarrow as pa
    if isinstance(table, pa.Table):
        return table
    if type(table).__module__.partition(".")[0] == "pandas":
        is_named = any(name is not None for name in table.index.names)
        return pa.Table.from_pandas(table, preserve_index=is_named).replace_schema_metadata(None)
    if not is_table(table):
        raise InvalidArgument(f"expected a DataFrame or an Arrow table, not {type(table).__name__}")
    found = pa.table(table)
    plain = pa.schema([field.with_type(_plain(field.type)) for field in found.schema])
    return found if plain.equals(found.schema) else found.cast(plain)


def _plain(kind: Any) -> Any:
    """Return a type that every function of Arrow knows: views of text, as Polars has, are not among them."""
    import pyarrow as pa

    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_plain(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def to_polars(table: "pyarrow.Table") -> "polars.DataFrame":
    """Return an Arrow table as a DataFrame of Polars."""
    with extra("tables", "a DataFrame of Polars"):
        import polars as pl
    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found


def to_pandas(table: "pyarrow.Table") -> "pandas.DataFrame":
    """Return an Arrow table as a DataFrame of pandas."""
    with extra("tables", "a DataFrame of pandas"):
        import pandas  # noqa: F401
    return table.to_pandas()


def format_of(path: str) -> str | None:
    """Return the format of a file by the end of its name; None if the name says none."""
    return next((kind for end, kind in FORMATS.items() if path.endswith(end)), None)


def encode_table(table: Any, path: str) -> bytes:
    """Return a table as a file of the format that its name says."""
    kind = format_of(path)
    if kind is None:
        raise InvalidArgument(f"{path!r}: expected a name that ends in one of {', '.join(FORMATS)}")
    found, out = to_arrow(table), io.BytesIO()
    if kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(found, out, compression="zstd")
    elif kind == "csv":
        import pyarrow.csv

        pyarrow.csv.write_csv(found, out)
    elif kind == "json":
        import msgspec

        out.write(msgspec.json.Encoder().encode_lines(found.to_pylist()))
    else:
        import pyarrow.ipc

        with pyarrow.ipc.new_file(out, found.schema) as writer:
            writer.write_table(found)
    return out.getvalue()
