"""The allocator: who serves which item. It follows the mirror, and says which transactions bring the two together.

Design: gazette.md §1.5, journals.md J14. Every member follows; the one whose key is the oldest leads and acts. What a
plan does is judged from one state of the mirror and guarded by compares, so a plan that came too late does nothing, and
one that is made twice does its work once. Between two plans the mirror must have caught up with what the first did.

Cost: a change costs in proportion to the items it touches, not to all there are. A plan looks at no more than
`items_max` items, so that its maker can do other work in between.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from penstock.kernel.errors import PenstockError
from penstock.kernel.probes import reached
from penstock.keyspace.core.allocator.balance import find_moves
from penstock.keyspace.core.allocator.layout import PRIMARY_SLOT, Layout, MemberId
from penstock.keyspace.core.allocator.placement import Placement
from penstock.keyspace.core.allocator.policy import Capacity, Policy
from penstock.keyspace.core.allocator.ranking import Ranking, is_spread
from penstock.keyspace.core.allocator.state import AllocatorMember, Item, ItemAssignment
from penstock.keyspace.core.allocator.steps import AllocationBatch, AllocationStep, Stepper, pack
from penstock.keyspace.core.allocator.suspicion import Suspicions, leader_of
from penstock.keyspace.core.limits import check_transaction
from penstock.keyspace.core.mirror import EntryChange, MirrorEntry
from penstock.keyspace.core.transaction import is_unchanged

__all__ = ["ITEMS_MAX", "MOVES_MAX", "Allocator"]

ITEMS_MAX: Final = 250  # looked at in one plan, which then takes some tens of milliseconds
VOICES_MAX: Final = 16  # suspicions that a transaction compares
MOVES_MAX: Final = 200  # items which move for balance alone, at a time
_NOTHING: Final = Capacity(0)
T = TypeVar("T")


class Allocator:
    """Knows the state of one root, and plans. `load` it once, then `apply` every change, and `plan` while it leads."""

    def __init__(self, root: str, policy: Policy, *, moves_max: int = MOVES_MAX) -> None:
        self.layout = Layout(root)
        self._policy = policy
        self._moves_max = moves_max
        self._items: dict[str, Item] = {}
        self._ranking = Ranking()
        self._placement = Placement(self._ranking)
        self._suspicions = Suspicions(self.layout)
        self._away: frozenset[str] = frozenset()
        self._dirty: OrderedDict[str, None] = OrderedDict()  # items to look at; taking the first of many is cheap here
        self._moving: set[str] = set()  # items which are to be served by others than now,
        self._rebalanced: set[str] = set()  # and those of them which move for balance alone
        self._waiting: dict[str, dict[str, None]] = {}  # member → items which wait until it has room
        self._bereft: dict[str, None] = {}  # items none of whose preferred members serves them
        self._is_balanced = False
        self._aside: dict[str, str] = {}  # items for which no transaction can be made, and why

    # Asking

    @property
    def is_settled(self) -> bool:
        """Return whether the placement is as good as it can be."""
        return not self._dirty and self._is_balanced and not self._ranking.has_room_freed

    @property
    def is_idle(self) -> bool:
        """Return whether the next plan would be empty. Moves may still be under way that other members have to end."""
        is_balancing = not self._is_balanced and len(self._rebalanced) < self._moves_max
        return not self._dirty and not is_balancing and not self._ranking.has_room_freed

    @property
    def short_items(self) -> list[str]:
        """Items for which there are not enough members with room."""
        return sorted(self._placement.short)

    @property
    def bereft_items(self) -> list[str]:
        """Items that none of their preferred members serves. For a journal, those are the members that hold its last
        bytes.
        """
        return sorted(self._bereft)

    @property
    def gathered_items(self) -> list[str]:
        """Items all of whose members are in one zone, because no other zone has room."""
        return sorted(self._placement.gathered)

    @property
    def aside_items(self) -> dict[str, str]:
        """Items that were set aside, because no transaction can be made for them, and why. They stop no other item, and
        are looked at again when they or the members change.
        """
        return dict(self._aside)

    def target_of(self, item_id: str) -> list[str]:
        """The members an item should have."""
        item = self._items.get(item_id)
        return [] if item is None else [member.name for member in item.target]

    @property
    def moving_items(self) -> list[str]:
        return sorted(self._moving)

    # Following the mirror

    def load(self, entries: Iterable[MirrorEntry]) -> None:
        """Begin with what the mirror has under the root. Keeping comes first, so that new items see who is full."""
        assert not self._items, "an allocator is loaded once"
        assigned: list[MirrorEntry] = []
        others: list[EntryChange] = []
        for entry in entries:
            if entry.key.startswith(self.layout.assignments):
                assigned.append(entry)
            else:
                others.append(EntryChange(entry.stored.mod_revision, entry.key, None, entry))
        self.apply(others)
        for entry in assigned:
            self._assign(entry)
        for item in sorted(self._items.values(), key=lambda item: len(item.assignments) > item.replication):
            self._placement.keep(item)
            if self._is_in_place(item) and not (self._preferred(item) and item.id in self._bereft):
                self._dirty.pop(item.id, None)
                self._placement.note_spread(item)
            else:
                self._dirty[item.id] = None
        for member in self._ranking.members.values():
            self._ranking.changed(member)

    def _assign(self, entry: MirrorEntry) -> None:
        """Learn of an assignment."""
        place = self.layout.parse_assignment(entry.key)
        member = None if place is None else self._member(place.member)
        if place is not None and member is not None:
            item = self._item(place.item)
            item.assignments[entry.key] = ItemAssignment(entry, item.id, member, place.slot)
            member.serve(item.id)
            member.primaries += item.load * (place.slot == PRIMARY_SLOT)

    def _is_in_place(self, item: Item) -> bool:
        """Return whether nothing has to change for this item."""
        return (
            len(item.target) == len(item.assignments) == item.replication
            and item.demand is not None
            and all(assignment.member in item.target for assignment in item.assignments.values())
            and sum(assignment.is_primary for assignment in item.assignments.values()) == min(1, item.replication)
            and all(len(member.wanted) <= member.capacity for member in item.target)
            and (is_spread(item.target) or self._ranking.zone_count < 2)
        )

    def apply(self, changes: Iterable[EntryChange]) -> None:
        """Take what became of keys under the root. Members come first: an assignment names one."""
        items: list[EntryChange] = []
        assignments: list[EntryChange] = []
        others: list[EntryChange] = []
        for change in changes:
            if change.key.startswith(self.layout.assignments):
                assignments.append(change)
            elif change.key.startswith(self.layout.items):
                items.append(change)
            elif change.key.startswith(self.layout.members):
                self._apply_member(change)
            elif change.key.startswith(self.layout.suspects):
                self._suspicions.note(change.key, change.after)
            else:
                others.append(change)
        self._judge()
        for change in items:
            self._apply_item(change)
        for change in others:
            self._apply_other(change)
        for change in assignments:
            self._apply_assignment(change)

    def _apply_member(self, change: EntryChange) -> None:
        member = self._member(change.key.removeprefix(self.layout.members))
        if member is None:
            return
        member.entry = change.after
        self._offer(member)
        self._drop_if_gone(member)

    def _judge(self) -> None:
        """Note which members the others cannot reach by now."""
        away = self._suspicions.away(m.name for m in self._ranking.members.values() if m.entry is not None)
        changed, self._away = away ^ self._away, away
        for name in sorted(changed):
            member = self._ranking.members.get(name)
            if member is not None:
                reached("allocator.away" if name in away else "allocator.back")
                member.is_away = name in away
                self._offer(member)

    def _offer(self, member: AllocatorMember) -> None:
        """Read what a member offers: nothing, if it is gone, or exits, or is away."""
        before = member.capacity
        offered = None if member.entry is None else _asked(self._policy.capacity, member.entry)
        offered = offered or _NOTHING
        member.is_exiting = offered.is_exiting
        capacity = 0 if offered.is_exiting or member.is_away else offered.limit
        self._ranking.resize(member, capacity)
        self._is_balanced = False
        self._dirty.update(dict.fromkeys(self._aside))
        if capacity < before or member.entry is None:
            self._dirty.update(dict.fromkeys([*member.wanted, *member.serves]))
        if capacity > before:
            self._dirty.update(self._waiting.pop(member.name, {}))
            self._dirty.update(self._bereft)

    def _apply_item(self, change: EntryChange) -> None:
        item = self._item(change.key.removeprefix(self.layout.items))
        item.entry = change.after
        self._read_demand(item)

    def _apply_other(self, change: EntryChange) -> None:
        item = self._items.get(self._policy.item_of(change.key) or "")
        if item is not None:
            self._read_demand(item)

    def _read_demand(self, item: Item) -> None:
        """Read again what the item needs, which may have changed."""
        demand = None if item.entry is None else _asked(self._policy.demand, item.entry)
        if demand != item.demand:
            self._ranking.demand -= item.replication * item.load
            item.demand = demand
            item.replication = 0 if demand is None else demand.replication
            self._weigh(item, item.load if demand is None else demand.load)
            self._ranking.demand += item.replication * item.load
            self._is_balanced = False
        self._touch(item.id)

    def _apply_assignment(self, change: EntryChange) -> None:
        place = self.layout.parse_assignment(change.key)
        if place is None:
            return
        item = self._item(place.item)
        before = item.assignments.get(change.key)
        if change.after is None:
            if before is not None:
                self._unassign(item, before)
        elif before is not None:
            before.entry = change.after
        else:
            self._assign(change.after)
            self._rank(item, place.member)
        self._touch(item.id)

    def _unassign(self, item: Item, assignment: ItemAssignment) -> None:
        member = assignment.member
        del item.assignments[assignment.entry.key]
        member.unserve(item.id)
        member.primaries -= item.load * assignment.is_primary
        self._ranking.has_room_freed = True
        self._dirty.update(self._waiting.pop(member.name, {}))
        self._rank(item, member.name)
        self._drop_if_gone(member)

    def _rank(self, item: Item, member_name: str) -> None:
        """A member may have more room, or less: unless the item was counted anyway, because it is wanted there."""
        member = self._ranking.members.get(member_name)
        if member is not None and item.id not in member.wanted:
            self._ranking.changed(member)

    def _weigh(self, item: Item, load: float) -> None:
        item.weigh(load)
        for member in item.target:
            self._ranking.changed(member)

    def _member(self, name: str) -> AllocatorMember | None:
        member = self._ranking.members.get(name)
        if member is None:
            zone, _, suffix = name.partition("#")
            if not zone or not suffix or "#" in suffix:
                return None
            member = self._ranking.members[name] = AllocatorMember(name, zone)
        return member

    def _item(self, item_id: str) -> Item:
        item = self._items.get(item_id)
        if item is None:
            item = self._items[item_id] = Item(item_id)
        return item

    def _drop_if_gone(self, member: AllocatorMember) -> None:
        if member.entry is None and not member.serves and not member.wanted:
            self._ranking.members.pop(member.name, None)

    def _touch(self, item_id: str | None) -> None:
        if item_id is not None and item_id in self._items:
            self._dirty[item_id] = None

    # Planning

    def plan(self, me: MemberId, *, items_max: int = ITEMS_MAX) -> list[AllocationBatch]:
        """Return the batches to carry out now. Empty if there is nothing to do until something changes, or if another
        member leads.
        """
        members = [m.entry for m in self._ranking.members.values() if m.entry is not None]
        leader = leader_of(members, self._away, self.layout.members)
        if leader is None or leader.key != self.layout.member_key(me):
            return []
        voices = [is_unchanged(each.stored) for name in sorted(self._away) for each in self._suspicions.entries(name)]
        self._place_again()
        if not self._dirty and not self._is_balanced:
            self._balance()
        stepper = Stepper(self.layout, self._policy)
        steps: dict[str, AllocationStep | None] = {}
        again: dict[str, None] = {}  # displaced after their step was made: the next plan sees the result
        while self._dirty and len(steps) < items_max:
            item_id, _ = self._dirty.popitem(last=False)
            if item_id in steps:
                again[item_id] = None
            else:
                steps[item_id] = self._step_of(item_id, stepper)
        self._dirty.update(again)
        for member, item_id in stepper.waiting:
            self._waiting.setdefault(member, {})[item_id] = None
        return list(pack(filter(None, steps.values()), [is_unchanged(leader.stored), *voices[:VOICES_MAX]]))

    def retry(self, batch: AllocationBatch) -> None:
        """Look at a batch's items again, because the batch lost a compare or its outcome is unknown."""
        for item_id in batch.items:
            self._touch(item_id)

    def _place_again(self) -> None:
        """Look again at items that could not be placed well and may find room now."""
        if self._ranking.has_room_freed:
            self._ranking.has_room_freed = False
            for item in self._placement.room_was_freed():
                self._touch(item.id)

    def _step_of(self, item_id: str, stepper: Stepper) -> AllocationStep | None:
        """Return the item's next step. An item for which none can be made is set aside."""
        self._aside.pop(item_id, None)
        try:
            step = self._look_at(item_id, stepper)
            if step is not None:
                check_transaction(step.transaction)
        except PenstockError as error:
            self._aside[item_id] = str(error)
            return None
        return step

    def _look_at(self, item_id: str, stepper: Stepper) -> AllocationStep | None:
        item = self._items.get(item_id)
        if item is None:
            return None
        preferred = self._preferred(item)
        is_bereft = item.id in self._bereft
        if self._is_in_place(item) and not (preferred and is_bereft):
            self._note_moving(item)
            return None
        if item.demand is not None:
            self._placement.keep(item)
            self._placement.complete(item, preferred, needs_one=is_bereft)
            self._note_displaced()
        else:
            self._ranking.retarget(item, [])
            self._placement.forget(item)
            if item.entry is None and not item.assignments:
                del self._items[item.id]
        self._note_moving(item)
        return stepper.step(item)

    def _preferred(self, item: Item) -> list[AllocatorMember]:
        """Members which should have the item before others, and have room for it. Notes whether it has none of them."""
        names = _asked(self._policy.preferred, item.entry) if item.entry is not None and item.demand is not None else ()
        serving = [each for each in item.assignments.values() if each.member.name in (names or ())]
        if names and not any(each.entry.stored.value for each in serving):
            self._bereft[item.id] = None  # a preferred member that came back may have come without its content
            here = {each.member.name for each in serving}
            names = [name for name in names if name not in here]
        else:
            self._bereft.pop(item.id, None)
        members = (self._ranking.members.get(name) for name in names or ())
        return [member for member in members if member is not None and member.has_room]

    def _balance(self) -> None:
        room = self._moves_max - len(self._rebalanced)
        moved = find_moves(self._ranking, self._moving, room)
        self._is_balanced = len(moved) < room
        for item in moved:
            self._rebalanced.add(item.id)
            self._touch(item.id)

    def _note_displaced(self) -> None:
        for item in self._placement.displaced:
            self._touch(item.id)
        self._placement.displaced.clear()

    def _note_moving(self, item: Item) -> None:
        serving = {assignment.member.name for assignment in item.assignments.values()}
        if item.demand is not None and serving != {member.name for member in item.target}:
            self._moving.add(item.id)
        elif item.id in self._moving:
            self._moving.remove(item.id)
            self._rebalanced.discard(item.id)
            self._is_balanced = False  # while it moved, it could not be moved for balance

    def check(self) -> None:
        """Assert every invariant."""
        for member in self._ranking.members.values():
            assert len(member.wanted) - member.capacity <= sum(i in self._dirty for i in member.wanted), member.name
            assert member.occupancy == len({*member.wanted, *member.serves}), member.name
            for item in member.wanted.values():
                assert member in item.target
            for item_id in member.serves:
                assert any(a.member is member for a in self._items[item_id].assignments.values())
            assert abs(member.load - sum(item.load for item in member.wanted.values())) < 1e-6 * (1 + member.load)
        for item in self._items.values():
            assert len({member.name for member in item.target}) == len(item.target)
            assert len(item.target) <= item.replication or item.id in self._dirty
            assert all(item.id in member.wanted for member in item.target)
            assert all(item.id in a.member.serves for a in item.assignments.values())


def _asked(question: Callable[[MirrorEntry], T], entry: MirrorEntry) -> T | None:
    """Return the policy's answer, or None if it cannot read the value: one bad value must not stop the rest."""
    try:
        return question(entry)
    except PenstockError:
        return None
