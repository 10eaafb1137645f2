"""What the allocator knows: members, items and assignments as the mirror shows them, and the target of each item.

The *target* of an item is the set of members it should have; its assignments are those it has. A member *serves* the
items assigned to it, and is *wanted* by the items whose target includes it.

Invariants: `AllocatorMember.wanted` and `Item.target` are two views of one relation, and so are
`AllocatorMember.serves` and `Item.assignments`. `AllocatorMember.load` is the sum over `wanted`. `occupancy` counts the
items served or wanted or both.
"""

from dataclasses import dataclass, field

from penstock.keyspace.core.allocator.layout import PRIMARY_SLOT
from penstock.keyspace.core.allocator.policy import Demand
from penstock.keyspace.core.mirror import MirrorEntry

__all__ = ["AllocatorMember", "Item", "ItemAssignment"]


@dataclass(slots=True, eq=False)
class ItemAssignment:
    """A member serves an item."""

    entry: MirrorEntry
    item: str
    member: "AllocatorMember"
    slot: int

    @property
    def is_primary(self) -> bool:
        return self.slot == PRIMARY_SLOT


@dataclass(slots=True, eq=False)
class AllocatorMember:
    """A process which serves items. One whose key is gone, or cannot be read, has no capacity."""

    name: str
    zone: str
    entry: MirrorEntry | None = None
    is_exiting: bool = False
    is_away: bool = False  # most of the others cannot reach it
    capacity: int = 0  # its limit; 0 if it exits, or is away
    serves: dict[str, int] = field(default_factory=dict)  # item → how many assignments: one, but for accidents
    wanted: dict[str, "Item"] = field(default_factory=dict)
    occupancy: int = 0
    load: float = 0.0
    primaries: float = 0.0  # the load of the items it is primary of
    version: int = 0  # of its place in the ranking

    @property
    def fill(self) -> float:
        """The member's load in proportion to its capacity."""
        return self.load / self.capacity if self.capacity else float("inf")

    @property
    def has_room(self) -> bool:
        """True if the member may be given one more item."""
        return self.occupancy < self.capacity

    def want(self, item: "Item") -> None:
        assert item.id not in self.wanted
        self.wanted[item.id] = item
        self.load += item.load
        if item.id not in self.serves:
            self.occupancy += 1

    def unwant(self, item: "Item") -> None:
        del self.wanted[item.id]
        self.load = self.load - item.load if self.wanted else 0.0  # so that rounding does not add up
        if item.id not in self.serves:
            self.occupancy -= 1

    def serve(self, item: str) -> None:
        count = self.serves.get(item, 0)
        self.serves[item] = count + 1
        if not count and item not in self.wanted:
            self.occupancy += 1

    def unserve(self, item: str) -> None:
        if self.serves[item] > 1:
            self.serves[item] -= 1
        else:
            del self.serves[item]
            if item not in self.wanted:
                self.occupancy -= 1


@dataclass(slots=True, eq=False)
class Item:
    """Something to be served. Without an entry it was deleted, and only its assignments are left."""

    id: str
    entry: MirrorEntry | None = None
    demand: Demand | None = None  # None: deleted, or its value cannot be read
    replication: int = 0
    load: float = 1.0
    assignments: dict[str, ItemAssignment] = field(default_factory=dict)  # by key
    target: list[AllocatorMember] = field(default_factory=list)

    def sorted_assignments(self) -> list[ItemAssignment]:
        return [self.assignments[key] for key in sorted(self.assignments)]

    def members(self) -> list[AllocatorMember]:
        """The members that serve the item, the primary first."""
        found: dict[str, AllocatorMember] = {}
        for assignment in sorted(self.assignments.values(), key=lambda a: (a.slot, a.member.name)):
            found[assignment.member.name] = assignment.member
        return list(found.values())

    def retarget(self, target: list[AllocatorMember]) -> None:
        """Have other members from now on."""
        for member in self.target:
            if member not in target:
                member.unwant(self)
        for member in target:
            if member not in self.target:
                member.want(self)
        self.target = list(target)

    def weigh(self, load: float) -> None:
        """Set the item's load."""
        if load != self.load:
            target, self.target = self.target, []
            for member in target:
                member.unwant(self)
            for assignment in self.assignments.values():
                if assignment.is_primary:
                    assignment.member.primaries += load - self.load
            self.load = load
            self.retarget(target)
