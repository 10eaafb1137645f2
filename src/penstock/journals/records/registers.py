"""Registers: the small labels of a journal which an append checks and changes together with its bytes.

Design: transactional-appends.rst, journals.md J10, J12, J13. Three cases of "no such register" must not be confused:

- VIRGIN: no append ever wrote a register. Every check passes, as in Gazette.
- WRITTEN: a check must really match, even when all labels were taken away again.
- LOST: a reset-head could not know them. Every check fails until an append writes registers without any condition,
  else a fenced writer would get in.

`txn.<writer>` is where an append with a transaction id leaves that id and its span, so that a retry is recognised.
"""

import re
from enum import Enum
from typing import Final

import msgspec

from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.names import LABEL_SYMBOLS, check_token
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset

__all__ = ["LOST_REGISTERS", "NO_REGISTERS", "Origin", "RegisterChange", "Registers", "Txn", "TxnRecord"]

WRITER_MAX: Final = 60
TXN_PREFIX: Final = "txn."
_TXN_VALUE = re.compile(r"(\d{1,19})/([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{40})")


class Origin(Enum):
    """The origin of the registers' values."""

    VIRGIN = "virgin"
    WRITTEN = "written"
    LOST = "lost"


VIRGIN, WRITTEN, LOST = Origin


class Txn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A writer's own number for an append: a retry with the same pair is the same append."""

    writer: str
    seq: int

    @property
    def register(self) -> str:
        return TXN_PREFIX + self.writer

    def validate(self) -> None:
        check_token("txn writer", self.writer, LABEL_SYMBOLS, 1, WRITER_MAX)
        if not 0 < self.seq < 1 << 63:
            raise InvalidArgument(f"txn seq {self.seq}: expected 1 to 2^63 - 1")


class TxnRecord(msgspec.Struct, frozen=True, gc=False):
    """What the register `txn.<writer>` says: the writer's last append, and where its bytes are."""

    seq: int
    begin: Offset
    end: Offset
    sum: bytes

    def __str__(self) -> str:
        return f"{self.seq}/{self.begin:016x}-{self.end:016x}-{self.sum.hex()}"

    @classmethod
    def parse(cls, text: str) -> "TxnRecord | None":
        """None for a value which some other append wrote by hand: it identifies nothing."""
        found = _TXN_VALUE.fullmatch(text)
        if found is None:
            return None
        begin, end = Offset(int(found[2], 16)), Offset(int(found[3], 16))
        return cls(int(found[1]), begin, end, bytes.fromhex(found[4]))


class RegisterChange(msgspec.Struct, frozen=True):
    """What an append does to registers, if it commits: subtract first, then union."""

    union: LabelSet = LabelSet()
    subtract: LabelSet = LabelSet()

    @property
    def is_empty(self) -> bool:
        return not self.union.labels and not self.subtract.labels

    def validate(self) -> None:
        self.union.validate()
        self.subtract.validate()


class Registers(msgspec.Struct, frozen=True, array_like=True):
    """The registers at one offset of a journal.

    >>> NO_REGISTERS.matches(LabelSelector.parse("author=me"))
    True
    >>> Registers(LabelSet(), Origin.WRITTEN).matches(LabelSelector.parse("author=me"))
    False
    """

    labels: LabelSet = LabelSet()
    origin: Origin = Origin.VIRGIN

    def matches(self, check: LabelSelector) -> bool:
        if self.origin is VIRGIN or check.is_empty:
            return True
        return self.origin is WRITTEN and check.matches(self.labels)

    def changed(self, change: RegisterChange) -> "Registers":
        """Return the registers after an append. An append without changes leaves virgin and lost ones as they are."""
        if change.is_empty:
            return self
        return Registers(self.labels.subtract(change.subtract).union(change.union), Origin.WRITTEN)

    def txn_record(self, txn: Txn) -> TxnRecord | None:
        value = self.labels.value_of(txn.register)
        return None if value is None else TxnRecord.parse(value)

    def with_txn(self, txn: Txn, begin: Offset, end: Offset, sum_: bytes) -> "Registers":
        label = Label(txn.register, str(TxnRecord(txn.seq, begin, end, sum_)))
        return Registers(self.labels.union(LabelSet((label,))), Origin.WRITTEN)

    def __str__(self) -> str:
        return str(self.labels) or self.origin.value


NO_REGISTERS = Registers()
LOST_REGISTERS = Registers(LabelSet(), Origin.LOST)
