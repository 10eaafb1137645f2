"""The transactions journal: which batch of which sink is committed. Design: spark.md, "Rule for batchId".

One append of a `Record` is the commit point of a batch. It checks and changes a register of the journal:

    sink.<name> = <query>/<batch>/<near>        the sink's last batch; its record is at `near` or later

Spark fences no driver: a replaced one runs its commit to the end. This register does. The record holds the
acknowledgements of all tasks (intents), so every reader of it can finish the batch: the driver itself, its next run
which replays the batch, `finish` and `adopt`. Publishing them twice is harmless. A batch is recorded only when the one
before it of the same sink is published: so what may be unfinished is the last record of each sink, and batch writes
which have no name.
"""

from typing import Final

import msgspec

from penstock.journals.client.transactions.commit_journal import TRIES_MAX, CommitJournal, append_surely, equals
from penstock.journals.records.labels import LabelSelector
from penstock.kernel.errors import Indeterminate, NotFound, PreconditionFailed, StorageError, Unavailable
from penstock.spark.journals.transaction_rule import (
    Decision,
    Record,
    TransactionRegister,
    decide,
    digest_of,
    forgotten,
    guarded,
)

__all__ = ["Adopted", "Transactions", "append_surely"]

LABEL: Final = "sink."


class Adopted(msgspec.Struct, frozen=True):
    """What `adopt` found: the batch which was the sink's last. Any query may continue from here, with any batch."""

    sink: str
    query: str
    batch: int
    rows: int


class Transactions(CommitJournal):
    """One transactions journal, with the registers of sinks."""

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
            label, value = (
                LABEL + wanted.sink,
                TransactionRegister(wanted.query, wanted.batch, end, digest_of(wanted.ends)),
            )
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

    async def sinks(self) -> dict[str, TransactionRegister]:
        """Every sink, and its last batch; none if there is no such journal."""
        try:
            return (await self._sinks())[0]
        except NotFound:
            return {}

    async def last(self, sink: str) -> Record | None:
        """Return the record of a sink's last batch; None before the first."""
        register = (await self.sinks()).get(sink)
        return None if register is None else await self.find(sink, register)

    async def find(self, sink: str, register: TransactionRegister) -> Record:
        """The record of which a register tells."""
        wanted = Record(sink, register.query, register.batch)
        _, end = await self._registers()
        async for record in self._records(register.near, end):
            if record.is_of(wanted):
                return record
        raise StorageError(f"{self._name} has lost the record of batch {register.batch} of sink {sink}")

    async def _sinks(self) -> tuple[dict[str, TransactionRegister], int]:
        """Every sink's register, and where the journal ends."""
        registers, end = await self._registers()
        found = {
            label.name[len(LABEL) :]: TransactionRegister.parse(label.value)
            for label in registers.labels.labels
            if label.name.startswith(LABEL)
        }
        return found, end


def _check(label: str, register: TransactionRegister | None) -> LabelSelector:
    return equals(label, None if register is None else str(register))
