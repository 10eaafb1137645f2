"""What clients and the machine of a KeySpace say to each other: operations in the log, questions, and their answers.

Operations are entries of the log, so their kinds and fields are a format: a new kind needs a new level (O34). Answers
are bytes, encoded once by the machine.
"""

from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import (
    Compacted,
    InvalidArgument,
    LeaseExpired,
    LimitExceeded,
    MalformedFrame,
    PenstockError,
    PreconditionFailed,
)
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import KeySnapshot, KeyValue, LeaseId
from penstock.keyspace.core.transaction import Transaction

__all__ = [
    "KEYSPACE_OP",
    "KEYSPACE_QUERY",
    "KEYSPACE_SHARD",
    "Compact",
    "DoneAt",
    "EntryAt",
    "FoundKeySpace",
    "GetKey",
    "Grant",
    "KeepAlive",
    "KeySpaceOp",
    "KeySpaceQuery",
    "LeaseQuery",
    "LeaseTick",
    "No",
    "RangePart",
    "RangeQuery",
    "Revoke",
    "RunTransaction",
    "StatusQuery",
    "WatchQuery",
    "Why",
    "decode_answer",
    "encode_answer",
]

T = TypeVar("T")
KEYSPACE_SHARD: Final = "keyspace"  # the shard that holds a cluster's own KeySpace


# operations


class RunTransaction(msgspec.Struct, frozen=True, array_like=True, tag="txn"):
    """Run a transaction. Answered by `Outcome`."""

    transaction: Transaction


class Grant(msgspec.Struct, frozen=True, array_like=True, tag="grant"):
    """Make a lease. Answered by `Lease`."""

    ttl_ms: int


class KeepAlive(msgspec.Struct, frozen=True, array_like=True, tag="keep"):
    """Renew a lease. Answered by `Lease`."""

    lease: LeaseId


class Revoke(msgspec.Struct, frozen=True, array_like=True, tag="revoke"):
    """End a lease. Answered by `DoneAt`."""

    lease: LeaseId


class Compact(msgspec.Struct, frozen=True, array_like=True, tag="compact"):
    """Forget the history before a revision. Answered by `DoneAt`."""

    revision: Revision


class FoundKeySpace(msgspec.Struct, frozen=True, array_like=True, tag="found"):
    """Give the KeySpace this identity, if it has none. Answered by `Status`."""

    store_id: str


class LeaseTick(msgspec.Struct, frozen=True, array_like=True, tag="tick"):
    """Move the time of leases by the time that passed at the leader since its last tick. Answered by `DoneAt`."""

    ms: int


KeySpaceOp = RunTransaction | Grant | KeepAlive | Revoke | Compact | FoundKeySpace | LeaseTick
KEYSPACE_OP: Final = Codec[KeySpaceOp](KeySpaceOp)


# questions


class GetKey(msgspec.Struct, frozen=True, array_like=True, tag="get"):
    """Return a key, now or at a revision. Answered by `EntryAt`."""

    key: str
    at: Revision | None = None


class RangeQuery(msgspec.Struct, frozen=True, array_like=True, tag="page"):
    """Return keys under a prefix behind `after`, now or at a revision. Answered by `RangePart`."""

    prefix: str
    after: str = ""
    at: Revision | None = None


class LeaseQuery(msgspec.Struct, frozen=True, array_like=True, tag="lease"):
    """Return the time a lease has left. Answered by `LeaseStatus`."""

    lease: LeaseId


class StatusQuery(msgspec.Struct, frozen=True, array_like=True, tag="status"):
    """Return the identity and the revision. Answered by `Status`."""


class WatchQuery(msgspec.Struct, frozen=True, array_like=True, tag="watch"):
    """Show the changes under a prefix. Each answer is a `WatchBatch`; the next one begins after its revision."""

    prefix: str


KeySpaceQuery = GetKey | RangeQuery | LeaseQuery | StatusQuery | WatchQuery
KEYSPACE_QUERY: Final = Codec[KeySpaceQuery](KeySpaceQuery)


# answers


class EntryAt(msgspec.Struct, frozen=True, array_like=True, tag="entry"):
    """A key, and the revision of the KeySpace when it was read."""

    revision: Revision
    entry: KeyValue | None


class RangePart(msgspec.Struct, frozen=True, array_like=True, tag="page"):
    """A part of a range, and whether it is the last one."""

    snapshot: KeySnapshot
    is_last: bool


class DoneAt(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """It is done, at this revision."""

    revision: Revision


class Why(Enum):
    """Why the machine refuses."""

    LEASE_EXPIRED = "lease-expired"
    COMPACTED = "compacted"
    TO_COME = "to-come"
    FULL = "full"
    TOO_LARGE = "too-large"
    INVALID = "invalid"


class No(msgspec.Struct, frozen=True, array_like=True, tag="no"):
    """A refusal. It has no words: releases word them differently, and replicas of two releases must agree."""

    why: Why
    number: int = 0  # the lease, the revision, or the bytes that it is about

    def error(self) -> PenstockError:
        """Return the error that the KeySpace's port names."""
        match self.why:
            case Why.LEASE_EXPIRED:
                return LeaseExpired(f"lease {self.number:x} does not exist any more", lease=self.number)
            case Why.COMPACTED:
                return Compacted(
                    f"that revision is gone: the history is compacted up to {self.number}", compacted=self.number
                )
            case Why.TO_COME:
                return PreconditionFailed(f"that revision is still to come: the KeySpace is at {self.number}")
            case Why.FULL:
                return LimitExceeded(f"the KeySpace is full: it holds {self.number} bytes", next_step="delete keys")
            case Why.TOO_LARGE:
                return LimitExceeded(
                    f"the results have {self.number} bytes, which is more than one answer holds",
                    next_step="read less in one transaction",
                )
            case Why.INVALID:
                return InvalidArgument("the machine of the KeySpace does not understand this operation")


_encode = msgspec.msgpack.Encoder().encode


def encode_answer(answer: object) -> bytes:
    """Return the bytes of an answer or a refusal."""
    return _encode((None, answer) if isinstance(answer, No) else (answer, None))


def decode_answer(kind: type[T], data: bytes) -> T:
    """Return the answer; raise the error of a refusal.

    >>> decode_answer(DoneAt, encode_answer(DoneAt(Revision(7)))).revision
    7
    """
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.msgpack.Decoder(tuple[kind | None, No | None])  # type: ignore[valid-type]
    try:
        answer, refusal = _DECODERS[kind].decode(data)
    except msgspec.DecodeError as error:
        raise MalformedFrame(f"not an answer of a KeySpace: {error}") from None
    if refusal is not None:
        raise refusal.error()
    found: T = answer
    return found


_DECODERS: dict[type, msgspec.msgpack.Decoder[Any]] = {}
