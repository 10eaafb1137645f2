"""Members with room, the least filled first, by zone: who should take the next replica.

The fair fill is the same for all: all load over all capacity. Within a tolerance of it no member is worth a move. A
member below it in a zone the item is not in yet is better than one that is emptier; one above it is the last choice.
"""

from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from penstock.keyspace.core.allocator.state import AllocatorMember, Item

__all__ = ["TOLERANCE", "Ranking", "is_spread", "zone_counts"]

TOLERANCE: Final = 0.05  # how far from its fair share a member may be
_STALE_PER_MEMBER: Final = 16

_Ranked = tuple[float, str, int, AllocatorMember]  # fill, name, version, and whose they are


class Ranking:
    """The members, and how full they are."""

    def __init__(self) -> None:
        self.members: dict[str, AllocatorMember] = {}
        self.demand = 0.0  # the load of all replicas of all items, placed or not
        self.capacity = 0
        self.has_room_freed = False  # somewhere, since it was last set to False
        self._zones: dict[str, list[_Ranked]] = {}  # heaps
        self._zone_members: dict[str, int] = {}  # how many with capacity

    @property
    def fair_fill(self) -> float:
        return self.demand / self.capacity if self.capacity else 0.0

    @property
    def zone_count(self) -> int:
        """The number of zones with a member that could take an item."""
        return len(self._zone_members)

    def is_above(self, member: AllocatorMember) -> bool:
        """Return whether the member has clearly more than its fair share."""
        return member.load > self.fair_fill * member.capacity * (1 + TOLERANCE)

    def is_below(self, member: AllocatorMember) -> bool:
        return member.load < self.fair_fill * member.capacity * (1 - TOLERANCE)

    def resize(self, member: AllocatorMember, capacity: int) -> None:
        """A member has another capacity now."""
        self.capacity += capacity - member.capacity
        self.has_room_freed |= capacity > member.capacity
        count = self._zone_members.get(member.zone, 0) + bool(capacity) - bool(member.capacity)
        member.capacity = capacity
        if count:
            self._zone_members[member.zone] = count
        else:
            self._zone_members.pop(member.zone, None)
        self.changed(member)

    def changed(self, member: AllocatorMember) -> None:
        """Give a member its new place after its figures changed."""
        member.version += 1
        if member.has_room:
            heap = self._zones.setdefault(member.zone, [])
            if len(heap) > _STALE_PER_MEMBER * (1 + self._zone_members.get(member.zone, 0)):
                heap[:] = [ranked for ranked in heap if _is_fresh(ranked)]
                heapify(heap)
            heappush(heap, (member.fill, member.name, member.version, member))

    def retarget(self, item: Item, target: list[AllocatorMember]) -> None:
        """Have an item served by others."""
        before = item.target
        if before == target:
            return
        item.retarget(target)
        for member in before:
            if member not in target:
                self.has_room_freed |= item.id not in member.serves
                self.changed(member)
        for member in target:
            if member not in before:
                self.changed(member)

    def best(
        self, item: Item, excluded: Collection[AllocatorMember], zones_full: Collection[str] = ()
    ) -> AllocatorMember | None:
        """Return the best next member for the item: none of the excluded, and in none of those zones."""
        counts = zone_counts(excluded)
        fair_fill = self.fair_fill * (1 + TOLERANCE)
        found: tuple[bool, int, float, str] | None = None
        best: AllocatorMember | None = None
        for zone, heap in self._zones.items():
            if zone not in zones_full and (ranked := _first(heap, excluded)) is not None:
                fill, name, _, member = ranked
                rank = (member.load + item.load > fair_fill * member.capacity, counts.get(zone, 0), fill, name)
                if found is None or rank < found:
                    found, best = rank, member
        return best


def _first(heap: list[_Ranked], excluded: Collection[AllocatorMember]) -> _Ranked | None:
    """The first whose place is still right, and who is not excluded."""
    aside: list[_Ranked] = []
    while heap:
        ranked = heap[0]
        if not _is_fresh(ranked):
            heappop(heap)
        elif ranked[3] in excluded:
            aside.append(heappop(heap))
        else:
            break
    found = heap[0] if heap else None
    for ranked in aside:
        heappush(heap, ranked)
    return found


def _is_fresh(ranked: _Ranked) -> bool:
    return ranked[2] == ranked[3].version


def zone_counts(members: Iterable[AllocatorMember]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for member in members:
        counts[member.zone] = counts.get(member.zone, 0) + 1
    return counts


def is_spread(members: Collection[AllocatorMember]) -> bool:
    """Return whether no single zone holds all of them. A single member counts as spread."""
    return len(members) < 2 or len({member.zone for member in members}) > 1
