"""The transactions journal: which batch of which sink is committed. Design: spark.md, "Rule for batchId".

One append of a `Record` is the commit point of a batch. It checks and changes a register of the journal:

    sink.<name> = <query>/<batch>/<near>        the sink's last batch; its record is at `near` or later

Spark fences no driver: a replaced one runs its commit to the end. This register does. The record holds the
acknowledgements of all tasks (intents), so every reader of it can finish the batch: the driver itself, its next run
which replays the batch, `finish` and `adopt`. Publishing them twice is harmless. A batch is recorded only when the one
before it of the same sink is published: so what may be unfinished is the last record of each sink, and batch writes
which have no name.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from penstock.journals.client.journal import Journals
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.registers import Origin, Registers
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import (
    AlreadyExists,
    Indeterminate,
    NotFound,
    PreconditionFailed,
    StorageError,
    Unavailable,
)
from penstock.spark.journals.transaction_rule import Decision, Record, Register, decide, digest_of, forgotten, guarded

__all__ = ["Adopted", "Transactions", "append_surely"]

LABEL: Final = "sink."
FINISHED: Final = "finished"  # a register: every record before this offset was finished
TRIES_MAX: Final = 20
_encode = msgspec.json.Encoder().encode


class Adopted(msgspec.Struct, frozen=True):
    """What `adopt` found: the batch which was the sink's last. Any query may continue from here, with any batch."""

    sink: str
    query: str
    batch: int
    rows: int


class Transactions:
    """One transactions journal."""

    def __init__(self, journals: Journals, name: str, timeout_s: float = 60.0, replication: int = 3) -> None:
        self._journals = journals
        self._name = name
        self._timeout_s = timeout_s
        self._replication = replication  # if the journal has to be made

    async def commit(self, wanted: Record) -> Record:
        """Commit a batch; return its record: this one, or an earlier one."""
        for _ in range(TRIES_MAX):
            try:
                sinks, end = await self._sinks()
            except NotFound:
                await self._make()
                continue
            register = sinks.get(wanted.sink)
            is_other = register is not None and register.query != wanted.query and wanted.batch == 0
            ended = (await self.find(wanted.sink, register)).ends if is_other and register is not None else ""
            if decide(register, wanted, ended) is Decision.REPLAY:
                assert register is not None
                return guarded(await self.find(wanted.sink, register), wanted)
            gone = forgotten(sinks, wanted.sink, wanted.query)
            label, value = LABEL + wanted.sink, Register(wanted.query, wanted.batch, end, digest_of(wanted.ends))
            try:
                await self._append(
                    wanted,
                    check=_check(label, register),
                    union={label: str(value)},
                    subtract={LABEL + name: str(each) for name, each in gone.items()},
                )
                return wanted
            except (PreconditionFailed, Indeterminate):
                continue  # another driver was faster, or it may have been done: the register tells which
        raise Unavailable(f"sink {wanted.sink}: {self._name} did not say what became of batch {wanted.batch}")

    async def record(self, wanted: Record) -> None:
        """Commit a batch write which has no name. An unknown outcome stays unknown here: a repetition could not be
        recognised.
        """
        try:
            await self._append(wanted)
        except NotFound:
            await self._make()
            await self._append(wanted)

    async def publish(self, record: Record) -> None:
        """Append the acknowledgements, all of them; until then a batch is committed but not yet seen."""
        appends = [
            append_surely(self._journals, journal, frames, self._timeout_s)
            for journal, frames in record.intents.items()
        ]
        await asyncio.gather(*appends)

    async def finish(self) -> int:
        """Publish what drivers which never came back may have left: how many batches that were. Run it at any time."""
        try:
            registers, end = await self._registers()
        except NotFound:
            return 0  # no driver has ever committed here
        begun = registers.labels.value_of(FINISHED)
        last: dict[str, Record] = {}  # of each sink
        unnamed: list[Record] = []
        async for record in self._records(int(begun or 0), end):
            if record.sink:
                last[record.sink] = record
            else:
                unnamed.append(record)
        found = [each for each in (*last.values(), *unnamed) if each.intents]
        for record in found:
            await self._publish_where_there_is_a_journal(record)
        if found:
            done = Record("", "finish", 0)  # registers change together with content only
            with contextlib.suppress(PreconditionFailed):  # another finisher was as far: it has published the same
                await self._append(done, check=_equals(FINISHED, begun), union={FINISHED: str(end)})
        return len(found)

    async def _publish_where_there_is_a_journal(self, record: Record) -> None:
        for journal, frames in record.intents.items():
            with contextlib.suppress(NotFound):  # it was deleted, with all its rows
                await append_surely(self._journals, journal, frames, self._timeout_s)

    async def adopt(self, sink: str) -> Adopted:
        """Finish a sink's last batch, and let any query continue it."""
        register = (await self.sinks()).get(sink)
        if register is None:
            known = ", ".join(sorted(await self.sinks())) or "none"
            raise NotFound(f"{self._name} has no sink {sink}; there are: {known}"[:2000])
        record = await self.find(sink, register)
        await self._publish_where_there_is_a_journal(record)
        await self._append(
            Record(sink, "adopt", register.batch),
            check=_check(LABEL + sink, register),
            subtract={LABEL + sink: str(register)},
        )
        return Adopted(sink, register.query, register.batch, record.rows)

    async def sinks(self) -> dict[str, Register]:
        """Every sink, and its last batch; none if there is no such journal."""
        try:
            return (await self._sinks())[0]
        except NotFound:
            return {}

    async def last(self, sink: str) -> Record | None:
        """Return the record of a sink's last batch; None before the first."""
        register = (await self.sinks()).get(sink)
        return None if register is None else await self.find(sink, register)

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

    async def _sinks(self) -> tuple[dict[str, Register], int]:
        """Every sink's register, and where the journal ends."""
        registers, end = await self._registers()
        found = {
            label.name[len(LABEL) :]: Register.parse(label.value)
            for label in registers.labels.labels
            if label.name.startswith(LABEL)
        }
        return found, end

    async def _registers(self) -> tuple[Registers, int]:
        """Ask for them, by an append of nothing."""
        done = await self._journals.append(self._name, b"", timeout=self._timeout_s)
        if done.registers.origin is Origin.LOST:
            raise StorageError(
                f"the registers of {self._name} were lost with its replicas: it is unknown which batches are committed",
                next_step="look at its last records (penstock journals read), then name another journal:"
                " option transactions",
            )
        return done.registers, done.end

    async def _make(self) -> None:
        with contextlib.suppress(AlreadyExists, PreconditionFailed):  # another driver has just made it
            await self._journals.create(JournalSpec(name=self._name, replication=self._replication))

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
    """Append messages, again if the outcome is unknown: readers recognise them by their clocks."""
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
    """Return a selector: a register has this value, or does not exist."""
    if value is None:
        return LabelSelector(exclude=LabelSet.of({label: ""}))
    return LabelSelector(include=LabelSet.of({label: value}))
