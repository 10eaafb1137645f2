"""The loops over JSON lines, compiled: their UUIDs, and their fields by shape. See `columns.py` and `json_shapes.py`.

Kernels read eight bytes as one word wherever eight remain, the first one in the lowest byte. The caller is responsible
for the memory (`compiled.py`): chunks of whole lines, and arrays that are large enough. Tests hold every kernel against
the one-by-one path, with lines cut off anywhere.
"""

from typing import Any, Final

import numpy as np

from penstock.messages.framing.compiled import byte, compiled, float_bits, inlined, is_same, load, split_uuid, store

__all__ = [
    "BOOL",
    "FLOAT",
    "INT",
    "LATER",
    "SKIP",
    "TEXT",
    "TEXT_PADDING",
    "count_lines",
    "cut_lines",
    "scan_lines",
]

SKIP, TEXT, INT, FLOAT, BOOL, LATER = range(6)  # the kind that a field is wanted as; LATER: as the position of a number
_NULL: Final = 6
TEXT_PADDING: Final = 8  # bytes after a column's texts: they are copied by words

_U: Final = np.uint64
_BYTES: Final = _U(0x0101010101010101)
_TOPS: Final = _U(0x8080808080808080)
_EVEN: Final = _U(0x00FF00FF00FF00FF)
_NEWLINE, _QUOTE, _PLUS, _COMMA, _MINUS, _DOT, _ZERO, _BACKSLASH = b'\n"+,-.0\\'
_OPEN, _CLOSE, _EXPONENT = b"{}e"
_DIGITS_EXACT: Final = 15  # of a decimal number, which a float64 has all of; powers of ten up to 22 are exact too
_DIGITS_INT: Final = 18  # which fit into an int64 whatever they are
_POWERS: Final = 10.0 ** np.arange(_DIGITS_EXACT + 1)


@inlined
def _first_byte(marks: Any) -> Any:
    """The number of the lowest byte whose top bit is set; there is one, and no other bit is set. Without a branch."""
    below = (marks ^ (marks - _U(1))) & _BYTES
    return np.int64((below * _BYTES) >> _U(56)) - 1


@inlined
def _hex_value(digits: Any) -> Any:
    """The number which 8 hexadecimal digits are; and a number which is 0 if all are digits.

    In a digit 0 to 9 the bits above the lower four are 3, in a letter 4 or 6; a letter counts 9 more than those four.
    """
    low = digits & (_BYTES * _U(0x0F))
    letter = (digits >> _U(6)) & _BYTES
    wrong = (digits | (letter << _U(5))) ^ (low | (_BYTES * _U(0x30) + letter * _U(0x30)))
    wrong |= (low + _BYTES * _U(6) + letter * _U(3)) & (_BYTES * _U(0x10))  # 10 to 15 are no digits, 7 to 15 no letters
    wrong |= (((low + letter * _U(15)) >> _U(4)) & _BYTES) ^ letter  # nor is 0
    nibbles = low + letter * _U(9)
    pairs = ((nibbles << _U(4)) | (nibbles >> _U(8))) & _EVEN
    pairs = (pairs | (pairs >> _U(8))) & _U(0x0000FFFF0000FFFF)
    value = (pairs | (pairs >> _U(16))) & _U(0xFFFFFFFF)
    swapped = ((value & _U(0xFF)) << _U(24)) | ((value & _U(0xFF00)) << _U(8))
    return swapped | ((value >> _U(8)) & _U(0xFF00)) | (value >> _U(24)), wrong


@inlined
def _line_end(at: int, stop: int) -> Any:
    """Return the position after the next newline before `stop`; 0 if there is none."""
    while at + 8 <= stop:
        other = load(at) ^ (_BYTES * _U(_NEWLINE))
        marks = (other - _BYTES) & ~other & _TOPS
        if marks != _U(0):
            return at + _first_byte(marks) + 1
        at += 8
    while at < stop:
        if byte(at) == _NEWLINE:
            return at + 1
        at += 1
    return 0


@compiled
def count_lines(base: int, size: int) -> Any:
    """Return how many lines a chunk has. Each byte of a word counts the newlines it has met, up to 255."""
    count, at, stop = np.int64(0), base, base + size
    while at + 8 <= stop:
        words, counts = min(255, (stop - at) >> 3), _U(0)
        for place in range(at, at + 8 * words, 8):
            other = load(place) ^ (_BYTES * _U(_NEWLINE))
            counts += (~(((other & ~_TOPS) + ~_TOPS) | other) & _TOPS) >> _U(7)  # 1 for a byte which is no other
        pairs = (counts & _EVEN) + ((counts >> _U(8)) & _EVEN)
        count += np.int64((pairs * _U(0x0001000100010001)) >> _U(48))
        at += 8 * words
    while at < stop:
        count += byte(at) == _NEWLINE
        at += 1
    return count


@compiled
def scan_lines(base: int, size: int, head: int, uuid_at: int, found: Any, is_ours: Any) -> Any:
    """Find the lines of a chunk, and decode the UUIDs of the lines that begin in our form, with `head`.

    `found` has five rows: begins, ends, producers, clocks, flags. Given is where the last line ends.
    """
    row, begin, stop = 0, base, base + size
    end = _line_end(begin, stop)
    while end > 0:
        at = begin + uuid_at
        found[0, row], found[1, row] = begin - base, end - base
        is_ours[row] = False
        if end - at > 38 and is_same(begin, head, uuid_at):
            is_good, high, low = _uuid(at)
            is_ours[row] = split_uuid(high, low, found, row) and is_good
        row += 1
        begin = end
        end = _line_end(begin, stop)
    return begin - base


@inlined
def _uuid(at: int) -> Any:
    """Parse the UUID text that begins here and ends with a quote: return whether it is one, and its two numbers."""
    dashed, dashed_too = load(at + 8), load(at + 16)  # -1234-56 and 78-9abc-
    middle = ((dashed >> _U(8)) & _U(0xFFFFFFFF)) | ((dashed >> _U(48)) << _U(32)) | (dashed_too << _U(48))
    node = ((dashed_too >> _U(24)) & _U(0xFFFFFFFF)) | (load(at + 24) << _U(32))
    one, wrong = _hex_value(load(at))
    two, wrong_too = _hex_value(middle)
    three, wrong_node = _hex_value(node)
    four, wrong_end = _hex_value(load(at + 28))
    high, low = (one << _U(32)) | two, (three << _U(32)) | four
    is_dashed = byte(at + 8) == _MINUS and byte(at + 13) == _MINUS and byte(at + 18) == _MINUS
    is_dashed = is_dashed and byte(at + 23) == _MINUS and byte(at + 36) == _QUOTE
    return is_dashed and (wrong | wrong_too | wrong_node | wrong_end) == _U(0), high, low


@inlined
def _text_end(at: int, stop: int) -> Any:
    """The next quote, backslash or control character; a line's newline is one."""
    while at + 8 <= stop:
        word = load(at)
        quote, slash = word ^ (_BYTES * _U(_QUOTE)), word ^ (_BYTES * _U(_BACKSLASH))
        marks = ((quote - _BYTES) & ~quote) | ((slash - _BYTES) & ~slash) | ((word - _BYTES * _U(0x20)) & ~word)
        if marks & _TOPS != _U(0):
            return at + _first_byte(marks & _TOPS)
        at += 8
    while byte(at) != _QUOTE and byte(at) != _BACKSLASH and byte(at) >= 0x20:
        at += 1
    return at


@inlined
def _begins_with(at: int, stop: int, fixed: int, size: int) -> Any:
    """Do so many bytes stand there? `fixed` is padded to whole words."""
    if at + size > stop:
        return False
    while size >= 8:
        if load(at) != load(fixed):
            return False
        at, fixed, size = at + 8, fixed + 8, size - 8
    if at + 8 <= stop:
        return size == 0 or (load(at) ^ load(fixed)) << _U(8 * (8 - size)) == _U(0)
    while size > 0:
        if byte(at) != byte(fixed):
            return False
        at, fixed, size = at + 1, fixed + 1, size - 1
    return True


@inlined
def _copy(at: int, end: int, stop: int, to: int) -> Any:
    """Copy by words, and so some bytes too many, which the next text overwrites."""
    while at < end and at + 8 <= stop:
        store(to, load(at))
        at, to = at + 8, to + 8
    word, place = _U(0), 0
    while at < end:
        word |= _U(byte(at)) << _U(8 * place)
        at, place = at + 1, place + 1
    if place > 0:
        store(to, word)


@inlined
def _number(at: int) -> Any:
    """Parse a number in JSON's syntax: return where it ends (0: there is none), its digits as one number, how many they
    are, and how many follow the point. With an exponent, or more digits than fit, the count says so, and the rest is
    wrong.
    """
    value, behind, is_negative = np.int64(0), 0, byte(at) == _MINUS
    at += is_negative
    first = at
    while _ZERO <= byte(at) <= _ZERO + 9:
        value, at = value * 10 + (np.int64(byte(at)) - _ZERO), at + 1
    count = at - first
    is_good = count == 1 or (count > 1 and byte(first) != _ZERO)
    if byte(at) == _DOT:
        at += 1
        point = at
        while _ZERO <= byte(at) <= _ZERO + 9:
            value, at = value * 10 + (np.int64(byte(at)) - _ZERO), at + 1
        behind = at - point
        count += behind
        is_good = is_good and behind > 0
    if byte(at) | 0x20 == _EXPONENT:
        at = _exponent_end(at + 1)
        count = _DIGITS_INT + 1
    return at if is_good else 0, value, count, behind


@inlined
def _exponent_end(at: int) -> Any:
    if byte(at) == _MINUS or byte(at) == _PLUS:
        at += 1
    first = at
    while _ZERO <= byte(at) <= _ZERO + 9:
        at += 1
    return at if at > first else 0


@inlined
def _word(at: int) -> Any:
    """Return the word at this position: 0 null, 1 true, 2 false, -1 none. It is compared up to where the line's end
    would be.
    """
    if byte(at) == 0x6E:
        return 0 if byte(at + 1) == 0x75 and byte(at + 2) == 0x6C and byte(at + 3) == 0x6C else -1
    if byte(at) == 0x74:
        return 1 if byte(at + 1) == 0x72 and byte(at + 2) == 0x75 and byte(at + 3) == 0x65 else -1
    if byte(at) == 0x66 and byte(at + 1) == 0x61 and byte(at + 2) == 0x6C and byte(at + 3) == 0x73:
        return 2 if byte(at + 4) == 0x65 else -1
    return -1


@inlined
def _value(at: int, stop: int) -> Any:
    """Return the end of the value that begins here (0: there is none), its kind, and `_number`'s findings for a
    number.
    """
    if byte(at) == _QUOTE:
        end = _text_end(at + 1, stop)
        return end + 1 if byte(end) == _QUOTE else 0, TEXT, np.int64(0), 0, 0
    if byte(at) > _ZERO + 9:
        word = _word(at)
        return at + 4 + (word == 2) if word >= 0 else 0, BOOL if word > 0 else _NULL, np.int64(word == 1), 0, 0
    end, value, count, behind = _number(at)
    return end, FLOAT, value, count, behind


@inlined
def _is_wanted(kind: int, found: int, count: int, behind: int) -> Any:
    """May a field which is wanted as `kind` have a value which is `found`?"""
    if kind == INT:
        return found == _NULL or (found == FLOAT and count <= _DIGITS_INT and behind == 0)
    return kind == SKIP or found in (_NULL, kind) or (found == FLOAT and kind == LATER)


@inlined
def _bits_of(kind: int, begin: int, value: int, behind: int) -> Any:
    """Return the bits that a column keeps of a number: the number itself, or the bits of a float."""
    is_negative = byte(begin) == _MINUS
    if kind != FLOAT:
        return -value if is_negative else value
    exact = np.float64(value) / _POWERS[behind]
    return float_bits(-exact if is_negative else exact)


@inlined
def _first_key(begin: int, end: int, stop: int, head: int, head_bytes: int, meta_bytes: int) -> Any:
    """Return where the first key of a line begins: after `_meta` in our form, or after the brace; 0 if it has none."""
    if end - begin <= meta_bytes or not is_same(begin, head, head_bytes):
        return begin + 1 if byte(begin) == _OPEN else 0
    quote = begin + meta_bytes - 3
    is_meta = _text_end(begin + head_bytes, stop) == quote and byte(quote) == _QUOTE
    return begin + meta_bytes if is_meta and byte(quote + 1) == _CLOSE and byte(quote + 2) == _COMMA else 0


@compiled
def cut_lines(
    base: int, size: int, begins: Any, ends: Any, is_taken: Any, meta: Any, shape: Any, columns: Any, row: int
) -> Any:
    """Cut the lines of a shape into columns, from a row on; return the row after the last.

    `meta`: the beginning of a line in our form, its length, and the length of the whole `_meta`. A shape: its keys,
    `"key":` one after the other and padded; where each ends; the kind that each value is wanted as, and in which
    column. Columns: for each column and row whether a value is present, its number, its length, and where its text
    ends; the texts, and where the texts of each column end.
    """
    head, head_bytes, meta_bytes = meta
    keys, key_ends, kinds, places = shape
    is_there, numbers, lengths, offsets, texts, text_ends = columns
    stop = base + size
    for line in range(len(begins)):
        at = _first_key(base + begins[line], base + ends[line], stop, head, head_bytes, meta_bytes)
        key = 0
        for field in range(len(kinds)):
            kind, column, key_bytes = kinds[field], places[field], key_ends[field] - key
            if at == 0 or not _begins_with(at, stop, keys + key, key_bytes):
                at = 0
                break
            begin, key = at + key_bytes, key + key_bytes
            at, found, value, count, behind = _value(begin, stop)
            is_next = at > 0 and byte(at) == (_COMMA if field + 1 < len(kinds) else _CLOSE)
            if not is_next or not _is_wanted(kind, found, count, behind):
                at = 0
                break
            if kind != SKIP:
                is_there[column, row] = found != _NULL
                is_later = found == FLOAT and (kind == LATER or (kind == FLOAT and count > _DIGITS_EXACT))
                lengths[column, row] = at - begin if is_later else 0
                numbers[column, row] = begin - base if is_later else _bits_of(kind, begin, value, behind)
                if found == TEXT:
                    _copy(begin + 1, at - 1, stop, texts + text_ends[column])
                    text_ends[column] += at - begin - 2
            at += 1
        is_taken[line] = at == base + ends[line] - 1
        row += is_taken[line]
        for column in range(len(text_ends)):  # texts of a line which is left are forgotten
            offsets[column, row] = text_ends[column] = text_ends[column] if is_taken[line] else offsets[column, row]
    return row
