"""What clients and nodes of a shard say to each other. The protocol between nodes is `messages.py`.

Appends travel on one long stream per client, many at a time in both directions; the rest are single requests.
Records which travel by the thousand are arrays without field names.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.kernel.bounds import Name, Numbered
from penstock.kernel.ids import NO_ENTRY, EntryId, Epoch, NodeId, Offset
from penstock.quorum.records.answers import Cause, Fate
from penstock.quorum.records.effects import MAJORITY
from penstock.quorum.records.entry import ClientId, Txn
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.messages import Role
from penstock.quorum.records.resolution import Resolution

__all__ = [
    "AppendAnswers",
    "ClientAppend",
    "Committed",
    "CursorStatus",
    "Hello",
    "LeaderFound",
    "LeaderQuery",
    "LimboStatus",
    "ReadQuery",
    "ReadResult",
    "ResolveQuery",
    "ResolveResult",
    "SessionFound",
    "SessionQuery",
    "ShardStatus",
    "Subscribe",
    "WatchShard",
]


Text = Annotated[str, msgspec.Meta(max_length=1_000)]


class Hello(msgspec.Struct, frozen=True):
    """What a stream of appends is opened with."""

    shard: str
    client: ClientId


class ClientAppend(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One transaction. A message on the stream is a list of them."""

    number: int  # the client's own name for this request; the answer repeats it
    seq: int  # with the client's id: what makes a retry the same transaction
    ops: bytes
    is_sync: bool = True
    level: int = MAJORITY
    timeout_ms: int = 0  # 0: the node's default
    rolls_back: bool = False
    is_repeat: bool = False  # a copy of this pair may be in the log: the answer is about the pair


class AppendAnswers(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of some of them, in the order in which that was decided."""

    fate: Fate
    epoch: Epoch
    numbers: tuple[int, ...]
    offsets: tuple[Offset, ...]  # 0 where nothing was appended
    results: tuple[Any, ...] = ()  # of the state machine, for clients that asked for them
    leader: str = ""  # with NOT_LEADER: the address of who leads, as far as this node knows
    cause: Cause = Cause.NONE


class SessionQuery(msgspec.Struct, frozen=True):
    """Which numbers has this client used?"""

    shard: Name
    client: Annotated[ClientId, Meta(max_length=1_024)]


class SessionFound(msgspec.Struct, frozen=True):
    """The highest number of the client that the state machine knows; 0 if there is none."""

    highest: Numbered


class LeaderQuery(msgspec.Struct, frozen=True):
    """Who leads?"""

    shard: Text


class LeaderFound(msgspec.Struct, frozen=True):
    """What one node knows of the leader."""

    epoch: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]  # that the node is in
    leads: bool  # the node itself leads
    leader: Text = ""  # the address of the leader that it follows


class ReadQuery(msgspec.Struct, frozen=True):
    """A question to the state machine."""

    shard: str
    query: bytes
    is_linearizable: bool = True
    after: EntryId = NO_ENTRY  # local reads: see at least this entry


class ReadResult(msgspec.Struct, frozen=True):
    """Its answer, and the last transaction (or barrier) the state machine had applied: any node gets that far."""

    result: Any
    applied: Offset


class ResolveQuery(msgspec.Struct, frozen=True):
    """What became of this entry?"""

    shard: str
    entry: EntryId


class ResolveResult(msgspec.Struct, frozen=True):
    """The answer of one node."""

    resolution: Resolution
    node: NodeId


class Subscribe(msgspec.Struct, frozen=True):
    """Send every committed transaction from this offset on, and continue as more commit."""

    shard: str
    first: Offset = Offset(1)
    is_gapless: bool = False  # `Compacted` if something from there on is trimmed away, instead of leaving it out


class WatchShard(msgspec.Struct, frozen=True):
    """Show the changes that this question asks for, after a position of the state machine."""

    shard: Name
    query: Annotated[bytes, Meta(max_length=1 << 16)]
    after: Numbered
    applied: Numbered = 0  # begin when the node has applied this entry


class Committed(msgspec.Struct, frozen=True, array_like=True):
    """Committed transactions, rolled-back ones left out. `next` is where to continue after a break."""

    next: Offset
    entries: tuple[tuple[Offset, Txn], ...]


class CursorStatus(msgspec.Struct, frozen=True):
    """How far one follower is behind."""

    member: Member
    last_pushed: Offset
    last_confirmed: Offset
    is_attached: bool
    is_voter: bool


class LimboStatus(msgspec.Struct, frozen=True):
    """What waits in the limbo of a leader."""

    length: int
    bytes: int
    volatile_length: int
    oldest_offset: Offset
    oldest_age_ms: int  # 0 where nothing waits


class ShardStatus(msgspec.Struct, frozen=True):
    """One shard, as one of its nodes sees it."""

    shard: str
    member: Member
    role: Role
    epoch: Epoch
    head: EntryId
    durable: Offset
    commit: Offset
    confirmed: Offset
    applied: Offset
    first: Offset
    leader: NodeId | None = None
    ensemble: Ensemble = ()
    cursors: tuple[CursorStatus, ...] = ()
    limbo: LimboStatus | None = None
    change: str = ""  # a reconfiguration under way
    failed: str = ""  # why this replica does not run
    diverged: str = ""  # why its state is wrong, as a majority has found
    suspected: Text = ""  # its state differs from another replica's, and no majority has decided yet
    checksum: int = 0
    lost_transactions: int = 0
    snapshot: EntryId = NO_ENTRY
