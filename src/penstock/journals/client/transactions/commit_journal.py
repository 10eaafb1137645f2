"""The journal of transactions: its records say which transactions are committed. Design: spark.md, decision 601.

Messages of a transaction are pending in their journals, under a producer of their own. One append of a `Record` is the
commit point. The record holds the acknowledgements of everything pending (intents), so every reader of it can finish
the transaction: the process that commits, and every later one (`finish`). Publishing intents twice is harmless.

What always holds: a transaction without a record is never seen; one with a record is seen as a whole, at the latest
when the next process finishes it. `sink` and `query` name the batches of Spark's journal sink, which has registers of
its own in this journal (`penstock.spark`); other transactions have neither.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from penstock.journals.client.append_service import AppendService
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

__all__ = ["TRANSACTIONS", "CommitJournal", "Intents", "Record", "append_surely", "equals"]

TRANSACTIONS: Final = "spark/transactions"  # the name that Spark's sinks gave it
FINISHED: Final = "finished"  # a register: every record before this offset was finished
TRIES_MAX: Final = 20
Intents = dict[str, bytes]  # journal -> frames which acknowledge its pending messages
_encode = msgspec.json.Encoder().encode


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A committed transaction: one line of the journal."""

    sink: str  # empty: a transaction without a name, which cannot be repeated
    query: str
    batch: int
    intents: Intents = {}
    run: str = ""  # of the query, for people who look for what happened
    guard: str = ""  # SHA-256 of the batch's plan, where it is known
    rows: int = 0
    begins: str = ""  # positions in the sources after which it reads, where they are known (`shared/offsets.py`)
    ends: str = ""  # positions at its end

    def is_of(self, other: "Record") -> bool:
        return (self.sink, self.query, self.batch) == (other.sink, other.query, other.batch)


class CommitJournal:
    """One journal of transactions."""

    def __init__(
        self, journals: Journals, name: str, timeout_s: float = 60.0, replication: int = 3, *, fsync: bool = False
    ) -> None:
        self._journals = journals
        self._name = name
        self._timeout_s = timeout_s
        self._spec = JournalSpec(name=name, replication=replication, fsync=fsync)  # if the journal has to be made

    async def record(self, wanted: Record, service: AppendService | None = None) -> None:
        """Commit a transaction that has no name.

        Through an append service the record is written once, however often it is sent; else an unknown outcome stays
        unknown, because a repetition could not be recognised.
        """
        try:
            await self._record(wanted, service)
        except NotFound:
            await self._make()
            await self._record(wanted, service)

    async def _record(self, wanted: Record, service: AppendService | None) -> None:
        if service is None:
            await self._append(wanted)
        else:
            await service.append(self._name, _encode(wanted) + b"\n")

    async def publish(self, record: Record) -> None:
        """Append the acknowledgements, all of them; until then a transaction is committed but not yet seen."""
        appends = [
            append_surely(self._journals, journal, frames, self._timeout_s)
            for journal, frames in record.intents.items()
        ]
        await asyncio.gather(*appends)

    async def finish(self) -> int:
        """Publish the acknowledgements that dead processes may have left; return the number of such transactions.

        Run it at any time.
        """
        try:
            registers, end = await self._registers()
        except NotFound:
            return 0  # no transaction has ever committed here
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
                await self._append(done, check=equals(FINISHED, begun), union={FINISHED: str(end)})
        return len(found)

    async def _publish_where_there_is_a_journal(self, record: Record) -> None:
        for journal, frames in record.intents.items():
            with contextlib.suppress(NotFound):  # it was deleted, with all its rows
                await append_surely(self._journals, journal, frames, self._timeout_s)

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
        """Ask for the registers and the end, by an append of nothing."""
        done = await self._journals.append(self._name, b"", timeout=self._timeout_s)
        if done.registers.origin is Origin.LOST:
            raise StorageError(
                f"the registers of {self._name} were lost with its replicas: it is unknown which batches are committed",
                next_step="look at its last records (penstock journals read), then name another journal:"
                " option transactions",
            )
        return done.registers, done.end

    async def _make(self) -> None:
        with contextlib.suppress(AlreadyExists, PreconditionFailed):  # another process has just made it
            await self._journals.create(self._spec)

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


def equals(label: str, value: str | None) -> LabelSelector:
    """Return a selector: a register has this value, or does not exist."""
    if value is None:
        return LabelSelector(exclude=LabelSet.of({label: ""}))
    return LabelSelector(include=LabelSet.of({label: value}))
