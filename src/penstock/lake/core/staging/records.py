"""The records on the queue: every change of the lake is one. Design: lake.md L2 to L17.

A record carries everything its effect depends on: ids, staging tokens, times to live. It names the *instance* of a
branch, tag or repository, never its name alone, so that a late one never hits a new object of that name. `Request` is
the same in every copy and every retry of a record, through any member (L2).
"""

from typing import NewType

import msgspec

from penstock.kernel.codec import Codec
from penstock.lake.core.refs.protection import ProtectionRule
from penstock.lake.core.staging.entry import Entry

__all__ = [
    "Abort",
    "Announce",
    "Atomic",
    "Basis",
    "Cancel",
    "Changing",
    "CommitId",
    "Condemn",
    "CreateBranch",
    "CreateRepository",
    "CreateTag",
    "Delete",
    "DeleteBranch",
    "DeleteRepository",
    "DeleteTag",
    "Extend",
    "FromCommit",
    "FromStaged",
    "GcFence",
    "HardReset",
    "Instance",
    "Limits",
    "Perform",
    "Precondition",
    "Put",
    "Record",
    "Request",
    "Reset",
    "Row",
    "SetProtection",
    "SinkPart",
    "SinkRewind",
    "StagingToken",
    "StateHash",
    "Sync",
    "Tick",
    "Version",
    "codec",
]

CommitId = NewType("CommitId", str)
Instance = NewType("Instance", str)  # one life of a repository, a branch or a tag; never used again
StagingToken = NewType("StagingToken", str)  # names a staging area; never used again


class Request(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The origin of a change: an id, and the state machine's `now` that the id's maker knew."""

    id: str
    issued: int


class Limits(msgspec.Struct, frozen=True, array_like=True):
    """Bounds which every member must share: they are in the state, and only a VERSION record changes them."""

    requests_max: int = 100_000
    request_age_ns: int = 24 * 3600 * 1_000_000_000
    attempts_max: int = 1_000
    touched_max: int = 10_000
    staged_rows_max: int = 50_000_000  # of one branch; more is BUSY until something is committed or reset
    now_step_ns: int = 60 * 1_000_000_000  # how far one record may move `now`


# rows


class Precondition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What must be shown under the path (L5): nothing; or an entry, with this ETag or at this address if named."""

    absent: bool = False
    etag: str | None = None
    address: str | None = None

    def holds(self, entry: Entry | None) -> bool:
        if self.absent:
            return entry is None
        if entry is None:
            return False
        return self.etag in (None, entry.etag) and self.address in (None, entry.address)


class Basis(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a member found committed under the path, and in which head it looked (L5)."""

    head: CommitId
    entry: Entry | None


class FromStaged(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The entry was copied from an uncommitted entry, which must still exist at apply (L15)."""

    instance: Instance
    path: str


class FromCommit(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The entry was copied from a commit, which must not be condemned (L15)."""

    commit: CommitId


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One change of a PUT: an entry, or a tombstone if there is none."""

    path: str
    entry: Entry | None
    when: Precondition | None = None
    basis: Basis | None = None
    source: FromStaged | FromCommit | None = None


class SinkPart(msgspec.Struct, frozen=True, array_like=True):
    """Which batch of which query a PERFORM is, and from where to where it read its source (L14)."""

    query: str
    batch: int
    start: str
    end: str


# records


class Put(msgspec.Struct, frozen=True, tag="put"):
    """Link uploaded objects (L4): single rows, or a columnar batch (an Arrow IPC stream), or both. All or none."""

    request: Request
    instance: Instance
    link_epoch: int
    rows: tuple[Row, ...] = ()
    batch: bytes = b""
    pinned: StagingToken | None = None
    source: FromCommit | None = None  # the whole batch was copied from this commit


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    """Write tombstones (L4)."""

    request: Request
    instance: Instance
    paths: tuple[str, ...]


class Sync(msgspec.Struct, frozen=True, tag="sync"):
    """Changes nothing; its sender may serve reads when it comes back (L6)."""


class Tick(msgspec.Struct, frozen=True, tag="tick"):
    """Moves time on while the queue is idle (L3)."""


class StateHash(msgspec.Struct, frozen=True, tag="state-hash"):
    """Changes nothing; says what a member's state is at a place that all members share (L17)."""

    member: str
    applied: int
    hash: str


class Announce(msgspec.Struct, frozen=True, tag="announce"):
    """Begin an attempt to commit everything staged: seal all areas, open one with a new token (L7)."""

    request: Request
    instance: Instance
    attempt: int
    token: StagingToken
    ttl_ns: int
    expected_head: CommitId | None = None


class Perform(msgspec.Struct, frozen=True, tag="perform"):
    """Move the head (L8); without an attempt and a range it is a merge, revert, import or sink (L13)."""

    request: Request
    instance: Instance
    parent: CommitId
    commit: CommitId
    link_epoch: int
    attempt: int | None = None
    range: tuple[StagingToken, ...] = ()
    metarange: str = ""  # where it is stored: for audits, no rule reads it
    sources: tuple[CommitId, ...] = ()
    is_empty: bool = False  # the tree is the parent's, and an empty commit was not asked for
    is_clean: bool = False  # refuse if anything is staged
    sink: SinkPart | None = None


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End an attempt and its request (L10): by its owner at any time, by anyone after its deadline."""

    request: Request
    attempt: int
    by_owner: bool = False


class Extend(msgspec.Struct, frozen=True, tag="extend"):
    """Move an attempt's deadline (L10)."""

    request: Request
    attempt: int
    ttl_ns: int


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Give up: if the request is not final yet, it is cancelled for good (L2)."""

    request: Request


class Reset(msgspec.Struct, frozen=True, tag="reset"):
    """Discard uncommitted changes (L12): all of them if neither paths nor prefixes are named."""

    request: Request
    instance: Instance
    token: StagingToken
    paths: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


class HardReset(msgspec.Struct, frozen=True, tag="hard-reset"):
    """Set the head to a commit and discard uncommitted changes (L11)."""

    request: Request
    instance: Instance
    commit: CommitId
    token: StagingToken


class CreateRepository(msgspec.Struct, frozen=True, tag="create-repository"):
    """A repository with its first commit and its default branch."""

    request: Request
    name: str
    instance: Instance
    storage: str
    branch: str
    branch_instance: Instance
    token: StagingToken
    commit: CommitId
    is_read_only: bool = False  # for good: since version 3


class DeleteRepository(msgspec.Struct, frozen=True, tag="delete-repository"):
    """Drop a repository with all its branches and tags."""

    request: Request
    repository: Instance


class SetProtection(msgspec.Struct, frozen=True, tag="set-protection"):
    """Replace a repository's rules of protection, if those in force have the expected name. Since version 3."""

    request: Request
    repository: Instance
    rules: tuple[ProtectionRule, ...] = ()
    expected: str | None = None


class CreateBranch(msgspec.Struct, frozen=True, tag="create-branch"):
    """A branch (L11) from a commit, or from where another branch's head is at apply."""

    request: Request
    repository: Instance
    name: str
    instance: Instance
    token: StagingToken
    commit: CommitId | None = None
    branch: Instance | None = None
    is_hidden: bool = False


class DeleteBranch(msgspec.Struct, frozen=True, tag="delete-branch"):
    """Drop a branch, its areas, its live attempts and its sinks (L11)."""

    request: Request
    instance: Instance


class CreateTag(msgspec.Struct, frozen=True, tag="create-tag"):
    """A tag on a commit, or on where a branch's head is at apply (L11)."""

    request: Request
    repository: Instance
    name: str
    instance: Instance
    commit: CommitId | None = None
    branch: Instance | None = None


class DeleteTag(msgspec.Struct, frozen=True, tag="delete-tag"):
    """Drop a tag."""

    request: Request
    repository: Instance
    instance: Instance


class SinkRewind(msgspec.Struct, frozen=True, tag="sink-rewind"):
    """Let a query continue after an earlier batch; `batch` None forgets the query (L14)."""

    request: Request
    instance: Instance
    query: str
    batch: int | None = None
    end: str = ""


class GcFence(msgspec.Struct, frozen=True, tag="gc-fence"):
    """Begin a run of the garbage collector: objects addressed two runs ago can no longer be linked (L15)."""

    request: Request
    repository: Instance


class Condemn(msgspec.Struct, frozen=True, tag="condemn"):
    """End the marking of run `gce`: these commits can never be referenced again (L15)."""

    request: Request
    repository: Instance
    gce: int
    commits: tuple[CommitId, ...] = ()


class Version(msgspec.Struct, frozen=True, tag="version"):
    """Switch rules and limits on, for all members at one position (L17)."""

    request: Request
    version: int
    limits: Limits = Limits()


Single = Put | Delete | Perform | Reset | HardReset | CreateBranch | DeleteBranch | CreateTag | DeleteTag | SinkRewind


class Atomic(msgspec.Struct, frozen=True, tag="atomic"):
    """Several changes or none (L13). Each instance may be named once; the parts' requests are not looked at."""

    request: Request
    records: tuple[Single, ...]


Changing = (
    Single
    | Atomic
    | Announce
    | Abort
    | Extend
    | Cancel
    | CreateRepository
    | DeleteRepository
    | SetProtection
    | GcFence
    | Condemn
    | Version
)
Record = Changing | Sync | Tick | StateHash

codec: Codec[Record] = Codec(Record)
