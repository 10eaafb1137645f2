"""Registers: the small labels of a journal which an append checks and changes together with its bytes.

Design: transactional-appends.rst, journals.md J10, J12, J13. Three cases of "no such register" must not be confused:

- VIRGIN: no append ever wrote a register. Every check passes, as in Gazette.
- WRITTEN: a check must really match, even when all labels were taken away again.
- LOST: a reset-head could not know them. Every check fails until an append writes registers without any condition,
  else a fenced writer would get in.

`txn.<writer>` is where an append with a transaction leaves its number, so that a repeat is recognised. A journal keeps
the newest of these registers, and no more than fit (integrity.md D12). The primary drops the others with its next
append. One register, the *floor*, holds the highest number that was dropped. A writer without a register must come with
a number above it. So a late repeat ends in `WriterExpired`, and never takes effect a second time. Numbers below
`TIMES_FROM` are counters, the others are times, in microseconds since 1970: each kind has a floor.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from enum import Enum
from typing import Final

import msgspec

from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.names import LABEL_SYMBOLS, check_token
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import SECOND, Instant, Offset

__all__ = [
    "IDLE_NS",
    "LOOK_NS",
    "LOST",
    "LOST_REGISTERS",
    "NO_FLOOR",
    "NO_REGISTERS",
    "REGISTERS_BYTES_MAX",
    "TIMES_FROM",
    "TXN_PREFIX",
    "WRITERS_BYTES_MAX",
    "WRITERS_MAX",
    "Floor",
    "Origin",
    "RegisterChange",
    "Registers",
    "Txn",
    "TxnRecord",
    "Writers",
    "floor_of",
    "has_room",
    "may_be_repeat",
    "registers_bytes",
    "trimmed",
    "whole_bytes",
    "with_floor",
    "without_others",
    "writers_of",
]

WRITER_MAX: Final = 60
TXN_PREFIX: Final = "txn."
WRITERS_MAX: Final = 512
WRITERS_BYTES_MAX: Final = 64 << 10  # of their registers
REGISTERS_BYTES_MAX: Final = 192 << 10  # of all others
TIMES_FROM: Final = 1 << 40
_SLACK_WRITERS: Final = WRITERS_MAX // 8  # room is made for more than one, so that not each append drops a writer
_SLACK_BYTES: Final = WRITERS_BYTES_MAX // 8
FLOOR: Final = TXN_PREFIX  # the register of a writer without a name: there is none
_AFTER: Final = TXN_PREFIX[:-1] + chr(ord(TXN_PREFIX[-1]) + 1)  # sorts after each of them
_RECORD_BYTES: Final = 94  # of a record with the longest number: so a register does not grow with it
_LABEL_BYTES: Final = 8  # overhead of a label
IDLE_NS: Final = 24 * 3_600 * SECOND
LOOK_NS: Final = 3_600 * SECOND
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
        """Return the registers after an append with a transaction. Lost ones stay lost."""
        labels, before = self.labels, self.txn_record(txn)
        if before is not None and before.seq < TIMES_FROM <= txn.seq:
            labels = with_floor(self, floor_of(self).raised(before.seq)).labels  # its counters are forgotten
        labels = labels.with_value(txn.register, str(TxnRecord(txn.seq, begin, end, sum_)))
        return Registers(labels, LOST if self.origin is LOST else WRITTEN)

    def __str__(self) -> str:
        return str(self.labels) or self.origin.value


NO_REGISTERS = Registers()
LOST_REGISTERS = Registers(LabelSet(), Origin.LOST)


class Floor(msgspec.Struct, frozen=True, gc=False):
    """The highest numbers of writers that the journal has forgotten.

    >>> Floor(counter=7, time=1_763_000_000_000_000).covers(8)
    False
    """

    counter: int = 0
    time: int = 0

    def covers(self, seq: int) -> bool:
        """Return whether a forgotten writer may have used this number."""
        return seq <= self.above(seq)

    def above(self, seq: int) -> int:
        """Return the highest forgotten number of this number's kind."""
        return self.time if seq >= TIMES_FROM else self.counter

    def raised(self, seq: int) -> "Floor":
        """Return the floor after a writer with this number was forgotten."""
        if seq >= TIMES_FROM:
            return Floor(self.counter, max(self.time, seq))
        return Floor(max(self.counter, seq), self.time)

    def __str__(self) -> str:
        return f"{self.counter}/{self.time}"

    @classmethod
    def parse(cls, text: str) -> "Floor":
        """Read a floor's text. A text that no floor has says nothing."""
        counter, _, time = text.partition("/")
        is_floor = counter.isdecimal() and time.isdecimal() and len(text) <= 40
        return cls(int(counter), int(time)) if is_floor else NO_FLOOR


NO_FLOOR: Final = Floor()


def floor_of(registers: Registers) -> Floor:
    """Return what the journal knows of writers that it has forgotten."""
    text = registers.labels.value_of(FLOOR)
    return NO_FLOOR if text is None else Floor.parse(text)


def with_floor(registers: Registers, floor: Floor) -> Registers:
    """Return these registers with that floor."""
    return Registers(registers.labels.with_value(FLOOR, str(floor)), registers.origin)


def writers_of(labels: LabelSet) -> tuple[Label, ...]:
    """Return the registers of writers."""
    first, end = _span(labels)
    return labels.labels[first:end]


def _transactions(labels: LabelSet) -> tuple[int, int]:
    return bisect_left(labels.labels, Label(TXN_PREFIX)), bisect_left(labels.labels, Label(_AFTER))


def _span(labels: LabelSet) -> tuple[int, int]:
    first, end = _transactions(labels)
    while first < end and labels.labels[first].name == FLOOR:
        first += 1
    return first, end


def without_others(registers: Registers, own: str = "") -> Registers:
    """Return what an answer quotes: no other writer's register concerns the one that asks."""
    labels = registers.labels.labels
    first, end = _transactions(registers.labels)
    if first == end:
        return registers
    mine = tuple(label for label in labels[first:end] if label.name == own) if own else ()
    return Registers(LabelSet((*labels[:first], *mine, *labels[end:])), registers.origin)


def registers_bytes(registers: Registers) -> int:
    """Return the bytes that registers take which are no writers', where they are stored and sent."""
    labels = without_others(registers).labels.labels
    return sum(len(each.name.encode()) + len(each.value.encode()) + _LABEL_BYTES for each in labels)


def whole_bytes(registers: Registers) -> int:
    """Return about how many bytes registers take, writers included."""
    return sum(len(label.name) + len(label.value) + _LABEL_BYTES for label in registers.labels.labels)


def may_be_repeat(registers: Registers, txn: Txn) -> bool:
    """Return whether an append may have been made before, although its writer has no register."""
    floor = floor_of(registers)
    if registers.origin is LOST and (txn.seq < TIMES_FROM or not floor.time):
        return True  # the counters that were used before a reset-head are unknown
    return floor.covers(txn.seq)


def has_room(registers: Registers, change: RegisterChange) -> bool:
    """Return whether registers of users stay within the bound, or at least do not grow."""
    before, after = registers_bytes(registers), registers_bytes(registers.changed(change))
    return after <= max(before, REGISTERS_BYTES_MAX)


def trimmed(registers: Registers, own: str = "", is_idle: Callable[[str], bool] = lambda _: False) -> Registers:
    """Return registers with the writers that fit: without idle ones, and without those that wrote longest ago.

    The register `own` stays.
    """
    writers = writers_of(registers.labels)
    others = [label for label in writers if label.name != own]
    gone = [label for label in others if is_idle(label.name)]
    excess = sum(map(_cost, writers)) - sum(map(_cost, gone)) - WRITERS_BYTES_MAX
    surplus = len(writers) - len(gone) - WRITERS_MAX
    if excess > 0 or surplus > 0:
        excess, surplus = excess + _SLACK_BYTES, surplus + _SLACK_WRITERS
        names = {label.name for label in gone}
        for label in sorted((each for each in others if each.name not in names), key=_written_at):
            if excess <= 0 and surplus <= 0:
                break
            gone.append(label)
            excess, surplus = excess - _cost(label), surplus - 1
    return _forget(registers, gone)


def _cost(writer: Label) -> int:
    return len(writer.name) + _RECORD_BYTES + _LABEL_BYTES


def _written_at(label: Label) -> int:
    record = TxnRecord.parse(label.value)
    return -1 if record is None else record.end


def _forget(registers: Registers, writers: list[Label]) -> Registers:
    if not writers:
        return registers
    floor, names = floor_of(registers), set()
    for label in writers:
        names.add(label.name)
        record = TxnRecord.parse(label.value)
        floor = floor if record is None else floor.raised(record.seq)
    labels = LabelSet(tuple(label for label in registers.labels.labels if label.name not in names))
    return with_floor(Registers(labels, registers.origin), floor)


class Writers:
    """What one primary knows of a journal's writers: since when each register is the same.

    Registers have no time, so the primary looks at them each hour. Another primary looks for the first time: it
    keeps writers for longer, never for less.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[str, Instant]] = {}  # register → its value, and since when
        self._looked_at: Instant | None = None

    def kept(self, registers: Registers, own: str, now: Instant, *, has_grown: bool) -> Registers:
        """Return the registers that the next append leaves, `own` among them."""
        is_due = self._looked_at is None or now - self._looked_at >= LOOK_NS
        if is_due:
            self._looked_at = now
            self._seen = {each.name: self._since(each, now) for each in writers_of(registers.labels)}
        return trimmed(registers, own, lambda name: self._is_idle(name, now)) if is_due or has_grown else registers

    def _since(self, register: Label, now: Instant) -> tuple[str, Instant]:
        seen = self._seen.get(register.name)
        return seen if seen is not None and seen[0] == register.value else (register.value, now)

    def _is_idle(self, name: str, now: Instant) -> bool:
        seen = self._seen.get(name)
        return seen is not None and now - seen[1] >= IDLE_NS
