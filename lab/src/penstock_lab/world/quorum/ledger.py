"""The ledger of the quorum log's world: each transaction that a client sent, the answers to it, and all that was read.

A transaction adds a record to the value of a key, so the values at the end say which transactions took effect, in which
order, and how often.
"""

import msgspec

from penstock.kernel.errors import PenstockError, Written
from penstock.kernel.ids import EntryId
from penstock.quorum.client.quorum import Appended
from penstock.quorum.records.answers import Fate

__all__ = ["QuorumLedger", "SentAppend", "ShownTxn", "ValueRead"]


class SentAppend(msgspec.Struct):
    """A transaction, by its pair, and the last answer to it."""

    number: int
    key: str
    record: bytes
    is_sync: bool
    client: str = ""
    seq: int = 0
    fate: str = "open"  # committed, acknowledged, refused, unknown; open: the client died before the answer
    entry: EntryId | None = None  # of an answer, or of the one copy whose fate is unknown
    result: int | None = None  # of the state machine: the length of the value with this record
    calls: int = 0
    at_ns: int = 0


class ValueRead(msgspec.Struct, frozen=True):
    """A value that a client read."""

    key: str
    value: bytes
    began_ns: int
    ended_ns: int
    is_linearizable: bool = True


class ShownTxn(msgspec.Struct, frozen=True):
    """A transaction that a subscription showed."""

    offset: int
    client: str
    seq: int
    key: str
    record: bytes


class QuorumLedger:
    """Everything that clients did and saw."""

    def __init__(self) -> None:
        self.sent: list[SentAppend] = []
        self.reads: list[ValueRead] = []
        self.subscriptions: list[list[ShownTxn]] = []  # each without a gap that was not told

    def record(self, key: str, size: int, *, is_sync: bool = True) -> SentAppend:
        """Make a transaction that no other one is equal to."""
        number = len(self.sent)
        head = b"<%d|" % number
        sent = SentAppend(number, key, head + b"x" * max(0, size - len(head) - 1) + b">", is_sync)
        self.sent.append(sent)
        return sent

    @staticmethod
    def answered(sent: SentAppend, appended: Appended, now_ns: int) -> None:
        sent.fate = "acknowledged" if appended.fate is Fate.ACKNOWLEDGED else "committed"
        sent.entry, sent.at_ns = appended.entry, now_ns
        sent.result = appended.result

    @staticmethod
    def failed(sent: SentAppend, error: PenstockError, now_ns: int) -> None:
        sent.fate, sent.at_ns = "refused" if error.written is Written.NO else "unknown", now_ns
        details = error.details
        sent.entry = EntryId(details["epoch"], details["offset"]) if "offset" in details else None

    def counts(self) -> dict[str, int]:
        found = {"reads": len(self.reads), "shown": sum(map(len, self.subscriptions))}
        for sent in self.sent:
            found[sent.fate] = found.get(sent.fate, 0) + 1
        return found
