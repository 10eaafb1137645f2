"""Messages as columns: what the Sequencer needs of a chunk's messages, in NumPy arrays instead of objects.

Where a framing puts its UUIDs at a fixed place of the frame, they are found and decoded for the whole chunk at once;
the frames which look otherwise (JSON which other programs wrote) are looked at one by one.
"""

from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.kernel.errors import InvalidArgument
from penstock.messages.framing.compiled import IS_COMPILED, address
from penstock.messages.framing.csv_rows import CsvRows
from penstock.messages.framing.fixed import HEAD_BYTES, Fixed, may_begin
from penstock.messages.framing.frame_kernels import count_frames, scan_frames
from penstock.messages.framing.framing import Bad
from penstock.messages.framing.json_kernels import count_lines, scan_lines
from penstock.messages.framing.json_lines import HEAD, UUID_AT, JsonLines
from penstock.messages.uuid import TEXT_BYTES, UUID_BYTES

__all__ = ["Chunk", "Columns", "csv_columns", "fixed_columns", "gather", "json_columns"]

Chunk: TypeAlias = bytes | memoryview
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_DIGITS = np.array([at for at in range(TEXT_BYTES) if at not in (8, 13, 18, 23)])
_NO_DIGIT = 255
_HIGH_NIBBLES = np.uint64(0xF0F0F0F0F0F0F0F0)
_NIBBLES = np.full(256, _NO_DIGIT, np.uint8)
for _digit in b"0123456789abcdefABCDEF":
    _NIBBLES[_digit] = int(chr(_digit), 16)


class Columns(msgspec.Struct):
    """Messages of a chunk, in the journal's order. Offsets are relative to the chunk. Clock 0: no UUID."""

    begins: I64
    ends: I64
    producers: U64
    clocks: U64
    flags: U64
    bad: list[Bad]
    consumed: int  # bytes up to the end of the last complete frame

    def __len__(self) -> int:
        return len(self.begins)


def json_columns(data: Chunk, framing: JsonLines) -> Columns:
    """The complete lines of a chunk."""
    if not IS_COMPILED:
        return _numpy_json_columns(data, framing)
    base = address(data)
    count = count_lines(base, len(data))
    found, is_ours = np.empty((5, count), np.uint64), np.empty(count, np.bool_)
    consumed = scan_lines(base, len(data), address(HEAD), UUID_AT, found, is_ours)
    return _one_by_one(_columns(found, consumed), data, framing, np.flatnonzero(~is_ours))


def _columns(found: U64, consumed: int) -> Columns:
    """Return a kernel's findings as columns: begins, ends, producers, clocks, flags."""
    begins, ends = found[:2].view(np.int64)
    producers, clocks, flags = found[2:]
    return Columns(begins, ends, producers, clocks, flags, [], consumed)


def fixed_columns(data: Chunk, framing: Fixed) -> Columns:
    """The complete frames of a chunk."""
    if not IS_COMPILED:
        return _damaged_columns(data, framing)
    base, size_max = address(data), framing.frame_bytes_max
    count = count_frames(base, len(data), size_max)
    if count < 0:
        return _damaged_columns(data, framing)
    found, is_ours = np.empty((5, count), np.uint64), np.empty(count, np.bool_)
    consumed = scan_frames(base, size_max, base + len(data), found, is_ours)
    if not may_begin(data, consumed):  # too few bytes for a head, and already wrong
        return _damaged_columns(data, framing)
    return _one_by_one(_columns(found, consumed), data, framing, np.flatnonzero(~is_ours))


def _damaged_columns(data: Chunk, framing: Fixed) -> Columns:
    """Return the frames of a chunk that has other bytes between them, or whose loops are not compiled."""
    split = framing.split(bytes(data))
    ends = np.array(split.ends, np.int64)
    begins = ends - np.array([len(frame) for frame in split.frames], np.int64)
    columns = _empty(begins, ends, split.consumed)
    columns.bad = list(split.bad)
    if not len(columns):
        return columns
    is_ours = _unpack(columns, np.arange(len(columns)), gather(data, begins + HEAD_BYTES, UUID_BYTES))
    return _one_by_one(columns, data, framing, np.flatnonzero(~is_ours))


def _numpy_json_columns(data: Chunk, framing: JsonLines) -> Columns:
    """Return the complete lines of a chunk, by NumPy alone."""
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == ord("\n")) + 1
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    columns = _empty(begins, ends, int(ends[-1]) if len(ends) else 0)
    is_ours = ends - begins > UUID_AT + TEXT_BYTES + 1
    rows = np.flatnonzero(is_ours)
    if len(rows):
        heads = gather(data, begins[rows], UUID_AT)
        is_good = (heads == np.frombuffer(HEAD[:UUID_AT], np.uint8)).all(axis=1)
        is_good &= buffer[begins[rows] + UUID_AT + TEXT_BYTES] == ord('"')
        is_ours[rows] = is_good & _texts(columns, data, begins[rows] + UUID_AT, rows)
    return _one_by_one(columns, data, framing, np.flatnonzero(~is_ours))


def _texts(columns: Columns, data: Chunk, begins: I64, rows: I64) -> npt.NDArray[np.bool_]:
    """Decode the UUIDs whose texts begin at these places into the columns; False where there is none of version 1."""
    front = gather(data, begins, TEXT_BYTES)
    nibbles = _NIBBLES.take(front.take(_DIGITS, axis=1))
    is_good = (np.bitwise_or.reduce(nibbles.view(np.uint64), axis=1) & _HIGH_NIBBLES) == 0
    for at in (8, 13, 18, 23):
        is_good &= front[:, at] == ord("-")
    is_version_1 = _unpack(columns, rows, nibbles[:, ::2] << np.uint8(4) | nibbles[:, 1::2])
    good: npt.NDArray[np.bool_] = is_good & is_version_1
    return good


def csv_columns(data: Chunk, framing: CsvRows) -> Columns:
    """The complete records of a chunk, which begins with one: they end at newlines outside quotes."""
    buffer = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(buffer == ord("\n"))
    quotes = np.flatnonzero(buffer == ord('"'))
    ends = newlines[np.searchsorted(quotes, newlines) % 2 == 0] + 1
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    columns = _empty(begins, ends, int(ends[-1]) if len(ends) else 0)
    if not framing.with_uuid:
        return columns
    is_ours = ends - begins > TEXT_BYTES
    rows = np.flatnonzero(is_ours)
    if len(rows):
        is_good = np.isin(buffer[begins[rows] + TEXT_BYTES], np.frombuffer(b",\r\n", np.uint8))
        is_ours[rows] = is_good & _texts(columns, data, begins[rows], rows)
    return _one_by_one(columns, data, framing, np.flatnonzero(~is_ours))


def _empty(begins: Any, ends: Any, consumed: int) -> Columns:
    zeros = np.zeros(len(begins), np.uint64)
    return Columns(begins, ends, zeros, zeros.copy(), zeros.copy(), [], consumed)


def gather(data: Chunk, begins: I64, size: int) -> npt.NDArray[np.uint8]:
    """The `size` bytes from each begin on, one row each: a view with a stride of one byte, copied by item."""
    windows: Any = np.ndarray((len(data) - size + 1,), f"V{size}", data, strides=(1,))
    rows: npt.NDArray[np.uint8] = windows[begins].view(np.uint8).reshape(-1, size)
    return rows


def _unpack(columns: Columns, rows: I64, packed: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Decode packed UUIDs into the columns; False where there is none of version 1."""
    words = np.ascontiguousarray(packed).view(">u8").astype(np.uint64)
    return _split(columns, rows, words[:, 0], words[:, 1])


def _split(columns: Columns, rows: I64, high: U64, low: U64) -> npt.NDArray[np.bool_]:
    """The parts of UUIDs, given as two numbers each. See `uuid.py` for the bits."""
    time = (high & 0xFFF) << 48 | (high >> 16 & 0xFFFF) << 32 | high >> 32
    columns.clocks[rows] = time << 4 | low >> 58 & 0xF
    columns.flags[rows] = low >> 48 & 0x3FF
    columns.producers[rows] = low & (1 << 48) - 1
    is_ours: npt.NDArray[np.bool_] = (high >> 12 & 0xF == 1) & (low >> 62 == 2)
    return is_ours


def _one_by_one(columns: Columns, data: Chunk, framing: JsonLines | Fixed | CsvRows, rows: I64) -> Columns:
    """Check some frames as the one-by-one path does, and take out the bad ones."""
    if not len(rows):
        return columns
    kept = np.ones(len(columns), np.bool_)
    tail = 1 if isinstance(framing, JsonLines) else 0  # the newline is no part of a frame
    for row in rows.tolist():
        begin, end = int(columns.begins[row]), int(columns.ends[row])
        try:
            uuid = framing.uuid(bytes(data[begin : end - tail]))
        except InvalidArgument as error:
            columns.bad.append(Bad(begin, end, error.message))
            kept[row] = False
            continue
        parts = (0, 0, 0) if uuid is None else (uuid.producer, uuid.clock, uuid.flags)
        columns.producers[row], columns.clocks[row], columns.flags[row] = parts
    columns.bad.sort(key=lambda bad: bad.begin)
    return Columns(
        columns.begins[kept], columns.ends[kept], columns.producers[kept], columns.clocks[kept], columns.flags[kept],
        columns.bad, columns.consumed,
    )  # fmt: skip
