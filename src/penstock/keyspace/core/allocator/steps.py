"""One step of one item towards its target, as compares and operations; and many steps packed into transactions.

Design: gazette.md §1.5, journals.md J14. What always holds for a step:

- It adds, or it removes, never both: a new assignment is not consistent yet, and only consistent replicas let others
  leave.
- A removal leaves as many consistent replicas as the item needs. A member that the others cannot reach is *passed
  over*: it leaves as soon as the policy allows it.
- The compares of a step that changes who serves an item name everything it was judged by: the item, all its
  assignments, and the guards of the policy.
- Afterwards exactly one assignment has slot 0, if there is any: a consistent one, if there is one.
- No member gets more items than its limit, counting what other steps of the same plan add.

Slots are not packed: a new assignment takes the lowest free one, and one that moved would be a new key to its member.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.kernel.errors import PenstockError
from penstock.keyspace.core.allocator.layout import PRIMARY_SLOT, Layout
from penstock.keyspace.core.allocator.policy import Policy
from penstock.keyspace.core.allocator.state import AllocatorMember, Item, ItemAssignment
from penstock.keyspace.core.limits import OPERATIONS_MAX, TRANSACTION_BYTES_MAX
from penstock.keyspace.core.transaction import (
    Compare,
    DeleteKey,
    Operation,
    PutKey,
    Transaction,
    is_absent,
    is_unchanged,
)

__all__ = ["AllocationBatch", "AllocationStep", "Stepper", "pack"]

_BYTES_MAX: Final = TRANSACTION_BYTES_MAX // 2  # with room for what a backend adds


@dataclass(slots=True)
class AllocationStep:
    """What to do for one item now, as a whole or not at all."""

    item: str
    compares: dict[str, Compare] = field(default_factory=dict)  # by key, so that none occurs twice
    operations: list[Operation] = field(default_factory=list)

    def require(self, compares: Iterable[Compare]) -> None:
        self.compares.update((compare.key, compare) for compare in compares)

    @property
    def transaction(self) -> Transaction:
        return Transaction(tuple(self.compares.values()), tuple(self.operations))


@dataclass(slots=True)
class AllocationBatch:
    """Steps in one transaction. If it loses a compare, all its items are looked at again."""

    transaction: Transaction
    items: list[str]


class Stepper:
    """Makes the steps of one plan, which all start from one state of the mirror."""

    def __init__(self, layout: Layout, policy: Policy) -> None:
        self._layout = layout
        self._policy = policy
        self.waiting: list[tuple[str, str]] = []  # (member, item): the member has no room until another item leaves
        self._added: dict[str, int] = {}  # member → items this plan gives it
        self._primaries: dict[str, float] = {}  # member → load this plan makes it primary of

    def step(self, item: Item) -> AllocationStep | None:
        """The next step, or None if the item must wait, or is where it should be."""
        step = AllocationStep(item.id)
        if item.entry is None:
            self._clear(item, step)
        elif item.demand is not None:
            self._converge(item, step)
        return step if step.operations else None

    def _clear(self, item: Item, step: AllocationStep) -> None:
        """Remove all assignments of a deleted item."""
        for assignment in item.sorted_assignments():
            step.require([is_unchanged(assignment.entry.stored)])
            step.operations.append(DeleteKey(assignment.entry.key))
        step.require([is_absent(self._layout.items + item.id)])

    def _converge(self, item: Item, step: AllocationStep) -> None:
        assert item.entry is not None
        assignments = item.sorted_assignments()
        alive, dead = _by_life(assignments)
        for assignment in dead:
            step.operations.append(DeleteKey(assignment.entry.key))
            if assignment.member.entry is None:
                step.require([is_absent(self._layout.members + assignment.member.name)])
        consistent = self._consistent(item, assignments, alive)
        passed = self._passed_over(item, alive)
        for member in passed:
            step.operations.append(DeleteKey(alive.pop(member).entry.key))
        wanted = [member for member in item.target if member.name not in alive]
        coming = [member for member in wanted if self._has_room(member)]
        self.waiting += [(member.name, item.id) for member in wanted if member not in coming]
        if passed:
            coming = []
        leaving = [] if coming or passed else _leaving(item, alive, consistent)
        for member in leaving:
            step.operations.append(DeleteKey(alive.pop(member).entry.key))
        self._seat(item, step, alive, coming, consistent, {assignment.slot for assignment in dead})
        if step.operations:
            step.require([is_unchanged(item.entry.stored)])
            is_joined = bool(alive and coming)
            if leaving or passed or is_joined:
                step.require(self._policy.guards(item.entry))
            if is_joined or any(isinstance(operation, DeleteKey) for operation in step.operations):
                step.require(is_unchanged(assignment.entry.stored) for assignment in assignments)

    def _passed_over(self, item: Item, alive: dict[str, ItemAssignment]) -> list[str]:
        """Return the members that most of the others cannot reach, if the rest may serve the item without them."""
        away = sorted(name for name, each in alive.items() if each.member.is_away)
        if not away:
            return []
        assert item.entry is not None
        rest = [each.entry for name, each in sorted(alive.items()) if name not in away]
        coming = sum(member.name not in alive and self._has_room(member) for member in item.target)
        try:
            return away if self._policy.may_pass_over(item.entry, rest, coming) else []
        except PenstockError:
            return []

    def _consistent(
        self, item: Item, assignments: Sequence[ItemAssignment], alive: dict[str, ItemAssignment]
    ) -> set[str]:
        """The members whose assignment is consistent. The policy is asked only if a member is to leave, or to lead."""
        is_asked = any(a.member not in item.target for a in alive.values()) or all(a.slot for a in alive.values())
        if not alive or not is_asked:
            return set()
        assert item.entry is not None
        try:
            flags = self._policy.consistent(item.entry, [assignment.entry for assignment in assignments])
        except PenstockError:
            return set()  # what cannot be read is not consistent
        return {a.member.name for a, is_consistent in zip(assignments, flags, strict=True) if is_consistent}

    def _has_room(self, member: AllocatorMember) -> bool:
        """Return whether the member has room, counting the items that it still serves: an item on its way out has not
        left yet.
        """
        return len(member.serves) + self._added.get(member.name, 0) < member.capacity

    def _seat(
        self,
        item: Item,
        step: AllocationStep,
        alive: dict[str, ItemAssignment],
        coming: list[AllocatorMember],
        consistent: set[str],
        taken: set[int],
    ) -> None:
        """Choose one primary, and give every new member a slot of its own."""
        taken |= {assignment.slot for assignment in alive.values()}
        primaries = sorted((a for a in alive.values() if a.is_primary), key=_age)
        for assignment in primaries[1:]:  # an accident: two of them
            self._reseat(step, assignment, _free_slot(taken))
        primary_comes = None
        if not primaries and alive:
            wanted = {member.name for member in item.target}
            chosen = min(
                alive.values(),
                key=lambda a: (a.member.name not in consistent, a.member.name not in wanted, *self._leads(a.member)),
            )
            self._reseat(step, chosen, PRIMARY_SLOT)
            self._lead(chosen.member, item)
        elif not primaries and coming:
            primary_comes = min(coming, key=self._leads)
            self._lead(primary_comes, item)
        for member in coming:
            self._add(item, step, member, PRIMARY_SLOT if member is primary_comes else _free_slot(taken))

    def _add(self, item: Item, step: AllocationStep, member: AllocatorMember, slot: int) -> None:
        assert member.entry is not None
        key = self._layout.assignment_key(item.id, member.name, slot)
        step.require([is_unchanged(member.entry.stored), is_absent(key)])
        step.operations.append(PutKey(key, b"", member.entry.stored.lease))
        self._added[member.name] = self._added.get(member.name, 0) + 1

    def _reseat(self, step: AllocationStep, assignment: ItemAssignment, slot: int) -> None:
        stored = assignment.entry.stored
        key = self._layout.assignment_key(assignment.item, assignment.member.name, slot)
        step.operations += [DeleteKey(stored.key), PutKey(key, stored.value, stored.lease)]
        step.require([is_unchanged(stored), is_absent(key)])

    def _leads(self, member: AllocatorMember) -> tuple[float, str]:
        return member.primaries + self._primaries.get(member.name, 0.0), member.name

    def _lead(self, member: AllocatorMember, item: Item) -> None:
        self._primaries[member.name] = self._primaries.get(member.name, 0.0) + item.load


def _by_life(assignments: Sequence[ItemAssignment]) -> tuple[dict[str, ItemAssignment], list[ItemAssignment]]:
    """Return one assignment of each living member, and the assignments to sweep away: doubles, and those of members
    that are gone.
    """
    alive: dict[str, ItemAssignment] = {}
    dead: list[ItemAssignment] = []
    for assignment in sorted(assignments, key=lambda a: (a.slot, a.member.name)):
        if assignment.member.entry is None or assignment.member.name in alive:
            dead.append(assignment)
        else:
            alive[assignment.member.name] = assignment
    return alive, dead


def _leaving(item: Item, alive: dict[str, ItemAssignment], consistent: set[str]) -> list[str]:
    """Return the members that may leave: not wanted, while as many consistent ones stay as the item needs."""
    if not item.replication and len(consistent) < len(alive):
        return []  # no member stays, so each must have the same data as the others
    staying = dict(alive)
    leaving: list[str] = []
    unwanted = [a.member for a in alive.values() if a.member not in item.target]
    for member in sorted(unwanted, key=lambda m: (not m.is_exiting, -m.fill, m.name)):
        rest = [name for name in staying if name != member.name]
        if sum(name in consistent for name in rest) >= item.replication:
            del staying[member.name]
            leaving.append(member.name)
    return leaving


def _age(assignment: ItemAssignment) -> tuple[int, str]:
    return assignment.entry.stored.create_revision, assignment.entry.key


def _free_slot(taken: set[int]) -> int:
    slot = next(slot for slot in range(1, len(taken) + 2) if slot not in taken)
    taken.add(slot)
    return slot


def pack(steps: Iterable[AllocationStep], leads: Sequence[Compare]) -> Iterator[AllocationBatch]:
    """Steps as transactions within the KeySpace's limits. Each also compares that its maker still leads."""
    compares = {each.key: each for each in leads}
    operations: list[Operation] = []
    items: list[str] = []
    size = 0
    for step in steps:
        step_size = sum(map(_size, step.operations)) + sum(len(key) + 16 for key in step.compares)
        new_compares = sum(key not in compares for key in step.compares)
        if items and (
            len(compares) + new_compares > OPERATIONS_MAX
            or len(operations) + len(step.operations) > OPERATIONS_MAX
            or size + step_size > _BYTES_MAX
        ):
            yield AllocationBatch(Transaction(tuple(compares.values()), tuple(operations)), items)
            compares = {each.key: each for each in leads}
            operations, items, size = [], [], 0
        compares.update(step.compares)
        operations += step.operations
        items.append(step.item)
        size += step_size
    if items:
        yield AllocationBatch(Transaction(tuple(compares.values()), tuple(operations)), items)


def _size(operation: Operation) -> int:
    return len(operation.key) + (len(operation.value) if isinstance(operation, PutKey) else 0) + 16
