"""Which lines of a journal of JSON a range gives, and where they lie: all that Java needs to read them.

Sequencing looks at UUIDs alone, and fragments in files are looked at where they lie (mmap). Lines which follow one
another are one span, also across an acknowledgement, over which Java steps. What Java cannot read of a span (texts with
escapes, nested values) is read by a worker, which is given the same spans: see `SpansReader`.
"""

import mmap
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from penstock.journals.records.fragment import Fragment
from penstock.kernel.ids import Offset
from penstock.messages.columns import I64, Chunk, Columns, gather, json_columns
from penstock.messages.framing.json_lines import HEAD, JsonLines
from penstock.messages.read_state import ReadState
from penstock.messages.row_decoder import Piece
from penstock.messages.rows_reader import Rows, RowsReader
from penstock.messages.uuid import TEXT_BYTES
from penstock.spark.journals.frame_places import PLACES, MappedContent, mapped
from penstock.spark.shared.content import Access, Content
from penstock.spark.shared.content import Piece as Bytes
from penstock.spark.shared.rows import SparkRows, Untracked, decoder_of

__all__ = ["JAVA_TYPES", "LineContent", "LinePlaces", "LineSpans", "SpansReader"]

JAVA_TYPES: Final = frozenset(
    (pa.string(), pa.int64(), pa.int32(), pa.int16(), pa.int8(), pa.float64(), pa.float32(), pa.bool_())
)
THREADS: Final = min(8, os.cpu_count() or 1)  # the sequencing of their results takes as long as this many threads
CHUNK_BYTES: Final = 8 << 20
GRAIN_BYTES: Final = 1 << 20  # of a span: parts are cut between spans
_ACK_BYTES: Final = len(HEAD) + TEXT_BYTES + len(b'"}}\n')
_FLAGS_AT: Final = len(HEAD) + 20  # three digits, the first with two bits of the clock before two of the flags
_CLOCK_AT: Final = len(HEAD)


class LinePlaces:
    """A RowDecoder which makes a row of each span of lines: where it begins and ends.

    A plan is made before anything else runs, so all cores are free for it: lines of the chunks to come are found while
    those of one are sequenced.
    """

    schema = PLACES
    is_plain = True  # lines which are not are noticed by Java

    def __init__(self) -> None:
        self._framing = JsonLines()
        self._threads = ThreadPoolExecutor(THREADS, "penstock finds lines")
        self._found: dict[
            int, tuple[Chunk, Future[Columns]]
        ] = {}  # by the chunk's id, which is its own while it is here

    def look_ahead(self, data: Chunk) -> None:
        """Lines of this very chunk will be asked for."""
        self._found[id(data)] = data, self._threads.submit(json_columns, data, self._framing)

    def forget(self, data: Chunk) -> None:
        """Forget a chunk that is no longer needed."""
        self._found.pop(id(data), None)

    def columns(self, data: Chunk) -> Columns:
        found = self._found.pop(id(data), None)
        return json_columns(data, self._framing) if found is None else found[1].result()

    def decode(self, pieces: list[Piece]) -> Any:
        found = np.concatenate([np.empty((2, 0), np.int64), *map(_spans_of, pieces)], axis=1)
        return pa.table([pa.array(found[0]), pa.array(found[1])], PLACES)


def _spans_of(piece: Piece) -> I64:
    """Return begins and ends in the journal. Lines one after the other, or with an acknowledgement between them, are
    the same span.
    """
    if not len(piece):
        return np.empty((2, 0), np.int64)
    begins, ends = piece.begins, piece.ends
    breaks = np.flatnonzero(begins[1:] != ends[:-1])
    if len(breaks):
        breaks = breaks[~_are_acks(piece.data, ends[breaks], begins[breaks + 1])]
    grains = np.arange(begins[0] + GRAIN_BYTES, begins[-1], GRAIN_BYTES)
    firsts = np.unique(np.concatenate([[0], breaks + 1, np.searchsorted(begins, grains)]))
    lasts = np.append(firsts[1:], len(begins)) - 1
    return np.stack([begins[firsts], ends[lasts]]) + int(piece.base)


def _are_acks(data: Chunk, begins: I64, ends: I64) -> Any:
    """Return which of these stretches between lines are an acknowledgement in our form."""
    is_ack = ends - begins == _ACK_BYTES
    rows = np.flatnonzero(is_ack)
    if len(rows):
        lines = gather(data, begins[rows], _ACK_BYTES)
        is_good = (lines[:, : len(HEAD)] == np.frombuffer(HEAD, np.uint8)).all(axis=1)
        is_good &= (lines[:, -4:] == np.frombuffer(b'"}}\n', np.uint8)).all(axis=1)
        is_good &= np.isin(lines[:, _FLAGS_AT], np.frombuffer(b"048cC", np.uint8))
        is_good &= (lines[:, _FLAGS_AT + 1] == ord("0")) & (lines[:, _FLAGS_AT + 2] == ord("2"))
        is_good &= (lines[:, _CLOCK_AT : _CLOCK_AT + 8] != ord("0")).any(axis=1)  # no clock, no acknowledgement
        is_ack[rows] = is_good
    return is_ack


class LineContent(MappedContent):
    """Fragments which lie in files, as memory, in chunks of whole lines."""

    def __init__(self, access: Access, journal: str, run: Sequence[Fragment], places: LinePlaces) -> None:
        super().__init__(access, journal, run)
        self._places = places

    def read(self, begin: int, end: int) -> Iterator[Bytes]:
        ahead: deque[Bytes] = deque()
        for offset, data in self._chunks(begin, end):
            self._places.look_ahead(data)
            ahead.append((offset, data))
            if len(ahead) > THREADS:
                yield from self._given(ahead.popleft())
        while ahead:
            yield from self._given(ahead.popleft())

    def _given(self, piece: Bytes) -> Iterator[Bytes]:
        yield piece
        self._places.forget(piece[1])  # a second reader joins it with the bytes before, and asks for the joined chunk

    def _chunks(self, begin: int, end: int) -> Iterator[Bytes]:
        rest, rest_at = b"", begin  # a line that continues in the next file
        for fragment in self._run:
            at, stop = max(begin, fragment.begin) - fragment.begin, min(end, fragment.end) - fragment.begin
            if at >= stop:
                continue
            memory, file = mapped(fragment)
            if rest:
                upto = file.find(b"\n", at, stop) + 1 or stop
                rest, at = rest + memory[at:upto], upto
                if rest.endswith(b"\n"):
                    yield Offset(rest_at), rest
                    rest = b""
            while at < stop and (upto := _lines_end(file, at, stop)):
                yield Offset(fragment.begin + at), memory[at:upto]  # type: ignore[misc]
                at = upto
            if at < stop:
                rest, rest_at = bytes(memory[at:stop]), fragment.begin + at
        if rest:
            yield Offset(rest_at), rest


def _lines_end(file: mmap.mmap, at: int, stop: int) -> int:
    """Return the end of the last line of a chunk, or of the first if it is longer; 0 if none ends there."""
    return file.rfind(b"\n", at, min(stop, at + CHUNK_BYTES)) + 1 or file.find(b"\n", at, stop) + 1


class LineSpans(msgspec.Struct, frozen=True):
    """Lines of a journal which were found to be rows: pairs of offsets, which rise."""

    journal: str
    spans: list[int]


class SpansReader:
    """Reads such lines as a worker does, from an offset on."""

    def __init__(self, access: Access, part: LineSpans, schema: Any) -> None:
        self._part = part
        self._content = Content(access, part.journal, fails_on_loss=True)
        rows = SparkRows(decoder_of("json", schema, use_threads=False), "json", part.journal, schema)
        self._decoder = Untracked(rows)  # that they are committed is known; acknowledgements between them are dropped

    def batches(self, begin: int) -> Iterator[Any]:
        """Rows of the lines which begin there or behind."""
        spans = list(_behind(self._part.spans, begin))
        if not spans:
            return
        reader = RowsReader(self._part.journal, self._decoder, ReadState(Offset(spans[0][0])), is_ordered=False)
        for offset, data in _within(self._content.read(spans[0][0], spans[-1][1]), spans):
            reader.feed(Offset(offset), data)
            while (found := reader.next()) is not None:
                assert isinstance(found, Rows), found
                yield from found.table.combine_chunks().to_batches()


def _behind(spans: list[int], offset: int) -> Iterator[tuple[int, int]]:
    for begin, end in zip(spans[::2], spans[1::2], strict=True):
        if end > offset:
            yield max(begin, offset), end


def _within(pieces: Iterator[Bytes], spans: list[tuple[int, int]]) -> Iterator[tuple[int, Chunk]]:
    """Yield the parts of some bytes that lie within spans; both rise."""
    number = 0
    for offset, data in pieces:
        upto, view = offset + len(data), memoryview(data)
        while number < len(spans) and spans[number][0] < upto:
            begin, end = max(spans[number][0], offset), min(spans[number][1], upto)
            if begin < end:
                yield begin, view[begin - offset : end - offset]
            if spans[number][1] > upto:
                break
            number += 1
