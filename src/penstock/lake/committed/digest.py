"""Digests of columns: one id for a frame's content, the same whatever wrote it.

The digest is SHA-256 over a tag, the number of rows, and each column in turn: a column of 64-bit integers as
little-endian values; a column of text as the length of each value (32 bits, little-endian), then all bytes. This is
injective for a known schema, depends on values alone (not on Parquet, compression, chunks or library versions), and
hashes whole buffers: no row becomes a Python object.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

__all__ = ["TextBuffers", "digest_table", "text_buffers", "text_bytes", "text_lengths"]

_OFFSETS: Final[dict[int, np.dtype[np.integer]]] = {
    pa.string().id: np.dtype("<i4"),
    pa.large_string().id: np.dtype("<i8"),
}
_NUMBERS: Final = pa.int64().id


class TextBuffers(NamedTuple):
    """A column of text as Arrow keeps it: value `i` is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: npt.NDArray[np.integer]
    data: npt.NDArray[np.uint8]

    @property
    def lengths(self) -> npt.NDArray[np.integer]:
        return self.offsets[1:] - self.offsets[:-1]


def text_buffers(column: pl.Series | pa.Array | pa.ChunkedArray) -> TextBuffers:
    """The buffers of a column of text; offsets begin at 0, and the data ends with the last value."""
    array: Any = column.to_arrow() if isinstance(column, pl.Series) else _one_array(column)
    offsets, data = _offsets_and_data(array)
    first, last = int(offsets[0]), int(offsets[-1])
    return TextBuffers(offsets - first if first else offsets, np.frombuffer(data, np.uint8)[first:last])


def text_lengths(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.integer]:
    """How many bytes each value of a column of text has, be it a dictionary or not."""
    array = _one_array(column)
    if isinstance(array.type, pa.DictionaryType):
        lengths: npt.NDArray[np.integer] = text_buffers(array.dictionary).lengths[array.indices.to_numpy()]
        return lengths
    return text_buffers(array).lengths


def text_bytes(column: pa.ChunkedArray) -> int:
    """How many bytes all values of a column of text have together."""
    array = _one_array(column)
    if isinstance(array.type, pa.DictionaryType):
        return int(text_lengths(array).sum(dtype=np.int64))
    offsets, _ = _offsets_and_data(array)
    return int(offsets[-1]) - int(offsets[0])


def _offsets_and_data(array: Any) -> tuple[npt.NDArray[np.integer], Any]:
    """The buffers as they are: the offsets of a slice begin anywhere in the data."""
    kind = _OFFSETS.get(array.type.id)
    assert kind is not None, array.type
    assert array.null_count == 0
    count = len(array)
    if count == 0:
        return np.zeros(1, kind), b""
    _, offsets, data = array.buffers()
    return np.frombuffer(offsets, kind, count + 1, array.offset * kind.itemsize), data or b""


def digest_table(tag: str, table: pa.Table, columns: Sequence[str]) -> str:
    """The hex digest of those columns, in that order."""
    digest = hashlib.sha256(f"{tag}\n{table.num_rows}\n".encode())
    for name in columns:
        _feed(digest, _one_array(table.column(name)))
    return digest.hexdigest()


def _one_array(column: Any) -> Any:
    """A column in one piece; `combine_chunks` would copy it even if it is."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _feed(digest: Any, array: Any) -> None:
    if isinstance(array.type, pa.DictionaryType):
        _feed_dictionary(digest, array)
    elif array.type.id != _NUMBERS:
        offsets, data = _offsets_and_data(array)
        digest.update((offsets[1:] - offsets[:-1]).astype("<u4", copy=False))
        digest.update(memoryview(data)[offsets[0] : offsets[-1]])
    else:
        assert array.null_count == 0
        if len(array):
            digest.update(memoryview(array.buffers()[1])[array.offset * 8 : (array.offset + len(array)) * 8])


def _feed_dictionary(digest: Any, array: Any) -> None:
    """The values which the numbers stand for. A value which stands alone need not be looked up for each row."""
    assert array.null_count == 0
    if len(array.dictionary) == 1:
        value = array.dictionary[0].as_py().encode()
        digest.update(np.full(len(array), len(value), "<u4"))
        digest.update(value * len(array))
    else:
        _feed(digest, array.dictionary_decode())
