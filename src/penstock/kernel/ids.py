"""Ids as types, so that a wrong one does not type-check.

An id is either a `NewType` over int or str (free at run time) or a frozen record where two numbers only mean something
together. Each protocol numbers from 1; 0 is "before the first", so that arithmetic needs no special case.
"""

from typing import NewType

import msgspec

__all__ = ["Clock", "EntryId", "Epoch", "Incarnation", "Instant", "Lsn", "NodeId", "Offset", "RequestId", "Revision"]

Offset = NewType("Offset", int)  # a byte position in a journal, or an entry's position in a quorum log
Lsn = NewType("Lsn", int)  # a record's number in one machine's own WAL, from 1, without holes
Epoch = NewType("Epoch", int)  # the right to lead: only ever rises
Revision = NewType("Revision", int)  # a version of the KeySpace
Clock = NewType("Clock", int)  # a message clock: 100 ns ticks in the upper bits, a sequence in the lower ones
Instant = NewType("Instant", int)  # nanoseconds of a monotonic clock; only differences mean something

NodeId = NewType("NodeId", str)
Incarnation = NewType("Incarnation", str)  # made when a data folder is formatted: a wiped node is another one
RequestId = NewType("RequestId", int)  # names a waiting request inside one process; never leaves it

MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000


class EntryId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """An entry of a quorum log: by which epoch it was written, and where.

    Ids compare by epoch first: an entry of a higher epoch is higher at any offset.

    >>> EntryId(Epoch(2), Offset(1)) > EntryId(Epoch(1), Offset(9))
    True
    """

    epoch: Epoch
    offset: Offset

    def __str__(self) -> str:
        return f"{self.epoch}/{self.offset}"


NO_ENTRY = EntryId(Epoch(0), Offset(0))
