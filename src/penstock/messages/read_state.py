"""How far a journal was read, and the state of its producers there: all that a reader needs to continue.

The state at an offset is a function of the journal's bytes before it, whichever reader computed it, in whichever pieces
and after however many restarts. So it has one encoding (`encode`), which may be stored, compared, and named by its
offset. (Only a state taken in the middle of a delivery is one reader's own: see `sequencer.py`.)

**Pruning.** Every Publisher draws a new producer, so most never come back. One is forgotten when both hold:

- its clock lies more than `Horizon.clock` below the largest acknowledged clock of the journal, and
- its last message is more than `Horizon.bytes` before the place which was read last.

Both are in the journal; no wall time has a say. The second guards the first: one producer with a clock from the next
century must not make a journal forget the active ones.
"""

import msgspec

from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Clock, Offset
from penstock.messages.clock import UNITS_PER_SECOND
from penstock.messages.uuid import ProducerId

__all__ = ["NO_SPAN", "Horizon", "ProducerState", "ReadState", "is_forgotten"]

NO_SPAN = Offset(-1)
_VERSION = 1
_PRODUCER_BYTES = 6


class Horizon(msgspec.Struct, frozen=True):
    """When a producer is forgotten. All who share states of a journal must share the horizon."""

    clock: int = 24 * 3600 * UNITS_PER_SECOND
    bytes: int = 1 << 30


class ProducerState(msgspec.Struct, frozen=True, order=True, gc=False):
    """One producer of a journal. `last_clock` is above `last_ack` only while a span is open."""

    producer: ProducerId
    last_ack: Clock  # everything up to here is decided
    last_clock: Clock  # the largest clock seen
    begin: Offset  # of the open span's first message; NO_SPAN if none is open
    last_seen: Offset  # where its last message begins


class ReadState(msgspec.Struct, frozen=True):
    """A journal's reading: everything before `offset` is done with, but for the open spans of producers."""

    offset: Offset = Offset(0)
    largest_ack: Clock = Clock(0)
    producers: tuple[ProducerState, ...] = ()  # by id

    @property
    def begin(self) -> Offset:
        """The first byte that the journal must keep for this state: the begin of the oldest open span."""
        return min([self.offset, *(each.begin for each in self.producers if each.begin != NO_SPAN)])

    def encode(self) -> bytes:
        """The one encoding of this state: a version, then numbers of as many bytes as they need."""
        out = bytearray((_VERSION,))
        for number in (self.offset, self.largest_ack, len(self.producers)):
            _put(out, number)
        for each in self.producers:
            out += each.producer.to_bytes(_PRODUCER_BYTES, "big")
            _put(out, _zigzag(self.largest_ack - each.last_ack))
            _put(out, self.offset - each.last_seen)
            _put(out, 0 if each.begin == NO_SPAN else self.offset - each.begin + 1)
            if each.begin != NO_SPAN:
                _put(out, each.last_clock - each.last_ack)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> "ReadState":
        """The state, or MalformedFrame. Only what `encode` makes is taken: equal states have equal bytes."""
        try:
            state = _decode(data)
            if state.encode() == data:
                return state
        except (IndexError, OverflowError, ValueError):
            pass
        raise MalformedFrame("not the state of a reading, or cut off")


def is_forgotten(horizon: Horizon, largest_ack: int, offset: int, last_clock: int, last_seen: int) -> bool:
    """The rule of pruning."""
    return last_clock < largest_ack - horizon.clock and last_seen < offset - horizon.bytes


def _decode(data: bytes) -> ReadState:
    if data[0] != _VERSION:
        raise MalformedFrame(f"the state of a reading has version {data[0]}; this program knows {_VERSION}")
    offset, at = _get(data, 1)
    largest_ack, at = _get(data, at)
    count, at = _get(data, at)
    producers = []
    for _ in range(count):
        producer = int.from_bytes(data[at : at + _PRODUCER_BYTES], "big")
        back, at = _get(data, at + _PRODUCER_BYTES)
        seen, at = _get(data, at)
        open_bytes, at = _get(data, at)
        last_ack = largest_ack - _unzigzag(back)
        ahead, at = _get(data, at) if open_bytes else (0, at)
        begin = Offset(offset - open_bytes + 1) if open_bytes else NO_SPAN
        producers.append(
            ProducerState(ProducerId(producer), Clock(last_ack), Clock(last_ack + ahead), begin, Offset(offset - seen))
        )
    return ReadState(Offset(offset), Clock(largest_ack), tuple(sorted(producers)))


def _put(out: bytearray, number: int) -> None:
    """Seven bits to a byte, low ones first, the high bit on all but the last."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _get(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else -number << 1 | 1


def _unzigzag(number: int) -> int:
    return -(number >> 1) if number & 1 else number >> 1
