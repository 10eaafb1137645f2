"""Which batch of a sink of journals may commit, and which sinks are remembered. Design: spark.md, "Rule for batchId".

The register of a sink tells its last batch. Registers of one journal are few (a thousand labels): sinks with a name of
the user's stay until they are adopted; batch writes with a `txn`, and queries which named no sink, are remembered while
they are among the newest of their kind.
"""

import hashlib
from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from penstock.journals.client.transactions.commit_journal import Intents, Record
from penstock.kernel.errors import Fenced, LimitExceeded, PreconditionFailed
from penstock.lake.core.staging.proposing.sink_rule import follows

__all__ = ["TXN", "Decision", "Intents", "Record", "TransactionRegister", "decide", "digest_of", "forgotten", "guarded"]

TXN: Final = "txn"  # the query of a batch write with a name
NAMED_MAX: Final = 250
KEPT: Final = {"txn": 400, "query": 300}  # together with the named ones, fewer than a journal's registers


class TransactionRegister(msgspec.Struct, frozen=True):
    """A sink's last batch, with a digest of the positions where it ended, if they are known.

    >>> str(TransactionRegister("query", 7, 4096)), TransactionRegister.parse("query/7/4096").batch
    ('query/7/4096', 7)
    >>> str(TransactionRegister("query", 7, 4096, "h5a1b")), TransactionRegister.parse("query/7/4096/h5a1b").digest
    ('query/7/4096/h5a1b', 'h5a1b')
    """

    query: str
    batch: int
    near: int
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.query}/{self.batch}/{self.near}" + (f"/{self.digest}" if self.digest else "")

    @classmethod
    def parse(cls, text: str) -> "TransactionRegister":
        rest, _, last = text.rpartition("/")
        digest = "" if last.isdecimal() else last
        query, batch, near = (rest if digest else text).rsplit("/", 2)
        return cls(query, int(batch), int(near), digest)

    def kind(self, sink: str) -> str:
        """Return the origin of the sink's name: a `txn`, its query, or (empty) the user."""
        return TXN if self.query == TXN else "query" if self.query == sink else ""


class Decision(Enum):
    """What to do about a batch."""

    COMMIT = "commit"
    REPLAY = "replay"  # it is committed: publish the recorded messages, whatever tasks wrote now


def digest_of(positions: str) -> str:
    """Return what a register keeps of positions."""
    return "h" + hashlib.sha256(positions.encode()).hexdigest()[:16] if positions else ""


def decide(register: TransactionRegister | None, wanted: Record, ended: str = "") -> Decision:
    """The rule. A conflict is an error, because nothing the caller could do next would be right.

    `ended` is where the last batch ended. It is needed for the first batch of another query alone.
    """
    sink, query, batch = wanted.sink, wanted.query, wanted.batch
    if register is None:
        return Decision.COMMIT
    if (register.query, register.batch) == (query, batch - 1):
        if register.digest and wanted.begins and register.digest != digest_of(wanted.begins):
            raise Fenced(
                f"batch {batch} of sink {sink} does not begin where batch {register.batch} ended: its checkpoint was"
                " changed, or another query wrote in between",
                next_step=f"run penstock pipeline adopt {sink}, if this query is the right one",
            )
        return Decision.COMMIT
    if register.query != query and batch == 0 and ended and wanted.begins and follows(ended, wanted.begins):
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


def guarded(recorded: Record, wanted: Record) -> Record:
    """Return the recorded batch, if it has the plan of the wanted one."""
    if recorded.guard and wanted.guard and recorded.guard != wanted.guard:
        raise PreconditionFailed(
            f"batch {wanted.batch} of sink {wanted.sink} is committed, but was planned again with other offsets:"
            " files of its checkpoint were removed",
            next_step="put the checkpoint back as it was, or begin a new one with a new sink",
        )
    return recorded


def forgotten(registers: Mapping[str, TransactionRegister], sink: str, query: str) -> dict[str, TransactionRegister]:
    """Whom to forget so that there is room for a sink's next batch: the oldest of its kind, if they are too many."""
    if sink in registers:
        return {}
    kind = TransactionRegister(query, 0, 0).kind(sink)
    alike = sorted((each.near, name) for name, each in registers.items() if each.kind(name) == kind)
    if kind:
        return {name: registers[name] for _, name in alike[: max(0, len(alike) + 1 - KEPT[kind])]}
    if len(alike) >= NAMED_MAX:
        raise LimitExceeded(
            f"this journal of transactions has {NAMED_MAX} sinks with names of their own already",
            next_step="run penstock pipeline adopt SINK, for sinks that are no longer used; or another journal:"
            " option transactions",
        )
    return {}
