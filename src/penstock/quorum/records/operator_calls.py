"""The calls that people make to an operator, and its status."""

import msgspec

from penstock.kernel.ids import NodeId
from penstock.quorum.records.messages import ChangeOp
from penstock.quorum.records.metadata import Metadata

__all__ = ["AddNode", "Create", "ElectLeader", "OperatorStatus", "Reconfiguration"]


class AddNode(msgspec.Struct, frozen=True):
    """Remember where a node listens."""

    node: NodeId
    address: str


class Create(msgspec.Struct, frozen=True):
    """A new shard."""

    shard: str
    nodes: list[NodeId]


class ElectLeader(msgspec.Struct, frozen=True):
    """Hand a shard over; `prefer` leads next if it is as far as any. `aborts`: also end a change in its preparation."""

    shard: str
    prefer: NodeId | None = None
    aborts: bool = False


class Reconfiguration(msgspec.Struct, frozen=True):
    """Change an ensemble."""

    shard: str
    op: ChangeOp
    old: NodeId | None = None
    new: NodeId | None = None


class OperatorStatus(msgspec.Struct, frozen=True):
    """An operator's knowledge: the addresses of nodes, and every shard with its own activity on it."""

    operator: NodeId
    nodes: dict[NodeId, str]
    shards: dict[str, tuple[Metadata | None, str]]
