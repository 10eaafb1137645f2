"""The ledger: the answer to each record of the clients, and the bytes that readers got. The judge compares them.

A record names its journal and its number, so that every byte of a journal has a known origin.
"""

from collections.abc import Callable
from random import Random

import msgspec

from penstock.kernel.errors import PenstockError, Written

__all__ = ["JournalsLedger", "SentRecord", "Shown"]


class SentRecord(msgspec.Struct):
    """A record that a client appended, and the answer to it."""

    number: int
    journal: str
    content: bytes
    fate: str = "open"  # acknowledged, refused, unknown; open: the client died before the answer
    begin: int = -1
    end: int = -1
    at_ns: int = 0


class Shown(msgspec.Struct, frozen=True):
    """Bytes that a reader was shown."""

    journal: str
    offset: int
    content: bytes
    at_ns: int


class JournalsLedger:
    """Everything that clients did and saw."""

    def __init__(self, rng: Random) -> None:
        self.sent: list[SentRecord] = []
        self.shown: list[Shown] = []
        self.published: dict[int, str] = {}  # messages: their fates
        self.on_acknowledged: Callable[[SentRecord], None] = lambda _: None
        self._rng = rng

    def record(self, journal: str, size: int) -> SentRecord:
        """Make a record that no other one is equal to."""
        number = len(self.sent)
        head = b"<%s|%d|" % (journal.encode(), number)
        body = bytes([97 + number % 26]) * max(0, size - len(head) - 2)
        found = SentRecord(number, journal, head + body + b">\n")
        self.sent.append(found)
        return found

    def acknowledged(self, sent: SentRecord, begin: int, end: int, now_ns: int) -> None:
        sent.fate, sent.begin, sent.end, sent.at_ns = "acknowledged", begin, end, now_ns
        self.on_acknowledged(sent)

    @staticmethod
    def failed(sent: SentRecord, error: PenstockError, now_ns: int) -> None:
        """Note an error. A refusal of one copy says nothing about an earlier copy without an answer."""
        is_refused = error.written is Written.NO and sent.fate != "unknown"
        sent.fate, sent.at_ns = "refused" if is_refused else "unknown", now_ns

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for sent in self.sent:
            found[sent.fate] = found.get(sent.fate, 0) + 1
        return found
