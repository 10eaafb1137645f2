"""Messages between operators and nodes, and between nodes. Design: log-replication.md, "Message reference".

Every request names the incarnation of its target, every response that of its sender (P14): a mismatch is refused and
counts for nothing. Every message carries the epoch it belongs to; a response carries the epoch of its request.
The shard is named by the link, not by the message.
"""

from enum import Enum

import msgspec

from penstock.kernel.ids import EntryId, Epoch, Incarnation, NodeId, Offset
from penstock.quorum.records.entry import Entry
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.state import SnapshotMeta

__all__ = [
    "AddEntryRequest",
    "AddEntryResponse",
    "AddFollowerRequest",
    "AddFollowerResponse",
    "BecomeLeaderRequest",
    "BecomeLeaderResponse",
    "Change",
    "ChangeOp",
    "CommitReconfigurationRequest",
    "CommitReconfigurationResponse",
    "DrainRequest",
    "DrainResponse",
    "FenceRequest",
    "FenceResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "Message",
    "PrepareReconfigurationRequest",
    "PrepareReconfigurationResponse",
    "Reason",
    "Refusal",
    "Request",
    "Response",
    "Role",
    "SnapshotRequest",
    "SnapshotResponse",
    "TruncateRequest",
    "TruncateResponse",
]


class Role(Enum):
    """What a node does in its epoch."""

    FENCED = "fenced"
    FOLLOWER = "follower"
    LEADER = "leader"


class ChangeOp(Enum):
    """The three reconfigurations."""

    SWAP = "swap"
    EXPAND = "expand"
    CONTRACT = "contract"


class Change(msgspec.Struct, frozen=True, array_like=True):
    """What a reconfiguration does to the ensemble."""

    op: ChangeOp
    old: Member | None = None
    new: Member | None = None


class Request(msgspec.Struct, frozen=True, tag=True):
    """Base of all requests."""

    epoch: Epoch
    target: Incarnation


class Response(msgspec.Struct, frozen=True, tag=True):
    """Base of all responses."""

    epoch: Epoch
    sender: Incarnation


# operator and node: elections


class FenceRequest(Request, frozen=True):
    """Operator to node: leave every lower epoch, and say how far your log goes."""

    is_forming: bool = False  # the shard never had a leader: a node without data may take part


class FenceResponse(Response, frozen=True):
    """The epoch is durable here, no write is under way, and the log ends at `head`."""

    head: EntryId
    is_diverged: bool = False  # its state machine is wrong: it must not lead


class BecomeLeaderRequest(Request, frozen=True):
    """Operator to the chosen node: lead this epoch. `heads` are the followers known so far, with their heads."""

    ensemble: Ensemble
    heads: tuple[tuple[Member, EntryId], ...]


class BecomeLeaderResponse(Response, frozen=True):
    """This node leads the epoch."""


class AddFollowerRequest(Request, frozen=True):
    """Operator to leader: this member is fenced in your epoch too; let it follow."""

    follower: Member
    head: EntryId | None  # None: it has no data yet and must start from a snapshot


class AddFollowerResponse(Response, frozen=True):
    """The member has a cursor now, or had one already."""

    follower: Member


# leader and follower: replication


class TruncateRequest(Request, frozen=True):
    """Leader to node: if your log ends at `head`, drop whatever it has behind `to`."""

    to: EntryId
    head: EntryId


class TruncateResponse(Response, frozen=True):
    """The log ends at `head` now. Whether the leader holds that id is for the leader to see."""

    head: EntryId


class SnapshotRequest(Request, frozen=True):
    """Leader to node: a part of a snapshot, from byte `position` on."""

    snapshot: SnapshotMeta
    position: int
    data: bytes
    is_last: bool


class SnapshotResponse(Response, frozen=True):
    """Send on from `position`; or, with a head, the snapshot is in place and the log ends there."""

    snapshot: EntryId
    position: int
    head: EntryId | None = None


class AddEntryRequest(Request, frozen=True, omit_defaults=True):
    """Leader to follower: entries to append behind exactly `previous`. Without entries: a heartbeat and a question."""

    previous: EntryId
    entries: tuple[Entry, ...]
    commit: Offset = Offset(0)  # how far the leader has committed: for people; it decides nothing
    round: int = 0  # the newest read round: an answer says that this node is still in the leader's epoch
    stream: int = 0  # counts the leader's rewinds: a complaint about an older stream is out of date
    disputed: Offset = Offset(0)  # tell your checksum at this offset: replicas differ there
    verdict: int | None = None  # what a majority has there


class AddEntryResponse(Response, frozen=True, omit_defaults=True):
    """This follower's log is durable up to `head`, all of it: a cumulative acknowledgement."""

    head: EntryId
    round: int = 0
    stream: int = 0
    is_behind: bool = False  # the request could not be appended: `previous` was not the end of the log
    checked: Offset = Offset(0)  # an offset that is disputed, or should be; 0: none
    checksum: int = 0  # of this follower's state machine there


# operator and leader: reconfigurations


class PrepareReconfigurationRequest(Request, frozen=True):
    """Operator to leader of the epoch before: continue in this one, without the old node, the new one as a learner."""

    change: Change


class PrepareReconfigurationResponse(Response, frozen=True):
    """Prepared: the epoch's barrier is durable on a majority of the final ensemble."""


class CommitReconfigurationRequest(Request, frozen=True):
    """Operator to leader: the final ensemble is the ensemble now."""

    change: Change


class CommitReconfigurationResponse(Response, frozen=True):
    """The leader counts the final ensemble."""


# operator and node: failure detection


class HeartbeatRequest(Request, frozen=True):
    """Operator to node: are you there, and what are you doing? The epoch is the operator's."""

    number: int


class HeartbeatResponse(Response, frozen=True, omit_defaults=True):
    """Here, in this (the node's own) epoch and role. A leader also says who follows it."""

    number: int  # of the request
    role: Role
    head: EntryId
    commit: Offset
    followers: tuple[Member, ...] = ()
    quorum_age_ms: int = 0  # of a leader: since a majority last answered it in this epoch
    progress: int = 0  # of a leader with a change under way: it grows as the change comes further
    is_leaving: bool = False  # of a leader whose process is ending: hand its shard over
    is_diverged: bool = False  # its state machine is wrong: it must not lead


# operator and leader: hand-over


class DrainRequest(Request, frozen=True):
    """Operator to leader: take no more appends, finish those there are, and have the next leader hold them all."""

    to: NodeId | None = None  # the next leader; None: any voter


class DrainResponse(Response, frozen=True):
    """Nothing is pending, and `to` holds the whole log durably: an election now leaves no client in doubt."""

    to: Member


class Reason(Enum):
    """Why a node did not obey."""

    OTHER_INCARNATION = "this node is another incarnation"
    NO_DATA = "this node has no data yet: it needs a snapshot"
    HIGHER_EPOCH = "this node is in a higher epoch"
    MAY_NOT_LEAD = "not fenced into this epoch in this run, or something was done in it since"
    NOT_A_MEMBER = "not a member of that ensemble"
    NOT_LEADING = "this node does not lead that epoch"
    NOT_READY = "the leader's own barrier is not applied yet, or another change is under way"
    NOT_PREPARED = "that change is not prepared here"


class Refusal(Response, frozen=True):
    """The request was not obeyed. The epoch is the refusing node's own: a higher one than the request's says why."""

    request: str
    reason: Reason
    request_epoch: Epoch


Message = (
    FenceRequest
    | FenceResponse
    | BecomeLeaderRequest
    | BecomeLeaderResponse
    | AddFollowerRequest
    | AddFollowerResponse
    | TruncateRequest
    | TruncateResponse
    | SnapshotRequest
    | SnapshotResponse
    | AddEntryRequest
    | AddEntryResponse
    | PrepareReconfigurationRequest
    | PrepareReconfigurationResponse
    | CommitReconfigurationRequest
    | CommitReconfigurationResponse
    | HeartbeatRequest
    | HeartbeatResponse
    | DrainRequest
    | DrainResponse
    | Refusal
)
