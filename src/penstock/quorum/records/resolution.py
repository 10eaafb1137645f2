"""A client asks after a transaction whose answer it lacks; a node resolves it. Design: quorum-log.md P10."""

from enum import Enum

import msgspec

from penstock.kernel.ids import EntryId

__all__ = ["Resolution", "Resolve"]


class Resolve(msgspec.Struct, frozen=True):
    """The question, as the body of a `Requested`. Answered by a `Resolution`."""

    entry: EntryId


class Resolution(Enum):
    """The answers."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    PENDING = "pending"  # ask again, or ask the leader
    NOT_LEADER = "not-leader"  # this node does not know that epoch
    EXPIRED = "expired"  # too long ago
