"""The Sequencer over columns: a whole chunk of messages at once, with the same answers as one by one.

Most producers keep the rules: clocks rise, and no lone message lies in an open span. Then a pending message is
committed by the next ACK of its producer. Where all producers of a chunk do so, a compiled pass finds these
(`sequence_kernels.py`). Otherwise, messages are ordered by producer (a stable sort keeps the journal's order within
one), and NumPy finds the ACKs of the producers that keep the rules. The messages of a producer that does anything else
(duplicates, roll-backs, misuse) are decided one by one, by the same table (`outcome.decide`).

The result says for each message by which message of the chunk it is committed, and which spans from before the chunk
are. Property tests hold it against the one-by-one Sequencer.
"""

from typing import Any

import msgspec
import numpy as np

from penstock.kernel.ids import Clock, Offset
from penstock.messages.columns import I64, U64, Columns
from penstock.messages.outcome import SequenceOutcome, decide
from penstock.messages.read_state import NO_SPAN, Horizon, ProducerState, ReadState, is_forgotten
from penstock.messages.sequencing.sequence_kernels import PENDING, Noted, commits_of
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, ProducerId

__all__ = ["PENDING", "Sequenced", "VectorSequencer", "VectorSpan"]


class VectorProducer(msgspec.Struct, eq=False, gc=False):
    """The state of one producer; see ProducerState."""

    last_ack: int
    last_clock: int
    begin: int
    last_seen: int


class VectorSpan(msgspec.Struct, frozen=True):
    """An open span from before the chunk: pending messages from `begin` on, with clocks in (after, upto]."""

    producer: ProducerId
    begin: Offset
    after: Clock
    upto: Clock  # that of its ACK


class Sequenced(msgspec.Struct):
    """What became of a chunk's messages."""

    commits: I64  # for each: the row of the message which commits it, perhaps its own, or PENDING
    spans: dict[int, VectorSpan]  # row of an ACK -> the span from before the chunk which it commits
    closed: list[ProducerId]  # producers whose span from before the chunk ended, committed or not
    anomalies: list[tuple[int, SequenceOutcome]]  # row, and the anomaly


class VectorSequencer:
    """Sequences one journal by chunks, from a state on."""

    def __init__(self, state: ReadState = ReadState(), horizon: Horizon = Horizon()) -> None:  # noqa: B008 (frozen)
        self.offset = state.offset
        self.largest_ack = int(state.largest_ack)
        self.horizon = horizon
        self._sweep_at = 1024
        self._producers: dict[int, VectorProducer] = {
            each.producer: VectorProducer(each.last_ack, each.last_clock, each.begin, each.last_seen)
            for each in state.producers
        }

    def sequence(self, base: Offset, columns: Columns) -> Sequenced:
        """Take the messages of the chunk at `base`, the next one of the journal."""
        assert base >= self.offset, f"the chunk at {base} was read before: reading is at {self.offset}"
        result = self._at_once(base, columns) or self._in_parts(base, columns)
        self.offset = Offset(base + columns.consumed)
        if len(self._producers) >= self._sweep_at:
            self._sweep()
        return result

    def _may_forget(
        self, base: int, columns: Columns, lowest: int, largest_ack: int, first_seen: int, producers: list[int]
    ) -> bool:
        """Could a producer of this chunk be forgotten before or between its messages? Then their order counts.

        Given: the lowest clock, the largest which commits (0: none does), and where the first message begins.
        """
        if base + int(columns.ends[-1]) <= self.horizon.bytes:
            return False  # nothing is as far behind as that
        floor = max(self.largest_ack, largest_ack) - self.horizon.clock
        for producer in producers:
            if (known := self._producers.get(producer)) is not None:
                lowest = min(lowest, known.last_clock)
                first_seen = min(first_seen, known.last_seen)
        return lowest < floor and first_seen < base + int(columns.ends[-1]) - self.horizon.bytes

    # all messages at once

    def _at_once(self, base: int, columns: Columns) -> Sequenced | None:
        """None: some producer does as it should not, or may be forgotten. Then nothing has changed."""
        found = commits_of(columns)
        if found is None:
            return None
        result = Sequenced(found[0], {}, [], [])
        if not (noted := found[1]):
            return result  # no message has a UUID
        lowest, largest_ack = min(each.clock for each in noted), max(each.last_ack for each in noted)
        first_seen, producers = base + int(columns.begins[0]), [each.id for each in noted]
        if any(map(self._is_odd, noted)) or self._may_forget(base, columns, lowest, largest_ack, first_seen, producers):
            return None
        for each in noted:
            self._note(base, columns, each, result)
        return result

    def _is_odd(self, noted: Noted) -> bool:
        """Does what a producer begins the chunk with not fit what is known of it?"""
        known = self._producers.get(noted.id)
        if known is None:
            return False
        return noted.clock <= known.last_clock or (noted.is_lone and known.begin != NO_SPAN)

    def _note(self, base: int, columns: Columns, noted: Noted, result: Sequenced) -> None:
        """Record a producer's state after the chunk."""
        producer = self._producers.get(noted.id)
        if producer is None:
            producer = self._producers[noted.id] = VectorProducer(noted.clock - 1, noted.clock - 1, NO_SPAN, 0)
        if producer.begin != NO_SPAN and noted.commit != PENDING:
            self._commit_span(columns, noted.commit, producer, result)
        producer.last_seen = base + noted.last_begin
        producer.last_clock = noted.last_clock
        if noted.last_ack:
            producer.last_ack = noted.last_ack
            producer.begin = NO_SPAN
            self.largest_ack = max(self.largest_ack, noted.last_ack)
        if producer.begin == NO_SPAN and noted.begin != PENDING:
            producer.begin = base + noted.begin

    # producer by producer

    def _in_parts(self, base: int, columns: Columns) -> Sequenced:
        result = Sequenced(np.full(len(columns), PENDING, np.int64), {}, [], [])
        tracked = np.flatnonzero(columns.clocks)
        untracked = np.flatnonzero(columns.clocks == 0)
        result.commits[untracked] = untracked
        if not len(tracked):
            return result
        order = tracked[np.argsort(columns.producers[tracked], kind="stable")]
        starts = _starts(columns.producers[order])
        clocks, flags = columns.clocks[order], columns.flags[order]
        largest_ack = int(clocks[flags != CONTINUE_TXN].max(initial=0))
        first_seen = base + int(columns.begins[tracked[0]])
        producers = columns.producers[order[starts]].tolist()
        if self._may_forget(base, columns, int(clocks.min()), largest_ack, first_seen, producers):
            self._one_by_one(base, columns, tracked, result)
        else:
            self._by_producer(base, columns, order, starts, result)
        return result

    def _by_producer(self, base: int, columns: Columns, order: I64, starts: I64, result: Sequenced) -> None:
        clocks, flags = columns.clocks[order], columns.flags[order]
        stops = np.append(starts[1:], len(order))
        known = [
            self._producers.get(producer) or VectorProducer(clock - 1, clock - 1, NO_SPAN, 0)
            for producer, clock in zip(columns.producers[order[starts]].tolist(), clocks[starts].tolist(), strict=True)
        ]
        is_odd = self._find_odd(clocks, flags, starts, known)
        next_commit = _next_commit(flags, starts, stops)
        is_decided = next_commit < len(order)
        result.commits[order[is_decided]] = order[next_commit[is_decided]]
        last_commit = np.maximum.reduceat(np.where(flags != CONTINUE_TXN, np.arange(len(order)), -1), starts)
        begins = columns.begins[order]
        for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            rows = order[start:stop]
            if is_odd[number]:
                result.commits[rows] = PENDING
                self._one_by_one(base, columns, rows, result)
                continue
            last, behind = int(last_commit[number]), max(start, int(last_commit[number]) + 1)
            noted = Noted(
                id=int(columns.producers[rows[0]]),
                clock=int(clocks[start]),
                flags=int(flags[start]),
                last_clock=int(clocks[stop - 1]),
                last_begin=int(begins[stop - 1]),
                commit=int(result.commits[rows[0]]),
                last_ack=int(clocks[last]) if last >= 0 else 0,
                begin=int(begins[behind]) if behind < stop else PENDING,
            )
            self._note(base, columns, noted, result)

    def _find_odd(self, clocks: U64, flags: U64, starts: I64, known: list[VectorProducer]) -> Any:
        """For each producer: is something to be looked at one by one?"""
        # A signed number among them would make floats of all, and clocks are too large for those.
        before = np.empty_like(clocks)
        before[1:] = clocks[:-1]
        before[starts] = [producer.last_clock for producer in known]
        is_pending = flags == CONTINUE_TXN
        is_open = np.empty_like(is_pending)
        is_open[1:] = is_pending[:-1]
        is_open[starts] = [producer.begin != NO_SPAN for producer in known]
        is_lone = ~is_pending & (flags != ACK_TXN)
        return np.logical_or.reduceat((clocks <= before) | (is_lone & is_open), starts)

    # one by one

    def _one_by_one(self, base: int, columns: Columns, rows: I64, result: Sequenced) -> None:
        pending: dict[int, list[int]] = {}
        for row in rows.tolist():
            clock, flags = int(columns.clocks[row]), int(columns.flags[row])
            id_, at = int(columns.producers[row]), base + int(columns.begins[row])
            producer = self._find(id_, clock, at)
            outcome = decide(flags, clock, producer.last_ack, producer.last_clock, producer.begin)
            if outcome.is_anomaly:
                result.anomalies.append((row, outcome))
            mine = pending.setdefault(id_, [])
            if producer.begin == NO_SPAN:
                mine.clear()  # of a producer which was forgotten in between
            if outcome in (SequenceOutcome.CONTINUE_BEGIN, SequenceOutcome.CONTINUE_EXTEND):
                producer.begin = at if outcome is SequenceOutcome.CONTINUE_BEGIN else producer.begin
                producer.last_clock = clock
                mine.append(row)
            elif outcome.is_commit or outcome in (
                SequenceOutcome.ACK_DEEP_ROLLBACK,
                SequenceOutcome.ACK_CLEAN_ROLLBACK,
            ):
                self._end_span(base, columns, row, producer, mine, outcome, result)
            producer.last_seen = at

    def _find(self, id_: int, clock: int, at: int) -> VectorProducer:
        producer = self._producers.get(id_)
        if producer is None or self._is_forgotten(producer, at):
            producer = self._producers[id_] = VectorProducer(clock - 1, clock - 1, NO_SPAN, at)
        return producer

    def _end_span(
        self,
        base: int,
        columns: Columns,
        row: int,
        producer: VectorProducer,
        mine: list[int],
        outcome: SequenceOutcome,
        result: Sequenced,
    ) -> None:
        clock = int(columns.clocks[row])
        if outcome is SequenceOutcome.ACK_COMMIT:
            result.commits[[each for each in mine if columns.clocks[each] <= clock]] = row
            if producer.begin < base:
                self._commit_span(columns, row, producer, result)
        if 0 <= producer.begin < base:
            result.closed.append(ProducerId(int(columns.producers[row])))
        # messages above the ACK's clock, or rolled back, stay PENDING: no later row can commit them
        mine.clear()
        if outcome.is_commit:
            result.commits[row] = row
            self.largest_ack = max(self.largest_ack, clock)
        producer.last_ack = producer.last_clock = clock
        producer.begin = NO_SPAN

    def _commit_span(self, columns: Columns, row: int, producer: VectorProducer, result: Sequenced) -> None:
        id_ = ProducerId(int(columns.producers[row]))
        upto = Clock(int(columns.clocks[row]))
        result.spans[row] = VectorSpan(id_, Offset(producer.begin), Clock(producer.last_ack), upto)
        result.closed.append(id_)

    # state

    def begin_of(self, producer: ProducerId) -> Offset:
        """Return where a producer's open span begins; NO_SPAN if none is open."""
        known = self._producers.get(producer)
        return NO_SPAN if known is None else Offset(known.begin)

    def state(self) -> ReadState:
        """Return the state after the last chunk."""
        self._sweep()
        producers = [
            ProducerState(
                ProducerId(id_),
                Clock(each.last_ack),
                Clock(each.last_clock),
                Offset(each.begin),
                Offset(each.last_seen),
            )
            for id_, each in sorted(self._producers.items(), key=lambda item: item[0])
        ]
        return ReadState(self.offset, Clock(self.largest_ack), tuple(producers))

    def _sweep(self) -> None:
        """Release the forgotten producers."""
        kept = {id_: each for id_, each in self._producers.items() if not self._is_forgotten(each, self.offset)}
        self._producers = kept
        self._sweep_at = max(1024, 2 * len(kept))

    def _is_forgotten(self, producer: VectorProducer, offset: int) -> bool:
        return is_forgotten(self.horizon, self.largest_ack, offset, producer.last_clock, producer.last_seen)


def _starts(producers: U64) -> I64:
    """Return where each producer's rows begin in sorted rows."""
    return np.concatenate([[0], np.flatnonzero(producers[1:] != producers[:-1]) + 1])


def _next_commit(flags: U64, starts: I64, stops: I64) -> I64:
    """Return for each sorted row the row that commits it: itself, or the next ACK of its producer; or one past the last
    row.
    """
    count = len(flags)
    places = np.arange(count)
    next_ack = np.where(flags == ACK_TXN, places, count)
    next_ack = np.minimum.accumulate(next_ack[::-1])[::-1]
    stop = np.repeat(stops, stops - starts)
    next_ack = np.where(next_ack < stop, next_ack, count)
    return np.where(flags == CONTINUE_TXN, next_ack, places)
