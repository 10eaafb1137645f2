"""The loops over fixed frames, compiled: where they lie, their UUIDs, and whether Arrow frames may be believed.

A frame's record batch is a flatbuffer (which says where buffers lie) and a body (the buffers). Both come from
elsewhere: every place is compared with where the bytes end before it is read, and offsets of texts must rise within
their bytes. Where anything is not as expected, the answer is no, and Arrow looks at the batch itself, which takes
longer.
"""

from typing import Any, Final

import numpy as np

from penstock.messages.framing.compiled import byte, compiled, half, inlined, is_same, load, split_uuid, word
from penstock.messages.framing.fixed import HEAD_BYTES, MAGIC
from penstock.messages.uuid import UUID_BYTES

__all__ = ["TEXT", "are_good_batches", "count_frames", "first_odd_batch", "scan_frames"]

TEXT: Final = 0  # the width of a column of texts or bytes, whose offsets have 32 bits

_PREFIX: Final = 8  # of a message: continuation, and the length of its metadata
_RECORD_BATCH: Final = 3
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)  # of a record batch, the first fields
_HEADER_TYPE, _HEADER = 1, 2  # of a message
_PAIR: Final = 16  # bytes of a node or of a buffer: two int64
_TOPS: Final = np.uint64(0x8080808080808080)
_ODD: Final = np.uint64(0x00FF00FF00FF00FF)
_ODD_TOO: Final = np.uint64(0x0000FFFF0000FFFF)
_MAGIC: Final = int.from_bytes(MAGIC, "little")


@inlined
def _field(table: int, number: int, size: int, begin: int, end: Any) -> Any:
    """Return where a field of a flatbuffer's table lies, if it has `size` bytes; 0 if it is absent."""
    if table < begin or table + 4 > end:
        return 0
    fields = table - word(table)
    if fields < begin or fields + 4 > end:
        return 0
    place = fields + 4 + 2 * number
    if place + 2 > fields + half(fields) or place + 2 > end or half(place) == 0:
        return 0
    at = table + half(place)
    return at if at + size <= end else 0


@inlined
def _behind(at: int) -> Any:
    """Return the target of a flatbuffer's offset. It is unsigned."""
    return at + (np.int64(word(at)) & 0xFFFFFFFF)


@inlined
def _vector(table: int, number: int, count: int, begin: int, end: int) -> Any:
    """Return where the pairs of a vector begin if there are at least `count`; 0 if not."""
    at = _field(table, number, 4, begin, end)
    if at == 0:
        return 0
    at = _behind(at)
    return at + 4 if at + 4 + _PAIR * count <= end and word(at) == count else 0


@inlined
def _batch(at: int, end: int) -> Any:
    """The table of the record batch whose message begins here, where its flatbuffer begins, and its body; or zeros."""
    if at + _PREFIX > end or word(at) != -1:
        return 0, 0, 0
    begin, body = at + _PREFIX, at + _PREFIX + np.int64(word(at + 4))
    if body < begin + 4 or body > end:
        return 0, 0, 0
    message = _behind(begin)
    kind = _field(message, _HEADER_TYPE, 1, begin, body)
    header = _field(message, _HEADER, 4, begin, body)
    if kind == 0 or byte(kind) != _RECORD_BATCH or header == 0:
        return 0, 0, 0
    batch = _behind(header)
    is_plain = _field(batch, _COMPRESSION, 4, begin, body) == 0
    return (batch, begin, body) if is_plain else (0, 0, 0)


@inlined
def _buffer(pairs: int, number: int, body: int, end: int, size: int) -> Any:
    """Return where a buffer lies if it has at least `size` bytes; 0 if not. An empty one may lie anywhere."""
    place, length = np.int64(load(pairs + _PAIR * number)), np.int64(load(pairs + _PAIR * number + 8))
    if place < 0 or length < size or place > end - body or length > end - body - place:
        return 0
    return body + place


@inlined
def _are_rising(offsets: int, rows: int, bytes_max: Any) -> Any:
    """Do offsets rise within their bytes?"""
    before = word(offsets)
    is_good = before >= 0
    for row in range(1, rows + 1):
        here = word(offsets + 4 * row)
        is_good &= here >= before
        before = here
    return is_good and before <= bytes_max


@inlined
def _is_ascii(at: int, size: Any) -> Any:
    marks, end = np.uint64(0), at + size
    while at + 8 <= end:
        marks |= load(at)
        at += 8
    while at < end:
        marks |= np.uint64(byte(at))
        at += 1
    return marks & _TOPS == np.uint64(0)


@inlined
def _places(begin: int, end: int, columns: int, texts: int) -> Any:
    """Return how many rows a batch has (-1: unknown), its nodes, its buffers, and its body."""
    batch, first, body = _batch(begin, end)
    if batch == 0:
        return -1, 0, 0, 0
    length = _field(batch, _LENGTH, 8, first, body)
    count = np.int64(load(length)) if length != 0 else np.int64(0)
    nodes = _vector(batch, _NODES, columns, first, body)
    pairs = _vector(batch, _BUFFERS, 2 * columns + texts, first, body)
    is_good = nodes != 0 and pairs != 0 and 0 <= count <= end - body
    return count if is_good else -1, nodes, pairs, body


@inlined
def _missing(bits: int, count: int) -> Any:
    """Return how many of the first `count` bits are 0."""
    missing = np.int64(count)
    for number in range(count):
        missing -= (byte(bits + (number >> 3)) >> (number & 7)) & 1
    return missing


@inlined
def _is_good_column(node: int, pairs: int, body: int, end: int, count: int, width: int) -> Any:
    """Has a column as many values as its batch has rows, and do its texts lie in their bytes?"""
    nulls = np.int64(load(node + 8))
    bits = _buffer(pairs, 0, body, end, (count + 7) >> 3 if nulls else 0)
    if np.int64(load(node)) != count or bits == 0 or (nulls != 0 and _missing(bits, count) != nulls):
        return False
    if width != TEXT:
        return _buffer(pairs, 1, body, end, count * width) != 0
    offsets = _buffer(pairs, 1, body, end, 4 * (count + 1) if count else 0)
    texts, size = _buffer(pairs, 2, body, end, 0), np.int64(load(pairs + 2 * _PAIR + 8))
    if count == 0 or offsets == 0 or texts == 0:
        return count == 0 and offsets != 0 and texts != 0
    return _are_rising(offsets, count, size) and _is_ascii(texts, size)


@compiled
def are_good_batches(base: int, begins: Any, ends: Any, head: int, head_bytes: int, widths: Any) -> Any:
    """May the record batches of frames be believed? Begins and ends are those of their bodies, and all that are not
    empty begin with the schema `head`, whose columns have these widths.
    """
    texts = 0
    for column in range(len(widths)):
        texts += widths[column] == TEXT
    for frame in range(len(begins)):
        begin, end = base + begins[frame], base + ends[frame]
        if begin == end:
            continue
        if end - begin < head_bytes or not is_same(begin, head, head_bytes):
            return False
        count, node, pairs, body = _places(begin + head_bytes, end, len(widths), texts)
        for column in range(len(widths)):
            if count < 0 or not _is_good_column(node, pairs, body, end, count, widths[column]):
                return False
            node, pairs = node + _PAIR, pairs + _PAIR * (3 if widths[column] == TEXT else 2)
    return True


@compiled
def first_odd_batch(base: int, begins: Any, ends: Any, head: int, head_bytes: int, columns: int, texts: int) -> Any:
    """Return the first frame with an odd body, or the number of frames if there is none. A good body is empty, or has
    the schema `head` followed by a plain record batch of `columns` columns, `texts` of them texts. Columns are not
    looked at.
    """
    for frame in range(len(begins)):
        begin, end = base + begins[frame], base + ends[frame]
        if begin == end:
            continue
        if end - begin < head_bytes or not is_same(begin, head, head_bytes):
            return frame
        count, _, _, _ = _places(begin + head_bytes, end, columns, texts)
        if count < 0:
            return frame
    return len(begins)


@inlined
def _frame_end(at: int, stop: int, frame_bytes_max: Any) -> Any:
    """Return the end of the frame that begins here; 0 if it is not complete, -1 if none begins here."""
    if stop - at < HEAD_BYTES:
        return 0
    length = np.int64(word(at + 4)) & 0xFFFFFFFF
    if word(at) != _MAGIC or length < UUID_BYTES or length > frame_bytes_max:
        return -1
    end = at + HEAD_BYTES + length
    return end if end <= stop else 0


@compiled
def count_frames(base: int, size: int, frame_bytes_max: Any) -> Any:
    """Return how many complete frames a chunk has; -1 if there are other bytes between them."""
    count, stop = 0, base + size
    at = _frame_end(base, stop, frame_bytes_max)
    while at > 0:
        count += 1
        at = _frame_end(at, stop, frame_bytes_max)
    return count if at == 0 else -1


@compiled
def scan_frames(base: int, frame_bytes_max: int, stop: int, found: Any, is_ours: Any) -> Any:
    """Find the frames of a chunk, as many as there is room for: begins, ends, producers, clocks, flags. Where the last
    one ends.
    """
    at = base
    for row in range(found.shape[1]):
        end = _frame_end(at, stop, frame_bytes_max)
        high, low = _swapped(load(at + HEAD_BYTES)), _swapped(load(at + HEAD_BYTES + 8))
        found[0, row], found[1, row] = at - base, end - base
        is_ours[row] = split_uuid(high, low, found, row)
        at = end
    return at - base


@inlined
def _swapped(number: Any) -> Any:
    """The bytes of a number of 64 bits in the other order."""
    pairs = ((number & _ODD) << np.uint64(8)) | ((number >> np.uint64(8)) & _ODD)
    pairs = ((pairs & _ODD_TOO) << np.uint64(16)) | ((pairs >> np.uint64(16)) & _ODD_TOO)
    return (pairs << np.uint64(32)) | (pairs >> np.uint64(32))
