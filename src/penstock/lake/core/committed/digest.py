"""Digests of columns: one id for a frame's content, the same whatever wrote it.

Each column has a digest of its own, and the table's is that of a tag, the number of rows, and the columns' digests in
order; all are BLAKE3. The digest of a column is over:

    64-bit integers           the values, little-endian
    text, any                 all bytes of all values; where each value ends in them (32 bits, little-endian); a 0
    text, every value alike   the bytes of that value once; a 1

For a known schema and number of rows this is injective: the last byte tells the kinds of text apart, the ends have a
known length, and they tell every value's length (ends beyond 32 bits are taken modulo 2^32, which does, too). It
depends on values alone (not on Parquet, compression, chunks, dictionaries or library versions), and digests whole
buffers: no row becomes a Python object. Bytes come first, because BLAKE3 is fastest where its chunks begin with them.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from blake3 import blake3

__all__ = ["TextBuffers", "digest_parts", "digest_table", "text_buffers", "text_bytes", "text_lengths"]

Parts = Sequence[tuple[int, int]]  # rows [start, end) of a column

_OFFSETS: Final[dict[int, np.dtype[np.integer]]] = {
    pa.string().id: np.dtype("<i4"),
    pa.large_string().id: np.dtype("<i8"),
}
_NUMBERS: Final = pa.int64().id
_ANY: Final = b"\0"
_ALIKE: Final = b"\1"


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
    """Return the byte length of each value of a column of text, be it a dictionary or not."""
    array = _one_array(column)
    if isinstance(array.type, pa.DictionaryType):
        lengths: npt.NDArray[np.integer] = text_buffers(array.dictionary).lengths[array.indices.to_numpy()]
        return lengths
    return text_buffers(array).lengths


def text_bytes(column: pa.ChunkedArray) -> int:
    """Return how many bytes all values of a column of text have together."""
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
    return digest_parts(tag, table, columns, [table.num_rows])[0]


def digest_parts(tag: str, table: pa.Table, columns: Sequence[str], ends: Sequence[int]) -> list[str]:
    """The same of each part of a table; the parts end at these rows. Buffers are looked for once for all of them."""
    parts = list(pairwise([0, *ends]))
    digests = [_digest_column(_one_array(table.column(name)), parts) for name in columns]
    heads = [f"{tag}\n{end - start}\n".encode() for start, end in parts]
    return [blake3(b"".join(part)).hexdigest() for part in zip(heads, *digests, strict=True)]


def _one_array(column: Any) -> Any:
    """A column in one piece; `combine_chunks` would copy it even if it is."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _digest_column(array: Any, parts: Parts) -> list[bytes]:
    """The digest of each part of a column."""
    if isinstance(array.type, pa.DictionaryType):
        return _digest_dictionary(array, parts)
    if array.type.id != _NUMBERS:
        offsets, data = _offsets_and_data(array)
        return [_digest_text(offsets[start : end + 1], data) for start, end in parts]
    assert array.null_count == 0
    values = memoryview(array.buffers()[1] or b"")[array.offset * 8 :]
    return [blake3(values[start * 8 : end * 8]).digest() for start, end in parts]


def _digest_dictionary(array: Any, parts: Parts) -> list[bytes]:
    """The values which the numbers stand for. A dictionary of one value need not be looked up for each row."""
    assert array.null_count == 0
    if len(array.dictionary) == 1 and all(start < end for start, end in parts):
        return [blake3(array.dictionary[0].as_py().encode() + _ALIKE).digest()] * len(parts)
    return _digest_column(array.dictionary_decode(), parts)


def _digest_text(offsets: npt.NDArray[np.integer], buffer: Any) -> bytes:
    first, last = int(offsets[0]), int(offsets[-1])
    ends = offsets[1:] - first if first else offsets[1:]
    data = memoryview(buffer)[first:last]
    if _are_alike(ends, data):
        return blake3(bytes(data[: int(ends[0])]) + _ALIKE).digest()
    narrow = ends if ends.itemsize == 4 else ends.astype("<u4")
    return blake3(data).update(narrow.tobytes()).update(_ANY).digest()


def _are_alike(ends: npt.NDArray[np.integer], data: memoryview) -> bool:
    """Return whether there is a value, and every other equals it. Nearly always the first and the last one tell."""
    count, size = len(ends), len(data)
    length = int(ends[0]) if count else 0
    if count == 0 or size != count * length or data[:length] != data[size - length :]:
        return False
    values = np.frombuffer(data, np.uint8)
    return bool((np.diff(ends) == length).all() and (values[length:] == values[: size - length]).all())
