"""Messages as columns: what the Sequencer needs of a chunk's messages, in NumPy arrays instead of objects.

Where a framing puts its UUIDs at a fixed place of the frame, they are found and decoded for the whole chunk at once;
the frames which look otherwise (JSON which other programs wrote) are looked at one by one.
"""

from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.base.errors import InvalidArgument
from penstock.message.framing.csv_rows import CsvRows
from penstock.message.framing.fixed import HEAD_BYTES, MAGIC, Fixed
from penstock.message.framing.framing import Bad
from penstock.message.framing.json_lines import HEAD, UUID_AT, JsonLines
from penstock.message.uuid import TEXT_BYTES, UUID_BYTES

__all__ = ["Chunk", "Columns", "csv_columns", "fixed_columns", "gather", "json_columns"]

Chunk: TypeAlias = bytes | memoryview
U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_JSON_FRONT = 56  # up to the quote behind the UUID, in whole words of 8 bytes
assert UUID_AT + TEXT_BYTES < _JSON_FRONT
_HEAD_WORDS = np.frombuffer(HEAD[:16], np.uint64)
_HEAD_END = int.from_bytes(HEAD[16:18], "little")
_BYTES = np.uint64(0x0101010101010101)
_ALL_DASHES = _BYTES * np.uint64(ord("-"))
_DASHES, _DASHES_TOO = np.uint64(0x0000_FF00_0000_00FF), np.uint64(0xFF00_0000_00FF_0000)
_DIGITS = UUID_AT + np.array([at for at in range(TEXT_BYTES) if at not in (8, 13, 18, 23)])
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
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == ord("\n")) + 1
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    columns = _empty(begins, ends, int(ends[-1]) if len(ends) else 0)
    is_ours = ends - begins > _JSON_FRONT  # an ACK is longer by a byte
    rows = np.flatnonzero(is_ours)
    if len(rows):
        is_ours[rows] = _json_uuids(columns, rows, gather(data, begins[rows], _JSON_FRONT).view(np.uint64))
    return _one_by_one(columns, data, framing, np.flatnonzero(~is_ours))


def _json_uuids(columns: Columns, rows: I64, words: Any) -> npt.NDArray[np.bool_]:
    """Decode the UUIDs of lines, whose first bytes are words of 8 each; False where a line begins in another way."""
    is_good = (words[:, 0] == _HEAD_WORDS[0]) & (words[:, 1] == _HEAD_WORDS[1])
    # The text of a UUID begins behind 18 bytes, so 8 digits of it lie in two words.
    one, two, three, four, five = (words[:, at] for at in range(2, 7))
    time_low = one >> 16 | two << 48
    dashed = two >> 16 | three << 48  # -1234-56
    dashed_too = three >> 16 | four << 48  # 78-9abc-
    node = four >> 16 | five << 48
    is_good &= (one & 0xFFFF == _HEAD_END) & (dashed & _DASHES == _DASHES & _ALL_DASHES)
    is_good &= (dashed_too & _DASHES_TOO == _DASHES_TOO & _ALL_DASHES) & (five >> 48 & 0xFF == ord('"'))
    middle = (dashed >> 8 & 0xFFFFFFFF) | (dashed >> 48) << 32 | dashed_too << 48
    low = (dashed_too >> 24 & 0xFFFFFFFF) | node << 32
    values: list[Any] = []
    for digits in (time_low, middle, low, node >> 32 | five >> 16 << 32):
        value, is_hex = _hex_value(digits)
        is_good &= is_hex
        values.append(value)
    is_ours: npt.NDArray[np.bool_] = is_good & _split(
        columns, rows, values[0] << 32 | values[1], values[2] << 32 | values[3]
    )
    return is_ours


def _hex_value(digits: Any) -> tuple[U64, npt.NDArray[np.bool_]]:
    """The numbers which 8 hexadecimal digits each are, the first one in the lowest byte; and whether all are digits.

    In a digit 0 to 9 the bits above the lower four are 3, in a letter 4 or 6; a letter counts 9 more than those four.
    """
    low = digits & _BYTES * 0x0F
    letter = digits >> 6 & _BYTES
    wrong = (digits | letter << 5) ^ (low | _BYTES * 0x30 + letter * 0x30)
    wrong |= low + _BYTES * 6 + letter * 3 & _BYTES * 0x10  # 10 to 15 are no digits, 7 to 15 no letters
    wrong |= (low + letter * 15 >> 4 & _BYTES) ^ letter  # nor is 0
    nibbles = low + letter * 9
    pairs = (nibbles << 4 | nibbles >> 8) & 0x00FF00FF00FF00FF
    pairs = (pairs | pairs >> 8) & 0x0000FFFF0000FFFF
    value = (pairs | pairs >> 16).astype(np.uint32).byteswap().astype(np.uint64)
    return value, wrong == 0


def fixed_columns(data: Chunk, framing: Fixed) -> Columns:
    """The complete frames of a chunk. Their heads are a chain, so this walks them; UUIDs are decoded at once."""
    ends, bad, at, size = [], [], 0, len(data)
    begins = []
    while size - at >= HEAD_BYTES:
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] != MAGIC or not UUID_BYTES <= length <= framing.frame_bytes_max:
            skipped = framing.split(bytes(data[at:])).bad[0]
            bad.append(Bad(at, at + skipped.end, skipped.why))
            at += skipped.end
            continue
        end = at + HEAD_BYTES + length
        if end > size:
            break
        begins.append(at)
        ends.append(end)
        at = end
    columns = _empty(np.array(begins, np.int64), np.array(ends, np.int64), at)
    columns.bad = bad
    rows = np.arange(len(begins))
    if not len(rows):
        return columns
    packed = gather(data, columns.begins + HEAD_BYTES, UUID_BYTES)
    is_ours = _unpack(columns, rows, packed)
    return _one_by_one(columns, data, framing, np.flatnonzero(~is_ours))


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
        front = gather(data, begins[rows], TEXT_BYTES)
        nibbles = _NIBBLES.take(front.take(_DIGITS - UUID_AT, axis=1))
        is_good = (np.bitwise_or.reduce(nibbles.view(np.uint64), axis=1) & _HIGH_NIBBLES) == 0
        for at in (8, 13, 18, 23):
            is_good &= front[:, at] == ord("-")
        is_good &= np.isin(buffer[begins[rows] + TEXT_BYTES], np.frombuffer(b",\r\n", np.uint8))
        is_good &= _unpack(columns, rows, nibbles[:, ::2] << np.uint8(4) | nibbles[:, 1::2])
        is_ours[rows] = is_good
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
    """Look at some frames as the one-by-one path does; take out those which are bad."""
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
