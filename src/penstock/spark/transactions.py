"""The transactions journal: which batch of which sink is committed. Design: spark.md, "Rule for batchId".

One append of a `Record` is the commit point of a batch. It checks and changes a register of the journal:

    sink.<name> = <query>/<batch>/<near>        the sink's last batch; its record is at the offset `near` or behind it

Spark fences nobody: a driver which was replaced runs its commit to the end. This register does. The record holds the
acknowledgements of all tasks (intents), so whoever reads it can finish the batch: the driver itself, its next run which
replays the batch, `finish` and `adopt`. Publishing them twice is harmless.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from enum import Enum
from typing import Final

import msgspec

from penstock.base.errors import (
    AlreadyExists,
    Fenced,
    Indeterminate,
    NotFound,
    PreconditionFailed,
    StorageError,
    Unavailable,
)
from penstock.client.journal import Journals
from penstock.journal.labels import LabelSelector, LabelSet
from penstock.journal.registers import Registers
from penstock.journal.spec import JournalSpec

__all__ = ["Adopted", "Decision", "Record", "Register", "Transactions", "decide"]

LABEL: Final = "sink."
FINISHED: Final = "finished"  # a register: every record before this offset was finished
TRIES_MAX: Final = 20
_encode = msgspec.json.Encoder().encode
Intents = dict[str, bytes]  # journal -> frames which acknowledge what tasks have pending there


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A committed batch: one line of the journal."""

    sink: str  # empty: a batch write without a name, which nobody can repeat
    query: str
    batch: int
    intents: Intents = {}
    run: str = ""  # of the query, for people who look for what happened
    guard: str = ""  # SHA-256 of the batch's plan, where it is known
    rows: int = 0

    def is_of(self, other: "Record") -> bool:
        return (self.sink, self.query, self.batch) == (other.sink, other.query, other.batch)


class Register(msgspec.Struct, frozen=True):
    """A sink's last batch.

    >>> str(Register("query", 7, 4096)), Register.parse("query/7/4096").batch
    ('query/7/4096', 7)
    """

    query: str
    batch: int
    near: int

    def __str__(self) -> str:
        return f"{self.query}/{self.batch}/{self.near}"

    @classmethod
    def parse(cls, text: str) -> "Register":
        query, batch, near = text.rsplit("/", 2)
        return cls(query, int(batch), int(near))


class Decision(Enum):
    """What to do about a batch."""

    COMMIT = "commit"
    REPLAY = "replay"  # it is committed: publish what was recorded, whatever tasks wrote now


class Adopted(msgspec.Struct, frozen=True):
    """What `adopt` found: the batch which was the sink's last. Any query may go on from here, with any batch."""

    sink: str
    query: str
    batch: int
    rows: int


def decide(register: Register | None, sink: str, query: str, batch: int) -> Decision:
    """The rule. A conflict is an error, because nothing the caller could do next would be right."""
    if register is None or (register.query, register.batch) == (query, batch - 1):
        return Decision.COMMIT
    if register.query != query:
        raise PreconditionFailed(
            f"sink {sink} belongs to query {register.query}, and this is {query}: its checkpoint was reset, or two"
            " queries share the sink",
            next_step=f"give this query another sink; if it replaces the other one: penstock pipeline adopt {sink}",
        )
    if register.batch == batch:
        return Decision.REPLAY
    raise Fenced(
        f"batch {batch} of sink {sink}, whose last is {register.batch}: a stale driver, or a checkpoint which was"
        " rewound",
        next_step="if no other driver runs: start from the checkpoint as it was, or with a new sink",
    )


class Transactions:
    """One transactions journal."""

    def __init__(self, journals: Journals, name: str, timeout_s: float = 60.0, replication: int = 3) -> None:
        self._journals = journals
        self._name = name
        self._timeout_s = timeout_s
        self._replication = replication  # if the journal has to be made

    async def commit(self, wanted: Record) -> Record:
        """Commit a batch; return what is recorded of it: this, or what was recorded before."""
        for _ in range(TRIES_MAX):
            register, end = await self.register(wanted.sink)
            if decide(register, wanted.sink, wanted.query, wanted.batch) is Decision.REPLAY:
                assert register is not None
                return _guarded(await self.find(wanted.sink, register), wanted)
            label, value = LABEL + wanted.sink, Register(wanted.query, wanted.batch, end)
            try:
                await self._append(wanted, check=_check(label, register), union={label: str(value)})
                return wanted
            except (PreconditionFailed, Indeterminate):
                continue  # somebody was faster, or it may have been done: the register tells which
        raise Unavailable(f"sink {wanted.sink}: {self._name} did not say what became of batch {wanted.batch}")

    async def record(self, wanted: Record) -> None:
        """Commit a batch write which has no name. Unknown is unknown here: nobody could tell a repetition."""
        await self.register("")
        await self._append(wanted)

    async def publish(self, record: Record) -> None:
        """Append the acknowledgements, all of them; until then a batch is committed but not yet seen."""
        async with asyncio.TaskGroup() as group:
            for journal, frames in record.intents.items():
                group.create_task(append_surely(self._journals, journal, frames, self._timeout_s))

    async def finish(self) -> int:
        """Publish again what is recorded since the last `finish`: for drivers which never came back."""
        registers, end = await self._registers()
        begun = registers.labels.value_of(FINISHED)
        count = 0
        async for record in self._records(int(begun or 0), end):
            if record.intents:
                await self.publish(record)
                count += 1
        if count:
            done = Record("", "finish", 0)  # registers change together with content only
            await self._append(done, check=_equals(FINISHED, begun), union={FINISHED: str(end)})
        return count

    async def adopt(self, sink: str) -> Adopted:
        """Finish a sink's last batch, and let any query go on with it."""
        register, _ = await self.register(sink)
        if register is None:
            raise NotFound(f"{self._name} has no sink {sink}", next_step="penstock pipeline status")
        record = await self.find(sink, register)
        await self.publish(record)
        await self._append(
            Record(sink, "adopt", register.batch),
            check=_check(LABEL + sink, register),
            subtract={LABEL + sink: str(register)},
        )
        return Adopted(sink, register.query, register.batch, record.rows)

    async def sinks(self) -> dict[str, Register]:
        """Every sink, and its last batch."""
        registers, _ = await self._registers()
        return {
            label.name[len(LABEL) :]: Register.parse(label.value)
            for label in registers.labels.labels
            if label.name.startswith(LABEL)
        }

    async def register(self, sink: str) -> tuple[Register | None, int]:
        """A sink's register, and where the journal ends."""
        registers, end = await self._registers()
        value = registers.labels.value_of(LABEL + sink) if sink else None
        return (None if value is None else Register.parse(value)), end

    async def find(self, sink: str, register: Register) -> Record:
        """The record of which a register tells."""
        wanted = Record(sink, register.query, register.batch)
        _, end = await self._registers()
        async for record in self._records(register.near, end):
            if record.is_of(wanted):
                return record
        raise StorageError(f"{self._name} has lost the record of batch {register.batch} of sink {sink}")

    async def _records(self, begin: int, end: int) -> AsyncIterator[Record]:
        rest = b""
        if begin >= end:
            return
        async with asyncio.timeout(self._timeout_s):
            async for chunk in self._journals.read(self._name, begin, end=end, follow=True):
                *lines, rest = (rest + bytes(chunk.content)).split(b"\n")
                for line in lines:
                    yield msgspec.json.decode(line, type=Record)

    async def _registers(self) -> tuple[Registers, int]:
        """Ask for them, by an append of nothing; make the journal if there is none."""
        try:
            done = await self._journals.append(self._name, b"", timeout=self._timeout_s)
        except NotFound:
            with contextlib.suppress(AlreadyExists, PreconditionFailed):  # somebody else has just made it
                await self._journals.create(JournalSpec(name=self._name, replication=self._replication))
            done = await self._journals.append(self._name, b"", timeout=self._timeout_s)
        return done.registers, done.end

    async def _append(
        self,
        record: Record,
        *,
        check: LabelSelector | str = "",
        union: dict[str, str] | None = None,
        subtract: dict[str, str] | None = None,
    ) -> None:
        await self._journals.append(
            self._name,
            _encode(record) + b"\n",
            check=check,
            union=union or {},
            subtract=subtract or {},
            timeout=self._timeout_s,
        )


async def append_surely(journals: Journals, journal: str, frames: bytes, timeout_s: float) -> None:
    """Append messages, again if it is unknown whether they are there: readers know them by their clocks."""
    for _ in range(TRIES_MAX):
        try:
            await journals.append(journal, frames, timeout=timeout_s)
            return
        except Indeterminate:
            continue
    raise Unavailable(f"{journal} did not say whether messages were appended")


def _check(label: str, register: Register | None) -> LabelSelector:
    return _equals(label, None if register is None else str(register))


def _equals(label: str, value: str | None) -> LabelSelector:
    """A register has this value, or is not there."""
    if value is None:
        return LabelSelector(exclude=LabelSet.of({label: ""}))
    return LabelSelector(include=LabelSet.of({label: value}))


def _guarded(recorded: Record, wanted: Record) -> Record:
    if recorded.guard and wanted.guard and recorded.guard != wanted.guard:
        raise PreconditionFailed(
            f"batch {wanted.batch} of sink {wanted.sink} is committed, but was planned anew with other offsets:"
            " somebody removed files of its checkpoint",
            next_step="put the checkpoint back as it was, or begin a new one with a new sink",
        )
    return recorded
