"""UUIDs of messages: RFC 4122 version 1, bit for bit as Gazette lays them out. Design: exactly-once.md.

    bytes  0..3     4..5    6..7            8..9                            10..15
           time     time    0x1000 |        0x8000 | sequence << 10 |       producer
           low 32   mid 16  time high 12    flags (10 bits)

The 60 bits of time and the 4 of sequence are the message's clock, the node is its producer.
"""

from enum import IntEnum
from typing import Any, NewType

import msgspec

from penstock.base.errors import InvalidArgument
from penstock.base.ids import Clock

__all__ = [
    "ACK_TXN",
    "CONTINUE_TXN",
    "OUTSIDE_TXN",
    "TEXT_BYTES",
    "UUID_BYTES",
    "Flag",
    "ProducerId",
    "Uuid",
    "producer_id",
    "producer_text",
]

ProducerId = NewType("ProducerId", int)  # 48 bits, drawn anew for each Publisher

UUID_BYTES = 16
TEXT_BYTES = 36
PRODUCER_MAX = (1 << 48) - 1
_MULTICAST = 1 << 40  # set in the first byte of a drawn node id, so that it is nobody's network card
_FLAGS_MAX = 0x3FF


class Flag(IntEnum):
    """What a message says about its transaction. Flags a reader does not know count as OUTSIDE_TXN."""

    OUTSIDE_TXN = 0  # is committed by itself
    CONTINUE_TXN = 1  # is pending until an ACK
    ACK_TXN = 2  # commits what its producer has pending up to its clock, and rolls back the rest


# As plain ints, for the paths which run once per message.
OUTSIDE_TXN = int(Flag.OUTSIDE_TXN)
CONTINUE_TXN = int(Flag.CONTINUE_TXN)
ACK_TXN = int(Flag.ACK_TXN)


def producer_id(bits: int) -> ProducerId:
    """A producer of 48 drawn bits. Randomness is handed in: `producer_id(rng.getrandbits(48))`."""
    return ProducerId((bits & PRODUCER_MAX) | _MULTICAST)


def producer_text(producer: ProducerId) -> str:
    """A producer as people see it: the last group of its UUIDs."""
    return f"{producer:012x}"


class Uuid(msgspec.Struct, frozen=True, gc=False):
    """The three parts of a message's UUID.

    >>> Uuid(ProducerId(0x080607050309), Clock(0x1234567812345678), Flag.ACK_TXN).text
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
        """The UUID in 16 bytes; InvalidArgument for one which is not of version 1."""
        return _from_int(int.from_bytes(packed, "big"))

    @classmethod
    def parse(cls, text: str | bytes) -> "Uuid":
        """The UUID in 36 characters; InvalidArgument for anything else."""
        plain = text if isinstance(text, bytes) else text.encode(errors="replace")
        digits = plain.replace(b"-", b"")
        if len(digits) != 32 or plain[8:24:5] != b"----" or len(plain) != TEXT_BYTES or not digits.isalnum():
            raise InvalidArgument(f"{text[:60]!r} is not a UUID")
        try:
            return _from_int(int(digits, 16))
        except ValueError:
            raise InvalidArgument(f"{text[:60]!r} is not a UUID") from None


def _from_int(bits: int) -> Uuid:
    if bits >> 76 & 0xF != 1 or bits >> 62 & 0b11 != 0b10:
        raise InvalidArgument(f"UUID {bits:032x} is not of version 1 in the variant of RFC 4122")
    time = (bits >> 64 & 0xFFF) << 48 | (bits >> 80 & 0xFFFF) << 32 | bits >> 96
    clock = Clock(time << 4 | bits >> 58 & 0xF)
    return Uuid(ProducerId(bits & PRODUCER_MAX), clock, bits >> 48 & _FLAGS_MAX)
