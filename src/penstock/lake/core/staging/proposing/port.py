"""A member's inputs and requests: the queue, its clients, and the builder of metaranges. Design: lake.md.

The queue is a port: a member sends `Enqueue` and receives `Delivered`. It promises one order for all members and at
least one delivery of every accepted record; positions are dense and begin at 1. An `Enqueue` may be lost, doubled and
late: the member sends it again. The queue stamps each record with the time (L3).
"""

from typing import Any

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import RequestId
from penstock.lake.core.staging.records import (
    Changing,
    CommitId,
    Instance,
    Record,
    Request,
    SinkPart,
    StagingToken,
)
from penstock.lake.core.staging.results import Result
from penstock.lake.core.staging.snapshot import Snapshot

__all__ = [
    "Build",
    "BuildFailed",
    "BuildMove",
    "Built",
    "Commit",
    "ContinuationToken",
    "Delivered",
    "Enqueue",
    "Envelope",
    "GiveUp",
    "LookUp",
    "LookedUp",
    "Move",
    "Read",
    "Rebuild",
    "RefsRead",
    "Warn",
    "Write",
    "envelope_codec",
]


class ContinuationToken(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Links a record on the queue to the request that waits for it (L16). The boot id is new at every start of a
    member.
    """

    member: str
    boot: str
    number: int


class Envelope(msgspec.Struct, frozen=True, tag="lake"):
    """A record and its token, as they travel on the queue."""

    token: ContinuationToken | None
    record: Record


envelope_codec: Codec[Envelope] = Codec(Envelope)


# the queue


class Enqueue(Effect, frozen=True):
    """Put this on the queue."""

    envelope: Envelope


class Delivered(Event, frozen=True):
    """The queue's next record, or one it delivered before."""

    position: int
    stamp: int
    envelope: Envelope


# what clients ask: bodies of `Requested`


class Write(msgspec.Struct, frozen=True):
    """Put a changing record on the queue; the reply is its `Result`."""

    record: Changing


class Read(msgspec.Struct, frozen=True):
    """A branch by name; the reply is a `Snapshot`, or None. With `stale_ok`, of now, without asking the queue."""

    repository: str
    branch: str
    stale_ok: bool = False


class RefsRead(msgspec.Struct, frozen=True):
    """All of a repository at one position; the reply is `Refs`, or None."""

    repository: str
    stale_ok: bool = False


class Commit(msgspec.Struct, frozen=True):
    """Commit the uncommitted changes of a branch (L7 to L9). `what` is the builder's: message, metadata, committer."""

    request: Request
    instance: Instance
    ttl_ns: int
    what: Any = None
    allow_empty: bool = False
    expected_head: CommitId | None = None


class Move(msgspec.Struct, frozen=True):
    """Move a head without its uncommitted changes (L13): a merge, a revert, a cherry-pick, an import, a sink's
    batch.
    """

    request: Request
    instance: Instance
    what: Any = None
    allow_empty: bool = False
    is_clean: bool = False
    sink: SinkPart | None = None
    link_epoch: int | None = None  # the oldest of the uploaded files it brings; None if it brings none (L15)


class GiveUp(msgspec.Struct, frozen=True):
    """A client no longer waits: cancel what can still be cancelled. Its own reply says how it ended."""

    waiting: RequestId


# the builder


class Build(Effect, frozen=True):
    """Write the metarange of `parent` overlaid by the areas of `range`, and the commit. Completed by `Built`."""

    waiting: RequestId
    commit: Commit
    attempt: int
    link_epoch: int  # under which everything it writes is stored
    parent: CommitId
    snapshot: Snapshot
    range: tuple[StagingToken, ...]


class Rebuild(Effect, frozen=True):
    """The race was lost (L9): make from `built`, which is `old_parent` overlaid by `gone` and `rest`, the metarange of
    `parent` overlaid by `rest`: patch it at (D + K) - keys(rest) with what `parent` has there, where D are the keys
    whose stored entries differ between the parents, and K the keys of `gone`. Completed by `Built`."""

    waiting: RequestId
    commit: Commit
    attempt: int
    link_epoch: int
    built: "Built"
    old_parent: CommitId
    parent: CommitId
    snapshot: Snapshot  # of the announcement: it has all areas of `gone` and `rest`
    gone: tuple[StagingToken, ...]
    rest: tuple[StagingToken, ...]


class BuildMove(Effect, frozen=True):
    """Make the tree of a head move on top of `parent`, and the commit. Completed by `Built`."""

    waiting: RequestId
    move: Move
    link_epoch: int
    parent: CommitId
    snapshot: Snapshot


class Built(Event, frozen=True):
    """Commit and metarange are durable."""

    waiting: RequestId
    commit: CommitId
    metarange: str = ""
    is_same: bool = False  # the tree is the parent's
    sources: tuple[CommitId, ...] = ()  # commits, besides the parent, whose objects it refers to


class BuildFailed(Event, frozen=True):
    """It cannot be built: a conflict, or something broke. The client gets the reason."""

    waiting: RequestId
    reason: str


class LookUp(Effect, frozen=True):
    """A PUT was made on an old view: look up its paths in `result.commit` (or its source again). Completed by
    `LookedUp`."""

    waiting: RequestId
    record: Changing
    result: Result


class LookedUp(Event, frozen=True):
    """The same record with a fresh basis, the same request in it; None if there is no sense in trying again."""

    waiting: RequestId
    record: Changing | None


class Warn(Effect, frozen=True):
    """Something harmless which should not happen often: for the log."""

    what: str
