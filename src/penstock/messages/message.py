"""A message in a journal: its producer, its time, its flags, and its bytes.

The one-by-one path makes one of these per frame; the vectorised path (`columns.py`) has the same fields as columns.
"""

import msgspec

from penstock.kernel.ids import Clock, Offset
from penstock.messages.uuid import ACK_TXN, ProducerId, Uuid, producer_text

__all__ = ["NO_PRODUCER", "Message", "MessageRun", "Replay"]

NO_PRODUCER = ProducerId(0)


class Message(msgspec.Struct, frozen=True, gc=False):
    """One frame of a journal, at [begin, end). Without a UUID its clock is 0: it is delivered, perhaps repeatedly."""

    begin: Offset
    end: Offset
    producer: ProducerId
    clock: Clock
    flags: int
    frame: bytes

    @property
    def is_ack(self) -> bool:
        """Does it only commit others?"""
        return self.flags == ACK_TXN and self.clock != 0

    @property
    def uuid(self) -> Uuid:
        return Uuid(self.producer, self.clock, self.flags)

    def __str__(self) -> str:
        return f"{producer_text(self.producer)}@{self.clock:#x} [{self.begin}, {self.end})"


class MessageRun(msgspec.Struct, frozen=True):
    """Messages of one producer that follow each other, with the same flags and rising clocks."""

    messages: list[Message]


class Replay(msgspec.Struct, frozen=True):
    """A range of the journal which its reader must see again: messages pending there were just committed."""

    begin: Offset
    end: Offset
