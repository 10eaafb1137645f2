"""Reading the committed rows of a journal as Arrow tables: the vectorised CommittedReader, driven in the same way.

    reader.feed(offset, data)                    a chunk, as it came; the larger, the better
    while (found := reader.next()) is not None:  Rows, Skipped, Anomalous or Replay; None: a chunk is needed
        if isinstance(found, Replay):
            reader.replay(found.begin, data)     bytes from there on, as many as are at hand; it asks again for the rest

What differs: the rows of a chunk come as one table (or as several, around a replay), and the state can be taken between
chunks only, once `next` has returned None. ACKs are no rows. Chunks with pending messages are kept, up to `ring_bytes`;
older pending messages are read again when they are committed.
"""

from collections import deque
from typing import Any

import msgspec
import numpy as np

from penstock.kernel.errors import InvalidArgument, MalformedFrame
from penstock.kernel.ids import Clock, Offset
from penstock.messages.columns import I64, U64, Chunk, Columns
from penstock.messages.message import Message, Replay
from penstock.messages.read_state import NO_SPAN, Horizon, ReadState
from penstock.messages.reader import Anomalous, OnBad, Skipped
from penstock.messages.row_decoder import FRONT_BYTES, Piece, RowDecoder, front_of
from penstock.messages.sequencing.order_kernels import delivered_rows
from penstock.messages.sequencing.vector_sequencer import PENDING, Sequenced, VectorSequencer, VectorSpan
from penstock.messages.uuid import CONTINUE_TXN, ProducerId

__all__ = ["Rows", "RowsReader"]


class Rows(msgspec.Struct, frozen=True):
    """Committed rows, in the order of their commits."""

    table: Any
    messages: int


class _Gathering(msgspec.Struct):
    """An open span from before the chunk, as its messages are put together."""

    span: VectorSpan
    kept: list[Piece]  # the part that is in memory, the newest
    again: Replay | None  # what must be read again before
    highest: Clock = Clock(0)


class RowsReader:
    """The committed rows of one journal."""

    def __init__(
        self,
        journal: str,
        decoder: RowDecoder,
        state: ReadState = ReadState(),  # noqa: B008 (frozen)
        *,
        horizon: Horizon = Horizon(),  # noqa: B008 (frozen)
        ring_bytes: int = 64 << 20,
        front_bytes: int = FRONT_BYTES,
        on_bad: OnBad = OnBad.FAIL,
        is_ordered: bool = True,  # else rows may come in any order, which takes less time
    ) -> None:
        self.journal = journal
        self._decoder = decoder
        self._sequencer = VectorSequencer(state, horizon)
        self._ring_bytes = ring_bytes
        self._front_bytes = front_bytes
        self._on_bad = on_bad
        self._is_ordered = is_ordered
        self._rest = b""
        self._rest_at = state.offset
        self._held: dict[ProducerId, list[Piece]] = {}
        self._chunks: deque[Piece] = deque()  # chunks whose bytes are held, oldest first; their rows are not used
        self._plan: deque[Piece | _Gathering | Skipped | Anomalous] = deque()
        self._replayed = b""  # a frame of the replay which is not complete
        self._failed: MalformedFrame | None = None  # nothing more is given out: it would come after the missing bytes

    # in

    def feed(self, offset: Offset, data: Chunk) -> None:
        """The next chunk. What the one before gave must have been taken. Memory which may change is copied."""
        assert not self._plan, "take what the chunk before gave first"
        expected = self._rest_at + len(self._rest)
        if offset < expected:
            raise InvalidArgument(f"{self.journal}: a chunk at {offset} was read before; expected {expected}")
        if offset > expected:
            if self._rest:
                self._plan.append(Skipped(self._rest_at, offset, "a gap in the journal cuts off a frame"))
            self._rest, self._rest_at = b"", offset
        if not isinstance(data, bytes) and not data.readonly:
            data = bytes(data)
        chunk: Chunk = self._complete(data) if self._rest else data
        if self._rest:
            chunk = self._rest + chunk
        columns = self._decoder.columns(chunk)
        if columns.bad and self._on_bad is OnBad.FAIL:
            columns = _before(columns, columns.bad[0].begin)
        self._take(chunk, columns)
        self._rest = bytes(chunk[columns.consumed :])

    def _complete(self, data: Chunk) -> Chunk:
        """Take the frame which began in the chunk before, if it need not be joined with all of this one."""
        found = front_of(self._decoder, self._rest, data, self._front_bytes)
        if found is None:
            return data
        front, columns, behind = found
        self._take(front, columns)
        self._rest = b""
        return behind

    def _take(self, chunk: Chunk, columns: Columns) -> None:
        base = self._rest_at
        result = self._sequencer.sequence(base, columns)
        self._make_plan(base, chunk, columns, result)
        self._hold(base, chunk, columns, result)
        self._rest_at = Offset(base + columns.consumed)

    def _make_plan(self, base: Offset, data: Chunk, columns: Columns, result: Sequenced) -> None:
        """Plan the deliveries, in the order of the commits."""
        rows = delivered_rows(result.commits, columns.flags, columns.clocks, is_ordered=self._is_ordered)
        whole = Piece(base, data, columns.begins, columns.ends, columns.clocks)
        if self._is_ordered:
            self._plan_in_order(whole, rows, result)
        else:
            self._plan.append(whole.pick(rows))
            self._plan += [self._gather(span, base) for span in result.spans.values()]
        for row, outcome in result.anomalies:
            begin, end = int(columns.begins[row]), int(columns.ends[row])
            producer, clock = ProducerId(int(columns.producers[row])), Clock(int(columns.clocks[row]))
            place = Offset(base + begin), Offset(base + end)
            message = Message(*place, producer, clock, int(columns.flags[row]), bytes(data[begin:end]))
            self._plan.append(Anomalous(message, outcome))
        for bad in columns.bad:
            self._plan.append(Skipped(Offset(base + bad.begin), Offset(base + bad.end), bad.why))

    def _plan_in_order(self, whole: Piece, rows: I64, result: Sequenced) -> None:
        done = 0
        acks = sorted(result.spans)
        for ack, cut in zip(acks, np.searchsorted(result.commits[rows], acks).tolist() if acks else (), strict=True):
            self._plan.append(whole.pick(rows[done:cut]))
            self._plan.append(self._gather(result.spans[ack], whole.base))
            done = cut
        self._plan.append(whole.pick(rows[done:]))

    def _gather(self, span: VectorSpan, base: Offset) -> _Gathering:
        kept = [piece for piece in self._held.get(span.producer, []) if piece.base + piece.begins[0] >= span.begin]
        end = Offset(kept[0].base + int(kept[0].begins[0])) if kept else base
        again = Replay(span.begin, end) if span.begin < end else None
        return _Gathering(span, kept, again, span.after)

    def _hold(self, base: Offset, data: Chunk, columns: Columns, result: Sequenced) -> None:
        """Keep the messages that are pending after this chunk."""
        for producer in result.closed:
            self._held.pop(producer, None)
        rows = np.flatnonzero(result.commits == PENDING)
        rows = rows[(columns.flags[rows] == CONTINUE_TXN) & (columns.clocks[rows] != 0)]
        whole = Piece(base, data, columns.begins, columns.ends, columns.clocks)
        for producer, mine in _by_producer(columns.producers, rows):
            begin = self._sequencer.begin_of(producer)
            mine = mine[columns.begins[mine] + base >= begin]
            if begin != NO_SPAN and len(mine):
                self._held.setdefault(producer, []).append(whole.pick(mine))
        self._chunks.append(whole.pick(slice(0)))
        self._evict()

    def _evict(self) -> None:
        """Release chunks without pending messages, and the oldest ones while there are too many bytes."""
        used = {piece.base for pieces in self._held.values() for piece in pieces}
        self._chunks = deque(chunk for chunk in self._chunks if chunk.base in used)
        size = sum(len(chunk.data) for chunk in self._chunks)
        while size > self._ring_bytes:
            gone = self._chunks.popleft()
            size -= len(gone.data)
            for producer in list(self._held):
                kept = [piece for piece in self._held[producer] if piece.base != gone.base]
                self._held[producer] = kept
                if not kept:
                    del self._held[producer]

    # out

    def next(self) -> Rows | Skipped | Anomalous | Replay | None:
        """Return the next finding, or None: feed a chunk."""
        if self._failed is not None:
            raise self._failed
        pieces: list[Piece] = []
        while self._plan and not isinstance(self._plan[0], Skipped | Anomalous):
            step = self._plan[0]
            if isinstance(step, _Gathering):
                if step.again is not None:
                    return self._rows(pieces) if pieces else step.again
                pieces += [piece for each in step.kept if len(piece := self._newest(step, each))]
            elif len(step):
                pieces.append(step)
            self._plan.popleft()
        if pieces:
            return self._rows(pieces)
        return self._report() if self._plan else None

    def _report(self) -> Skipped | Anomalous:
        report = self._plan[0]
        assert isinstance(report, Skipped | Anomalous)
        if isinstance(report, Skipped) and self._on_bad is OnBad.FAIL:
            raise self._error(report)
        self._plan.popleft()
        return report

    def replay(self, offset: Offset, data: Chunk) -> None:
        """Bytes of the range the last `Replay` named, from its begin on. Later ones mean that those before are gone."""
        step = self._plan[0] if self._plan else None
        if not isinstance(step, _Gathering) or step.again is None:
            raise InvalidArgument(f"{self.journal}: no replay was asked for")
        again = step.again
        if offset > again.begin:
            begin = Offset(again.begin - len(self._replayed))
            lost = Skipped(begin, offset, "gone, and committed messages were pending there")
            if self._on_bad is OnBad.FAIL:
                raise self._error(lost)
            self._replayed = b""
            self._plan.appendleft(lost)
        base = Offset(offset - len(self._replayed))
        data = self._replayed + data[: again.end - offset]
        columns = self._decoder.columns(data)
        self._replayed = data[columns.consumed :]
        upto = Offset(base + len(data))
        step.again = Replay(upto, again.end) if upto < again.end else None
        is_mine = (columns.producers == step.span.producer) & (columns.flags == CONTINUE_TXN)
        found = Piece(base, data, columns.begins, columns.ends, columns.clocks).pick(is_mine)
        self._plan.insert(1 if isinstance(self._plan[0], Skipped) else 0, self._newest(step, found))

    def _newest(self, step: _Gathering, piece: Piece) -> Piece:
        """Return the messages with clocks above all before them, and not beyond the ACK's: see `Sequencer._deliver`."""
        if not len(piece):
            return piece
        reached = np.maximum.accumulate(np.concatenate([np.array([step.highest], np.uint64), piece.clocks]))
        is_new = piece.clocks > reached[:-1]
        step.highest = Clock(int(reached[-1]))
        return piece.pick(is_new & (piece.clocks <= step.span.upto))

    def _rows(self, pieces: list[Piece]) -> Rows:
        count = sum(map(len, pieces))
        try:
            return Rows(self._decoder.decode(pieces), count)
        except InvalidArgument as error:
            good, bad = self._sift(pieces, error.message)
            if self._on_bad is OnBad.FAIL or not bad:  # none alone is to blame: a decoder which contradicts itself
                self._failed = self._error(bad[0] if bad else _skipped(pieces, error.message))
                raise self._failed from None
            self._plan.extendleft(reversed(bad))
            return Rows(self._decoder.decode(good), count - len(bad))

    def _sift(self, pieces: list[Piece], why: str) -> tuple[list[Piece], list[Skipped]]:
        """Separate the messages that can be decoded from the bad ones, by halving."""
        count = sum(map(len, pieces))
        if count == 1:
            (piece,) = (piece for piece in pieces if len(piece))
            begin, end = Offset(piece.base + int(piece.begins[0])), Offset(piece.base + int(piece.ends[0]))
            return [], [Skipped(begin, end, why)]
        good: list[Piece] = []
        bad: list[Skipped] = []
        for half in _halves(pieces, count // 2):
            try:
                self._decoder.decode(half)
                good += half
            except InvalidArgument as error:
                better, worse = self._sift(half, error.message)
                good += better
                bad += worse
        return good, bad

    def _error(self, bad: Skipped) -> MalformedFrame:
        return MalformedFrame(
            f"{self.journal} at {bad.begin}: {bad.why}",
            next_step=f"continue after it, from {bad.end}, or skip bad frames with a report",
            journal=self.journal,
            begin=bad.begin,
            end=bad.end,
        )

    def state(self) -> ReadState:
        """Return the state after the last chunk, of which everything must have been taken."""
        if self._failed is not None:
            raise self._failed
        assert not self._plan, "take what the chunk gave first"
        return self._sequencer.state()


def _before(columns: Columns, offset: int) -> Columns:
    """The messages before an offset. A bad range there stays, as the reason."""
    kept = columns.ends <= offset
    return Columns(
        columns.begins[kept], columns.ends[kept], columns.producers[kept], columns.clocks[kept], columns.flags[kept],
        columns.bad[:1], offset,
    )  # fmt: skip


def _skipped(pieces: list[Piece], why: str) -> Skipped:
    """Report all messages of some pieces as skipped."""
    begin = min(piece.base + int(piece.begins.min()) for piece in pieces)
    return Skipped(Offset(begin), Offset(max(piece.base + int(piece.ends.max()) for piece in pieces)), why)


def _by_producer(producers: U64, rows: I64) -> list[tuple[ProducerId, I64]]:
    """Rows of each producer."""
    if not len(rows):
        return []
    rows = rows[np.argsort(producers[rows], kind="stable")]
    of_rows = producers[rows]
    parts = np.split(rows, np.flatnonzero(of_rows[1:] != of_rows[:-1]) + 1)
    return [(ProducerId(int(producers[part[0]])), part) for part in parts]


def _halves(pieces: list[Piece], middle: int) -> tuple[list[Piece], list[Piece]]:
    first: list[Piece] = []
    second: list[Piece] = []
    for piece in pieces:
        room = max(0, middle - sum(map(len, first)))
        first.append(piece.pick(slice(0, room)))
        second.append(piece.pick(slice(room, None)))
    return first, second
