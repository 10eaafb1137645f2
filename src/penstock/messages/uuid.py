"""UUIDs of messages: RFC 4122 version 1, bit for bit as Gazette lays them out. Design: exactly-once.md.

    bytes  0..3     4..5    6..7            8..9                            10..15
           time     time    0x1000 |        0x8000 | sequence << 10 |       producer
           low 32   mid 16  time high 12    flags (10 bits)

The 60 bits of time and the 4 of sequence are the message's clock, the node is its producer.
"""

from array import array
from collections.abc import Iterator
from enum import IntEnum
from sys import byteorder
from typing import Any, NewType

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Clock
from penstock.messages.clock import TICK

__all__ = [
    "ACK_TXN",
    "CONTINUE_TXN",
    "OUTSIDE_TXN",
    "TEXT_BYTES",
    "UUID_BYTES",
    "ProducerId",
    "TxnFlag",
    "Uuid",
    "UuidRun",
    "UuidsInARow",
    "producer_id",
    "producer_text",
]

ProducerId = NewType("ProducerId", int)  # 48 bits, drawn at random for each Publisher

UUID_BYTES = 16
TEXT_BYTES = 36
PRODUCER_MAX = (1 << 48) - 1
_MULTICAST = 1 << 40  # set in the first byte of a drawn node id, so that it is no network card's address
_FLAGS_MAX = 0x3FF


class TxnFlag(IntEnum):
    """What a message says about its transaction. Flags a reader does not know count as OUTSIDE_TXN."""

    OUTSIDE_TXN = 0  # is committed by itself
    CONTINUE_TXN = 1  # is pending until an ACK
    ACK_TXN = 2  # commits what its producer has pending up to its clock, and rolls back the rest


# As plain ints, for the paths which run once per message.
OUTSIDE_TXN = int(TxnFlag.OUTSIDE_TXN)
CONTINUE_TXN = int(TxnFlag.CONTINUE_TXN)
ACK_TXN = int(TxnFlag.ACK_TXN)


def producer_id(bits: int) -> ProducerId:
    """A producer of 48 drawn bits. Randomness is handed in: `producer_id(rng.getrandbits(48))`."""
    return ProducerId((bits & PRODUCER_MAX) | _MULTICAST)


def producer_text(producer: ProducerId) -> str:
    """A producer as people see it: the last group of its UUIDs."""
    return f"{producer:012x}"


class Uuid(msgspec.Struct, frozen=True, gc=False):
    """The three parts of a message's UUID.

    >>> Uuid(ProducerId(0x080607050309), Clock(0x1234567812345678), TxnFlag.ACK_TXN).text
    '81234567-4567-1123-a002-080607050309'
    """

    producer: ProducerId
    clock: Clock
    flags: int

    @property
    def text(self) -> str:
        clock = self.clock
        return (
            f"{(clock >> 4) & 0xFFFFFFFF:08x}-{(clock >> 36) & 0xFFFF:04x}-{0x1000 | clock >> 52:04x}-"
            f"{0x8000 | (clock & 0xF) << 10 | self.flags:04x}-{self.producer:012x}"
        )

    @property
    def packed(self) -> bytes:
        return bytes.fromhex(self.text.replace("-", ""))

    @classmethod
    def unpack(cls, packed: Any) -> "Uuid":
        """Return the UUID in 16 bytes; InvalidArgument if it is not of version 1."""
        return _from_int(int.from_bytes(packed, "big"))

    @classmethod
    def parse(cls, text: str | bytes) -> "Uuid":
        """The UUID in 36 characters; InvalidArgument for anything else."""
        plain = text if isinstance(text, bytes) else text.encode(errors="replace")
        # A producer's UUIDs have few heads and one tail for minutes: only the low bits of the time are new each time.
        head, tail = _heads.get(plain[8:18]), _tails.get(plain[18:])
        if head is None or tail is None or not (low := plain[:8]).isalnum():
            return _parse_anew(plain)
        try:
            return Uuid(tail[0], Clock(head | int(low, 16) << 4 | tail[1]), tail[2])
        except ValueError:
            return _parse_anew(plain)


class UuidRun(msgspec.Struct, frozen=True):
    """The UUIDs of messages that are published together: one producer and its flags, clocks a tick apart.

    >>> [uuid.clock for uuid in UuidRun(ProducerId(1), Clock(1000), 3, TxnFlag.OUTSIDE_TXN)]
    [1000, 1160, 1320]
    """

    producer: ProducerId
    first: Clock
    count: int
    flags: int

    def __iter__(self) -> Iterator[Uuid]:
        for clock in self._clocks():
            yield Uuid(self.producer, Clock(clock), self.flags)

    def texts(self) -> tuple[list[bytes], bytes] | None:
        """The first eight digits of each UUID, and the digits that all of them share.

        None if they share none: the low 32 bits of the time have passed their end between them, as every 7 minutes.
        """
        low = self.first >> 4 & _LOW_MAX
        last = low + (self.count - 1) * (TICK >> 4)
        if last > _LOW_MAX or not self.count:
            return None
        lows = array("I", range(low, last + 1, TICK >> 4))
        if byteorder == "little":
            lows.byteswap()
        digits = lows.tobytes().hex("|", 4).encode()
        return digits.split(b"|"), Uuid(self.producer, self.first, self.flags).text[8:].encode()

    def _clocks(self) -> range:
        return range(self.first, self.first + self.count * TICK, TICK)


class UuidsInARow(msgspec.Struct, frozen=True):
    """The UUIDs of frames that follow each other: one producer and its flags, any clocks."""

    producer: ProducerId
    flags: int
    clocks: list[Clock]


_LOW_MAX = 0xFFFFFFFF
_CACHE_MAX = 4096
_heads: dict[bytes, int] = {}  # "-833b-11ee": the high bits of the clock
_tails: dict[bytes, tuple[ProducerId, int, int]] = {}  # "-8001-010000000001": producer, sequence, flags


def _parse_anew(plain: bytes) -> Uuid:
    """Parse all of it, and remember what other UUIDs share with it."""
    digits = plain.replace(b"-", b"")
    try:
        if len(digits) != 32 or plain[8:24:5] != b"----" or len(plain) != TEXT_BYTES or not digits.isalnum():
            raise ValueError
        uuid = _from_int(int(digits, 16))
    except ValueError:
        raise InvalidArgument(f"{plain[:60]!r} is not a UUID") from None
    for cache in (_heads, _tails):
        if len(cache) >= _CACHE_MAX:
            cache.clear()
    _heads[plain[8:18]] = uuid.clock >> 36 << 36
    _tails[plain[18:]] = uuid.producer, uuid.clock & 0xF, uuid.flags
    return uuid


def _from_int(bits: int) -> Uuid:
    if bits >> 76 & 0xF != 1 or bits >> 62 & 0b11 != 0b10:
        raise InvalidArgument(f"UUID {bits:032x} is not of version 1 in the variant of RFC 4122")
    time = (bits >> 64 & 0xFFF) << 48 | (bits >> 80 & 0xFFFF) << 32 | bits >> 96
    clock = Clock(time << 4 | bits >> 58 & 0xF)
    return Uuid(ProducerId(bits & PRODUCER_MAX), clock, bits >> 48 & _FLAGS_MAX)
