"""The identity of members in a shard: a member is a node together with the incarnation of its data. Design:
quorum-log.md P14.

A node whose data was lost comes back with another incarnation, so it is another member: nothing the old one
acknowledged is expected of it, and nothing it says counts for the old one.
"""

import msgspec

from penstock.kernel.ids import Incarnation, NodeId

__all__ = ["Ensemble", "Member", "majority"]


class Member(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A node, as it was when its data folder was formatted."""

    node: NodeId
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.node}#{self.incarnation}"


Ensemble = tuple[Member, ...]  # the voting members of a shard, each node at most once


def majority(size: int) -> int:
    """Return how many of `size` voters decide: any two majorities meet.

    >>> [majority(size) for size in (1, 2, 3, 4, 5)]
    [1, 2, 2, 3, 3]
    """
    return size // 2 + 1
