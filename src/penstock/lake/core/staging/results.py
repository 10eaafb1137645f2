"""What applying a record results in. Design: lake.md L2.

A FINAL result is recorded for the request: every later copy of it gets the same. A RETRY result is never recorded and
never told to a client: the member tries again with the same request id, or cancels it. EXPIRED says only that this
copy did nothing: the request is too old for anyone to remember what became of it.
"""

from enum import Enum

import msgspec

from penstock.lake.core.staging.records import CommitId, StagingToken

__all__ = ["Result", "Status"]


class Status(Enum):
    """How it ended."""

    # final
    OK = "ok"
    NO_CHANGES = "no-changes"  # nothing to commit: commit = the head
    NO_BRANCH = "no-branch"
    NO_REPOSITORY = "no-repository"
    NO_TAG = "no-tag"
    EXISTS = "exists"
    IN_USE = "in-use"  # of a storage namespace: detail = the repository which has one that overlaps
    STALE_TOKEN = "stale-token"  # of a pinned PUT; or a record would use a token again
    PRECONDITION_FAILED = "precondition-failed"  # detail = the path
    DIRTY = "dirty"
    PROTECTED = "protected"  # a rule refuses it on this branch: detail = the action
    EXPIRED_COMMIT = "expired-commit"  # the garbage collector has condemned it
    FENCED = "fenced"  # of a sink: another driver, or another plan
    ALREADY = "already"  # of a sink: an older batch
    REFUSED = "refused"  # of a CONDEMN: mark again
    ABORTED = "aborted"
    CANCELLED = "cancelled"
    MALFORMED = "malformed"
    # retry
    STALE_BASIS = "stale-basis"  # commit = the head in which to look again; detail = the path
    STALE_SOURCE = "stale-source"  # the source of a copy is no longer uncommitted; detail = the path
    STALE_GC = "stale-gc"  # upload again, or announce again
    LOST = "lost"  # commit = the new head, tokens = the rest of the attempt's range
    SUPERSEDED = "superseded"
    NOT_YET = "not-yet"
    BUSY = "busy"
    # neither
    ANNOUNCED = "announced"  # commit = the parent, tokens = the range; the attempt is live
    EXTENDED = "extended"
    SYNCED = "synced"
    EXPIRED = "expired"

    @property
    def is_retry(self) -> bool:
        return self in _RETRY

    @property
    def is_final(self) -> bool:
        return self not in _RETRY and self not in _NEITHER


_RETRY = frozenset(
    [
        Status.STALE_BASIS,
        Status.STALE_SOURCE,
        Status.STALE_GC,
        Status.LOST,
        Status.SUPERSEDED,
        Status.NOT_YET,
        Status.BUSY,
    ]
)
_NEITHER = frozenset([Status.ANNOUNCED, Status.EXTENDED, Status.SYNCED, Status.EXPIRED])


class Result(msgspec.Struct, frozen=True, array_like=True):
    """The result that every copy of a record gets; the comment of each status explains the fields."""

    status: Status
    commit: CommitId = CommitId("")
    tokens: tuple[StagingToken, ...] = ()
    detail: str = ""
