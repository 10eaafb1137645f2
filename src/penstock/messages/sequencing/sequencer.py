"""The Sequencer: uncommitted messages of one journal in, committed ones out. Design: exactly-once.md, gazette.md 2.8.

`push` takes the journal's messages one by one, in order, and says which row of the table (`outcome.py`) each was. After
a message that commits, the delivery is taken before the next push:

    if sequencer.push(message).is_commit:
        while (replay := sequencer.replay) is not None:      # the span began before the ring
            committed = sequencer.feed(messages of [replay.begin, ...), upto)
        committed = sequencer.take()                          # the rest of the span, then the committing message

What always holds:

- A message is delivered when its ACK is read, whatever other producers have pending: no producer waits for another.
- A span is delivered in the journal's order, each clock once, up to the clock of its ACK; the ACK comes last.
- `state()` is a function of the journal's bytes before its offset. Between push and the end of a delivery the offset
  stays before the committing message, and the producer's `last_ack` and `begin` follow the delivered messages: a reader
  that restores such a state reads the ACK again and gets exactly the rest. (An ACK has a clock of its own, as every
  message has. If it shared that of its last message, the rest of it, the ACK alone, would pass for a roll-back.)
- `last_clock > last_ack` only while a span is open; messages in the ring have rising clocks.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from penstock.kernel.ids import Clock, Offset
from penstock.kernel.probes import reached
from penstock.messages.message import Message, Replay
from penstock.messages.outcome import SequenceOutcome, decide
from penstock.messages.read_state import NO_SPAN, Horizon, ProducerState, ReadState, is_forgotten
from penstock.messages.sequencing.ring import Ring, Span
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, ProducerId

__all__ = ["Sequencer"]

EVERYTHING = 1 << 62


class Producer(msgspec.Struct, eq=False, gc=False):
    """The state of one producer; see ProducerState. Its span holds what of the open span is in the ring."""

    last_ack: Clock
    last_clock: Clock
    begin: Offset
    last_seen: Offset
    span: Span

    @property
    def is_in_ring(self) -> bool:
        return bool(self.span) and self.span[0].begin == self.begin


class Delivery(msgspec.Struct, eq=False):
    """A commit which is being taken: first from the replay, then from the ring, then the committing message."""

    by: Message
    producer: Producer | None  # None: untracked
    replay: Replay | None = None
    highest: Clock = Clock(0)  # of the span's messages met so far, delivered or above the ACK's clock


class Sequencer:
    """Sequences one journal, from a state on."""

    def __init__(
        self,
        state: ReadState = ReadState(),  # noqa: B008 (frozen)
        ring: Ring | None = None,
        horizon: Horizon = Horizon(),  # noqa: B008 (frozen)
    ) -> None:
        self.offset = state.offset
        self.largest_ack = state.largest_ack
        self.horizon = horizon
        self._ring = ring if ring is not None else Ring()
        self._delivery: Delivery | None = None
        self._sweep_at = 1024
        self._clock_floor = self.largest_ack - horizon.clock  # a producer below it may be forgotten
        self._producers = {
            each.producer: Producer(each.last_ack, each.last_clock, each.begin, each.last_seen, Span())
            for each in state.producers
        }
        self._open = {id_: producer for id_, producer in self._producers.items() if producer.begin != NO_SPAN}

    # in

    def push(self, message: Message) -> SequenceOutcome:
        """Take the next message of the journal."""
        assert self._delivery is None, "the delivery before must be taken first"
        assert message.begin >= self.offset, f"{message} was read before: reading is at {self.offset}"
        if message.clock == 0:
            self._delivery = Delivery(message, None)
            return SequenceOutcome.UNTRACKED
        producer = self._find(message)
        outcome = decide(message.flags, message.clock, producer.last_ack, producer.last_clock, producer.begin)
        if outcome is SequenceOutcome.ACK_COMMIT and not producer.is_in_ring:
            outcome = SequenceOutcome.ACK_REPLAY
        _HANDLERS[outcome.text](self, producer, message)
        if not outcome.is_commit:
            producer.last_seen = message.begin
            self.offset = message.end
        return outcome

    def push_run(self, run: list[Message]) -> list[Message] | None:
        """Take messages of one producer with equal flags and rising clocks. Return those that this commits.

        None: nothing was taken, and each must be pushed by itself. One of them is a duplicate, ends a span, or extends
        a span that may be forgotten.
        """
        assert self._delivery is None, "the delivery before must be taken first"
        first, last = run[0], run[-1]
        assert first.begin >= self.offset, f"{first} was read before: reading is at {self.offset}"
        if first.flags == ACK_TXN or first.clock == 0:
            return None
        producer = self._find(first)
        if first.flags == CONTINUE_TXN:
            if first.clock <= producer.last_clock or first.clock < self._clock_floor:
                return None
            if producer.begin == NO_SPAN:
                producer.begin = first.begin
                self._open[first.producer] = producer
            producer.last_clock = last.clock
            producer.last_seen = last.begin
            self.offset = last.end
            self._ring.extend(producer.span, run)
            return []
        if first.clock <= producer.last_ack or producer.begin != NO_SPAN:
            return None
        self._complete(producer, last)
        return run

    def skip(self, upto: Offset) -> None:
        """Bytes up to there hold no message: a gap, or a bad frame."""
        assert self._delivery is None, "the delivery before must be taken first"
        assert upto >= self.offset
        self.offset = upto

    def _find(self, message: Message) -> Producer:
        producer = self._producers.get(message.producer)
        if producer is None or (
            producer.last_clock < self._clock_floor and producer.last_seen < message.begin - self.horizon.bytes
        ):
            before = Clock(message.clock - 1)
            producer = Producer(before, before, NO_SPAN, message.begin, Span())
            self._producers[message.producer] = producer
            self._open.pop(message.producer, None)
            if len(self._producers) >= self._sweep_at:
                self._sweep(message.begin)
        return producer

    # the table, a handler per outcome

    def _ignore(self, producer: Producer, message: Message) -> None:
        """OUTSIDE_DUPLICATE, CONTINUE_ALREADY_ACKED, CONTINUE_DUPLICATE: it was seen before."""

    def _on_outside_commit(self, producer: Producer, message: Message) -> None:
        self._delivery = Delivery(message, producer)

    def _on_outside_clobbers(self, producer: Producer, message: Message) -> None:
        reached("message.outside_clobbers_span")
        self._drop_span(producer, message)
        self._delivery = Delivery(message, producer)

    def _on_continue_begin(self, producer: Producer, message: Message) -> None:
        producer.begin = message.begin
        self._open[message.producer] = producer
        self._on_continue_extend(producer, message)

    def _on_continue_extend(self, producer: Producer, message: Message) -> None:
        producer.last_clock = message.clock
        self._ring.add(producer.span, message)

    def _on_ack_deep_rollback(self, producer: Producer, message: Message) -> None:
        reached("message.deep_rollback")
        self._drop_span(producer, message)
        producer.last_ack = producer.last_clock = message.clock

    def _on_ack_clean_rollback(self, producer: Producer, message: Message) -> None:
        self._drop_span(producer, message)

    def _on_ack_empty(self, producer: Producer, message: Message) -> None:
        self._delivery = Delivery(message, producer)

    def _on_ack_commit(self, producer: Producer, message: Message) -> None:
        self._delivery = Delivery(message, producer)

    def _on_ack_replay(self, producer: Producer, message: Message) -> None:
        reached("message.replay")
        end = producer.span[0].begin if producer.span else message.begin
        self._delivery = Delivery(message, producer, Replay(producer.begin, end) if producer.begin < end else None)

    def _drop_span(self, producer: Producer, by: Message) -> None:
        producer.last_clock = producer.last_ack
        producer.begin = NO_SPAN
        self._open.pop(by.producer, None)
        producer.span.clear()
        self._ring.release()

    # out

    @property
    def is_delivering(self) -> bool:
        return self._delivery is not None

    @property
    def replay(self) -> Replay | None:
        """The range that must be read again before `take` continues."""
        return None if self._delivery is None else self._delivery.replay

    def feed(self, messages: Iterable[Message], upto: Offset) -> list[Message]:
        """Messages of the replay, read again up to an offset of it. Returns the committed ones."""
        delivery = self._delivery
        assert delivery is not None, "nothing is being delivered"
        assert delivery.replay is not None, "no replay was asked for"
        assert delivery.replay.begin < upto <= delivery.replay.end, "a replay stays within its range"
        by = delivery.by
        committed: list[Message] = []
        for message in messages:
            if message.producer == by.producer and message.flags == CONTINUE_TXN:
                self._deliver(delivery, message, committed)
        delivery.replay = Replay(upto, delivery.replay.end) if upto < delivery.replay.end else None
        return committed

    def take(self, limit: int = EVERYTHING) -> list[Message]:
        """Committed messages, as many as asked for; fewer when the delivery is done."""
        delivery = self._delivery
        if delivery is None:
            return []
        assert delivery.replay is None, "read the replay first"
        committed: list[Message] = []
        by, producer = delivery.by, delivery.producer
        if producer is not None:
            span = producer.span
            if span and span[-1].clock <= by.clock and delivery.highest == 0 and len(span) < limit:
                committed += span  # all of it, as is usual: its clocks rise, and nothing of it was read again
                span.clear()
            while span and len(committed) < limit:
                self._deliver(delivery, span.popleft(), committed)
            if len(committed) >= limit:
                return committed
        committed.append(by)
        self._complete(producer, by)
        return committed

    def _deliver(self, delivery: Delivery, message: Message, committed: list[Message]) -> None:
        """Deliver a pending message, unless it is a duplicate, or its clock is above the ACK's and so rolled back."""
        producer, clock = delivery.producer, message.clock
        assert producer is not None
        if clock <= delivery.highest or clock <= producer.last_ack:
            return
        delivery.highest = clock
        if clock <= delivery.by.clock:
            producer.last_ack = clock
            producer.begin = message.end
            committed.append(message)

    def _complete(self, producer: Producer | None, by: Message) -> None:
        self._delivery = None
        self.offset = by.end
        if producer is None:
            return
        producer.last_ack = producer.last_clock = by.clock
        producer.begin = NO_SPAN
        producer.last_seen = by.begin
        self._open.pop(by.producer, None)
        if by.clock > self.largest_ack:
            self.largest_ack = by.clock
            self._clock_floor = by.clock - self.horizon.clock
        self._ring.release()

    # state

    def has_pending(self, since: Offset = Offset(0)) -> bool:  # noqa: B008
        """Did some open span begin at `since` or behind it? A reader may prefer to wait for its ACK."""
        return any(producer.begin >= since for producer in self._open.values())

    def state(self) -> ReadState:
        """Return the state to continue from: after this many bytes, or in the middle of a delivery."""
        by = None if self._delivery is None else self._delivery.by
        offset = self.offset if by is None else by.begin
        self._sweep(offset)
        producers = [
            ProducerState(producer, each.last_ack, each.last_clock, each.begin, each.last_seen)
            for producer, each in sorted(self._producers.items(), key=_by_id)
        ]
        return ReadState(offset, self.largest_ack, tuple(producers))

    def _is_forgotten(self, producer: Producer, offset: Offset) -> bool:
        return is_forgotten(self.horizon, self.largest_ack, offset, producer.last_clock, producer.last_seen)

    def _sweep(self, offset: Offset) -> None:
        """Release the forgotten producers. It changes nothing but memory: `_find` asks the same question."""
        self._producers = {
            id_: each for id_, each in self._producers.items() if not self._is_forgotten(each, offset)
        }  # fmt: skip
        self._open = {id_: each for id_, each in self._open.items() if id_ in self._producers}
        self._sweep_at = max(1024, 2 * len(self._producers))

    def check(self) -> None:
        """The invariants."""
        self._ring.check()
        assert set(self._open) == {id_ for id_, each in self._producers.items() if each.begin != NO_SPAN}
        for producer in self._producers.values():
            if self._delivery is not None and self._delivery.producer is producer:
                continue
            assert producer.begin != NO_SPAN or producer.last_clock == producer.last_ack
            assert producer.last_seen < self.offset
            clocks = [message.clock for message in producer.span]
            assert clocks == sorted(set(clocks)), "clocks of a span rise"
            assert not clocks or clocks[-1] == producer.last_clock
            assert not clocks or clocks[0] > producer.last_ack


def _by_id(item: tuple[ProducerId, Any]) -> ProducerId:
    return item[0]


_HANDLERS: dict[str, Callable[[Sequencer, Producer, Message], None]] = {  # by text: an Enum's own hash is slow
    SequenceOutcome.OUTSIDE_DUPLICATE.text: Sequencer._ignore,
    SequenceOutcome.OUTSIDE_COMMIT.text: Sequencer._on_outside_commit,
    SequenceOutcome.OUTSIDE_CLOBBERS.text: Sequencer._on_outside_clobbers,
    SequenceOutcome.CONTINUE_ALREADY_ACKED.text: Sequencer._ignore,
    SequenceOutcome.CONTINUE_DUPLICATE.text: Sequencer._ignore,
    SequenceOutcome.CONTINUE_BEGIN.text: Sequencer._on_continue_begin,
    SequenceOutcome.CONTINUE_EXTEND.text: Sequencer._on_continue_extend,
    SequenceOutcome.ACK_DEEP_ROLLBACK.text: Sequencer._on_ack_deep_rollback,
    SequenceOutcome.ACK_CLEAN_ROLLBACK.text: Sequencer._on_ack_clean_rollback,
    SequenceOutcome.ACK_EMPTY.text: Sequencer._on_ack_empty,
    SequenceOutcome.ACK_COMMIT.text: Sequencer._on_ack_commit,
    SequenceOutcome.ACK_REPLAY.text: Sequencer._on_ack_replay,
}
