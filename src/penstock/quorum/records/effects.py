"""What a node asks of its own shell beyond `base.effects`, and what the shell tells it.

None of these is durable in the sense of `base.effects`: they run at once, in list order, before anything durable of the
same list. Where a completion matters it comes back as the event named with the effect.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import EntryId, Epoch, Offset, RequestId
from penstock.quorum.records.entry import ClientId, Entry
from penstock.quorum.records.member import Member
from penstock.quorum.records.state import Check, Comparison, SnapshotMeta

__all__ = [
    "ALL",
    "APPLIED",
    "MAJORITY",
    "Append",
    "AppendRequest",
    "Applied",
    "Apply",
    "KeepLost",
    "LogRead",
    "ReadLog",
    "ReadSnapshot",
    "RestoreSnapshot",
    "Serve",
    "SnapshotRead",
    "SnapshotRestored",
    "SnapshotTaken",
    "SnapshotWritten",
    "TakeSnapshot",
    "WriteSnapshot",
]

# Ack levels of a sync transaction. Any number above the majority is one, too: that many members hold it durably.
MAJORITY = 0
ALL = 1 << 16
APPLIED = -1  # committed, and applied by the leader's state machine: the answer carries its result


# clients


class AppendRequest(msgspec.Struct, frozen=True, gc=False):
    """One transaction a client wants appended."""

    request: RequestId
    client: ClientId
    seq: int
    ops: bytes
    is_sync: bool = True
    level: int = MAJORITY
    timeout_ns: int = 0  # 0: the node's default
    rolls_back: bool = False  # what a time-out does: detach (False), or try to roll the transaction back
    is_repeat: bool = False  # a copy of this pair may be in the log: answer when the Applier has ruled about the pair


class Append(Event, frozen=True):
    """Transactions of many clients, in the order they came: one step serves them all. Answered by `Answers`."""

    requests: Sequence[AppendRequest]


class Serve(Effect, frozen=True):
    """Let the state machine answer these reads in its present state: everything they must see is applied."""

    requests: tuple[RequestId, ...]
    applied: Offset


# the state machine


class Apply(Effect, frozen=True):
    """Apply entries to the state machine, from offset `first` on; TXNs at the `doomed` offsets never happened."""

    first: Offset
    entries: tuple[Entry, ...]
    doomed: tuple[Offset, ...] = ()
    checks: tuple[Check, ...] = ()  # at these offsets a leader wrote its checksum down: compare


class Applied(Event, frozen=True):
    """The state machine has applied everything up to `upto`."""

    upto: Offset
    results: tuple[Any, ...]  # one per entry of the `Apply`
    checksum: int = 0
    compared: tuple[Comparison, ...] = ()


# the log's older entries


class ReadLog(Effect, frozen=True):
    """Read entries back from the disk, one at least, at most `bytes_max`. Completed by `LogRead`."""

    purpose: str
    first: Offset
    last: Offset
    bytes_max: int


class LogRead(Event, frozen=True):
    """Entries from `first` on; none if the log no longer has them."""

    purpose: str
    first: Offset
    entries: tuple[Entry, ...]


class KeepLost(Effect, frozen=True):
    """Copy the TXNs of this range to the lost-and-found before the following truncation drops them.

    They are lost for good only once the barrier of the epoch which displaced them has committed.
    """

    first: Offset
    last: Offset
    displaced_by: Epoch


# snapshots: the shell keeps them under the id of their head


class TakeSnapshot(Effect, frozen=True):
    """Write down the state machine as it is now, with this meta. Completed by `SnapshotTaken`, when that is durable."""

    snapshot: SnapshotMeta


class SnapshotTaken(Event, frozen=True):
    """The snapshot can be read back. It is the node's snapshot from now on; older ones may go when that is saved."""

    snapshot: SnapshotMeta


class ReadSnapshot(Effect, frozen=True):
    """Read a part of a stored snapshot for a member. Completed by `SnapshotRead`."""

    member: Member
    snapshot: EntryId
    position: int
    bytes_max: int


class SnapshotRead(Event, frozen=True):
    """A part of a snapshot; no data means that it no longer exists."""

    member: Member
    snapshot: EntryId
    position: int
    data: bytes | None
    is_last: bool


class WriteSnapshot(Effect, frozen=True):
    """Store a part of a received snapshot; position 0 begins a new file. Completed by `SnapshotWritten`, durable if
    last.
    """

    snapshot: SnapshotMeta
    position: int
    data: bytes
    is_last: bool


class SnapshotWritten(Event, frozen=True):
    """The part is stored; the next one starts at `position`."""

    snapshot: SnapshotMeta
    position: int
    is_last: bool


class RestoreSnapshot(Effect, frozen=True):
    """Put the state machine to where this snapshot was taken (`NO_SNAPSHOT`: to its start).

    Completed by `SnapshotRestored`.
    """

    snapshot: SnapshotMeta


class SnapshotRestored(Event, frozen=True):
    """The state machine has the state of this snapshot."""

    head: EntryId
    checksum: int = 0
