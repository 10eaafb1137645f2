"""Chooses the target of an item: keep its present members, spread over zones, stay within limits, even out the load.

Design: gazette.md §1.5. In this order of weight: a member's limit; the replication; two zones or more, if two or more
have room; the members it has; the fair share. Where every suitable member is full, items are *displaced* along the
shortest chain that ends at one with room, so that an item which can be placed is placed (Gazette's #157, #416).
"""

from collections import deque
from itertools import islice
from typing import Final

from penstock.kernel.probes import reached
from penstock.keyspace.core.allocator.ranking import Ranking, is_spread
from penstock.keyspace.core.allocator.state import AllocatorMember, Item

__all__ = ["Placement"]

_DISPLACED_SCAN: Final = 2_000  # of a full member: how many items to search for one that could move elsewhere


class Placement:
    """Gives items their targets."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._saturated: dict[bool, set[str]] = {}  # members from which no chain leads to room, until some is freed
        self.displaced: list[Item] = []  # items whose target changed for another item's sake
        self.short: dict[str, Item] = {}  # with fewer members than they need
        self.gathered: dict[str, Item] = {}  # all in one zone

    def room_was_freed(self) -> list[Item]:
        """Return the items that could not be placed well and may be placed now."""
        self._saturated.clear()
        again = list(self.short.values())
        self.short.clear()
        if self._ranking.zone_count > 1:
            again += self.gathered.values()
            self.gathered.clear()
        return again

    def forget(self, item: Item) -> None:
        self.short.pop(item.id, None)
        self.gathered.pop(item.id, None)

    def note_spread(self, item: Item) -> None:
        """An item stays where it is; should another zone come, it may have to be spread."""
        if not is_spread(item.target):
            self.gathered[item.id] = item

    def keep(self, item: Item) -> None:
        """The target from what the item should have and has, without anything new."""
        kept = [member for member in item.target if _may_keep(item, member)]
        if len(kept) == len(item.target) == item.replication:
            return
        spare = [member for member in item.members() if member not in kept and _may_keep(item, member)]
        if len(kept) < item.replication:
            kept += _reduced(spare, item.replication - len(kept))
        self._ranking.retarget(item, _reduced(kept, item.replication))

    def complete(self, item: Item, preferred: list[AllocatorMember], *, needs_one: bool = False) -> None:
        """Fill the target up, and spread it over two zones, as far as that is possible.

        `needs_one`: no preferred member serves the item, and one must: it comes in place of another.
        """
        self.forget(item)
        is_full = len(item.target) == item.replication > 0
        is_coming = any(member in item.target for member in preferred)
        recalled = preferred[0] if needs_one and preferred and is_full and not is_coming else None
        if recalled is not None:
            self._exchange(item, recalled)
        target = list(item.target)
        while len(target) < item.replication:
            member = self._next(item, target, preferred)
            if member is None:
                self.short[item.id] = item
                break
            target.append(member)
        self._ranking.retarget(item, target)
        if not is_spread(target):
            self._spread(item, recalled)

    def _next(
        self, item: Item, target: list[AllocatorMember], preferred: list[AllocatorMember]
    ) -> AllocatorMember | None:
        """Return one more member: a preferred one, one with room, or one that can be given room; in another zone if
        need be.
        """
        full = _zones_full(item, target) if self._ranking.zone_count > 1 else ()
        for member in preferred:
            if member.has_room and member not in target and member.zone not in full:
                return member
        best = self._ranking.best(item, target, full)
        if best is not None:
            return best
        self._ranking.retarget(item, target)  # chains of others must see what is taken
        return (
            (self._with_room_made(item, full) if full else None)
            or self._ranking.best(item, target)
            or self._reclaimed(item)
            or self._with_room_made(item)
            or self._with_room_made(item, keeps_spread=False)
        )

    def _exchange(self, item: Item, coming: AllocatorMember) -> None:
        reached("allocator.recalled")
        rests = [[member for member in item.target if member is not leaving] for leaving in item.target]
        best = min(rests, key=lambda rest: (not is_spread([*rest, coming]), sum(member.fill for member in rest)))
        self._ranking.retarget(item, [*best, coming])

    def _spread(self, item: Item, recalled: AllocatorMember | None) -> None:
        """Exchange one member for one in another zone, but not for the member that was just called back."""
        zone = item.target[0].zone
        if self._ranking.zone_count < 2:
            self.gathered[item.id] = item
            return
        leaving = max(
            (member for member in item.target if member is not recalled),
            key=lambda member: (member.name not in _serving(item), member.fill, member.name),
        )
        staying = [member for member in item.target if member is not leaving]
        member = self._ranking.best(item, item.target, (zone,)) or self._with_room_made(item, (zone,))
        if member is None:
            self.gathered[item.id] = item
        else:
            self._ranking.retarget(item, [*staying, member])

    def _reclaimed(self, item: Item) -> AllocatorMember | None:
        """A member which serves the item, and was promised to another that waits there: waiting would have no end."""
        for member in item.members():
            if member.capacity and member not in item.target and _may_enter(item, member):
                for other in member.wanted.values():
                    if other.id not in member.serves:
                        reached("allocator.reclaimed")
                        self._ranking.retarget(other, [m for m in other.target if m is not member])
                        self.displaced.append(other)
                        return member
        return None

    def _with_room_made(
        self, item: Item, full: tuple[str, ...] = (), *, keeps_spread: bool = True
    ) -> AllocatorMember | None:
        """A full member which gets room, because one of its items goes to another, and so on."""
        saturated = self._saturated.setdefault(keeps_spread, set())
        members = [m for m in self._ranking.members.values() if m.capacity and m.name not in saturated]
        starts = [m for m in members if m not in item.target and m.zone not in full and _may_enter(item, m)]
        came_from: dict[str, tuple[AllocatorMember, Item] | None] = {member.name: None for member in starts}
        queue = deque(starts)
        while queue:
            member = queue.popleft()
            for moved, to in _exits(member, members, came_from, item, keeps_spread=keeps_spread):
                came_from[to.name] = (member, moved)
                if to.has_room:
                    reached("allocator.displaced")
                    return self._displace(to, came_from)
                queue.append(to)
        saturated.update(came_from)
        return None

    def _displace(
        self, to: AllocatorMember, came_from: dict[str, tuple[AllocatorMember, Item] | None]
    ) -> AllocatorMember:
        while (step := came_from[to.name]) is not None:
            member, moved = step
            self._ranking.retarget(moved, [to if m is member else m for m in moved.target])
            self.displaced.append(moved)
            to = member
        return to


def _zones_full(item: Item, target: list[AllocatorMember]) -> tuple[str, ...]:
    """Zones which would hold the whole item with one more replica."""
    if item.replication != len(target) + 1 or not target:
        return ()
    zone = target[0].zone
    return (zone,) if all(member.zone == zone for member in target) else ()


def _may_keep(item: Item, member: AllocatorMember) -> bool:
    return len(member.wanted) - (item.id in member.wanted) < member.capacity


def _may_enter(item: Item, member: AllocatorMember) -> bool:
    """Return whether the member has room once another item has left. A member that serves more than its limit may never
    get below it.
    """
    if item.id in member.serves:
        return len(member.wanted) <= member.capacity
    return member.occupancy <= member.capacity


def _exits(
    member: AllocatorMember,
    members: list[AllocatorMember],
    seen: dict[str, tuple[AllocatorMember, Item] | None],
    staying: Item,
    *,
    keeps_spread: bool,
) -> list[tuple[Item, AllocatorMember]]:
    """Return where a member's items could move, one for each member that was not looked at yet."""
    open_to = {other.name: other for other in members if other.name not in seen}
    exits: list[tuple[Item, AllocatorMember]] = []
    for item in islice(member.wanted.values(), _DISPLACED_SCAN):
        if not open_to:
            break
        if item is not staying:
            for other in [o for o in open_to.values() if _may_exchange(item, member, o, keeps_spread=keeps_spread)]:
                exits.append((item, other))
                del open_to[other.name]
    return exits


def _serving(item: Item) -> set[str]:
    return {assignment.member.name for assignment in item.assignments.values()}


def _may_exchange(item: Item, leaving: AllocatorMember, coming: AllocatorMember, *, keeps_spread: bool) -> bool:
    if coming in item.target or not _may_enter(item, coming):
        return False
    if not keeps_spread:
        return True
    after = [coming if member is leaving else member for member in item.target]
    return is_spread(after) or not is_spread(item.target)


def _reduced(members: list[AllocatorMember], replication: int) -> list[AllocatorMember]:
    """Return as many members as are needed: the fullest leave first, the primary last, and two zones stay two."""
    members = list(members)
    while len(members) > replication:
        without = [[m for m in members if m is not leaving] for leaving in members]
        worst = max(
            range(len(members)),
            key=lambda at: (is_spread(without[at]) or replication < 2, at > 0, members[at].fill, members[at].name),
        )
        del members[worst]
    return members
