"""The records of the log: transactions, and the three records by which a leader states their outcome.

Design: quorum-log.md, "Records". An entry's id is (epoch, offset); the offset is its place in the log and is not
repeated inside. At offset j, ROLLBACK(f) dooms every TXN in [f, j); other kinds in that range stay valid.
"""

from collections.abc import Sequence
from typing import NewType

import msgspec

from penstock.kernel.ids import Epoch, Offset

__all__ = ["OVERHEAD_BYTES", "Barrier", "ClientId", "Confirm", "Entry", "Rollback", "Txn", "size_of", "sizes_of"]

ClientId = NewType("ClientId", str)  # a client's session: together with a sequence number it names a transaction


class Txn(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A transaction of a client. Each (client, seq) takes effect at most once."""

    epoch: Epoch
    client: ClientId
    seq: int
    ops: bytes  # opaque: the state machine's business
    is_sync: bool = True


class Barrier(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """The first entry of every epoch. When it commits, everything before it in this log commits."""

    epoch: Epoch


class Confirm(msgspec.Struct, frozen=True, array_like=True, tag=3, gc=False):
    """A fact: everything up to `upto` was committed when this was appended. Followers apply by it.

    It also carries the leader's running checksum at an offset it had applied: a replica which computed another one
    there has diverged, and says so.
    """

    epoch: Epoch
    upto: Offset
    checked: Offset = Offset(0)
    checksum: int = 0


class Rollback(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """A decision, once it commits: the transactions from `first` up to here never happened."""

    epoch: Epoch
    first: Offset


Entry = Txn | Barrier | Confirm | Rollback

OVERHEAD_BYTES = 64  # the cost of an entry besides its ops, roughly, in memory and on the wire


def size_of(entry: Entry) -> int:
    """Return the entry's size for every limit given in bytes."""
    return OVERHEAD_BYTES + len(entry.ops) if isinstance(entry, Txn) else OVERHEAD_BYTES


def sizes_of(entries: Sequence[Entry]) -> int:
    """The same for many."""
    return OVERHEAD_BYTES * len(entries) + sum([len(entry.ops) for entry in entries if isinstance(entry, Txn)])
