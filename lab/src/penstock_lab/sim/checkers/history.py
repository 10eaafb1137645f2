"""The requests and answers of clients: one record per attempt to append, per read and per resolve."""

from dataclasses import dataclass, field
from typing import Any

from penstock.kernel.ids import NO_ENTRY, EntryId, NodeId, RequestId
from penstock.quorum.client.sending import Sending
from penstock.quorum.records.answers import Cause, Fate
from penstock.quorum.records.entry import ClientId
from penstock.quorum.records.resolution import Resolution

__all__ = ["HistoryAttempt", "HistoryRead", "OperationHistory", "ResolveOp", "UserAppend"]

NO_REQUEST = RequestId(0)


@dataclass(slots=True)
class HistoryAttempt:
    """One copy that a client sent. Another copy of the same (client, seq) is another attempt with other bytes."""

    request: RequestId
    client: ClientId
    seq: int
    key: bytes
    ops: bytes
    is_sync: bool
    level: int
    rolls_back: bool
    timeout_ns: int
    node: NodeId
    is_repeat: bool = False
    run: int = 0  # of the process which took it; 0: none did
    arrived_at: int = 0  # by the world's clock, as all times here
    fate: Fate | None = None
    cause: Cause = Cause.NONE
    told_at: int = 0
    entry: EntryId = NO_ENTRY
    result: Any = None
    appended: EntryId = NO_ENTRY  # where its leader really put it


@dataclass(slots=True)
class UserAppend:
    """One call of a user's: a transaction as its client sees it, over all its copies."""

    client: ClientId
    seq: int
    sending: Sending
    deadline: int
    last: RequestId = NO_REQUEST  # the newest copy
    fate: Fate | None = None  # how it ended for the user

    @property
    def is_over(self) -> bool:
        return self.fate is not None


@dataclass(slots=True)
class HistoryRead:
    """A read of one key."""

    request: RequestId
    key: bytes
    is_linearizable: bool
    after: EntryId
    node: NodeId
    run: int = 0
    arrived_at: int = 0
    served_at: int = 0  # 0: not served
    is_answered: bool = False
    values: tuple[bytes, ...] = ()
    applied: int = 0


@dataclass(slots=True)
class ResolveOp:
    """A question about an entry."""

    request: RequestId
    entry: EntryId
    node: NodeId
    answer: Resolution | None = None


@dataclass(slots=True)
class OperationHistory:
    """Everything clients did, by request."""

    asked: list[UserAppend] = field(default_factory=list)
    attempts: dict[RequestId, HistoryAttempt] = field(default_factory=dict)
    reads: dict[RequestId, HistoryRead] = field(default_factory=dict)
    resolves: dict[RequestId, ResolveOp] = field(default_factory=dict)
    by_ops: dict[bytes, HistoryAttempt] = field(default_factory=dict)
    _requests: int = 0

    def next_request(self) -> RequestId:
        self._requests += 1
        return RequestId(self._requests)
