"""What the allocator asks of who uses it: journals and consumers read their values in their own ways.

Design: journals.md J14. An assignment is *consistent* when its member has all an item needs of it: for a journal, when
the head record names the very members which are assigned. The allocator removes nothing before enough of them are.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.transaction import Compare

__all__ = ["REPLICATION_MAX", "Capacity", "Demand", "Policy"]

REPLICATION_MAX = 32


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What an item needs."""

    replication: int  # by how many members it is to be served
    load: float = 1.0  # what one replica costs its member, in any unit that is the same for all items

    def __post_init__(self) -> None:
        if not 0 <= self.replication <= REPLICATION_MAX:
            raise InvalidArgument(f"a replication of {self.replication}: it must be 0 to {REPLICATION_MAX}")
        if not 0 < self.load < 1e18:
            raise InvalidArgument(f"a load of {self.load}: it must be greater than 0, and finite")


class Capacity(msgspec.Struct, frozen=True, gc=False):
    """What a member offers. Its fair share of all load is in proportion to its limit."""

    limit: int  # of items
    is_exiting: bool = False  # takes no new items, and hands over the items it has

    def __post_init__(self) -> None:
        if self.limit < 0:
            raise InvalidArgument(f"a limit of {self.limit} items")


class Policy(Protocol):
    """How to read the values. Every answer may depend on entries it is given and on other keys of the same mirror.

    What raises, or answers None, is left alone: an item whose value cannot be read keeps the assignments it has.
    """

    def demand(self, item: MirrorEntry) -> Demand | None:
        """Return the item's demand."""
        ...

    def capacity(self, member: MirrorEntry) -> Capacity | None:
        """Return the member's capacity."""
        ...

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        """Return, for each assignment of the item, whether it is consistent. All of them are given, sorted by key."""
        ...

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        """Return the compares for removing an assignment, besides the item's own keys: J14, the head record."""
        ...

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        """Members, as str(MemberId), who come before others, and one of whom the item must have if it can be had.

        J5: the members that hold its last bytes.
        """
        ...

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        """Return whether the item may be left to these assignments, and `coming` new members, without the consent of
        a member that the others cannot reach.
        """
        ...

    def item_of(self, key: str) -> str | None:
        """Return the item to look at again after a change of another key: its head record, or its measured load."""
        ...
