"""A step does what an item needs next; packed, whatever the steps are, transactions stay within limits, untorn."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.allocator.policy import Capacity, Demand
from penstock.keyspace.core.allocator.state import AllocatorMember, Item, ItemAssignment
from penstock.keyspace.core.allocator.steps import AllocationStep, Stepper, pack
from penstock.keyspace.core.limits import check_transaction
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.records import KeyValue, LeaseId
from penstock.keyspace.core.transaction import Compare, DeleteKey, Operation, PutKey, is_absent, is_at

LEADER = is_at("leader", Revision(7))


def step_of(number: int, operations: int, value_bytes: int) -> AllocationStep:
    step = AllocationStep(f"item-{number}")
    for index in range(operations):
        key = f"item-{number}/{index}"
        step.operations.append(PutKey(key, bytes(value_bytes)))
        step.require([is_at(key, Revision(0)), is_at("shared", Revision(3))])
    return step


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from([0, 100, 9_000])), max_size=40))
def test_every_step_is_in_one_allowed_transaction_with_its_compares(sizes: list[tuple[int, int]]) -> None:
    steps = [step_of(number, *size) for number, size in enumerate(sizes)]
    batches = list(pack(steps, [LEADER]))
    assert [item for batch in batches for item in batch.items] == [step.item for step in steps]
    for batch in batches:
        check_transaction(batch.transaction)
        assert batch.transaction.compares[0] == LEADER
        packed = [step for step in steps if step.item in batch.items]
        assert list(batch.transaction.then) == [operation for step in packed for operation in step.operations]
        assert {c.key for c in batch.transaction.compares} == {"leader"} | {k for s in packed for k in s.compares}


def test_small_steps_share_a_transaction() -> None:
    batches = list(pack([step_of(number, 1, 10) for number in range(200)], [LEADER]))
    assert [len(batch.items) for batch in batches] == [126, 74]


def test_no_steps_are_no_transaction() -> None:
    assert list(pack([], [LEADER])) == []


# Steps of an item whose replicas become consistent one by one, as those of a consumer do


class ConsumerPolicy:
    def demand(self, item: MirrorEntry) -> Demand:
        return Demand(2)

    def capacity(self, member: MirrorEntry) -> Capacity:
        return Capacity(10)

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        return [entry.value == b"standby" for entry in assignments]

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        return [is_at("guard", Revision(5))]

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        return ()

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        return False

    def item_of(self, key: str) -> str | None:
        return None


def entry(key: str, value: bytes = b"", lease: int = 0) -> MirrorEntry:
    return MirrorEntry(KeyValue(key, value, Revision(2), Revision(2), 1, LeaseId(lease)), value)


def item_with(*assigned: tuple[str, int, bytes], target: str) -> Item:
    """Members are letters; `target` names those it should have."""
    members = {
        name: AllocatorMember(f"z#{name}", "z", entry(f"/r/members/z#{name}", lease=ord(name))) for name in "abcd"
    }
    for member in members.values():
        member.capacity = 10
    item = Item("x", entry("/r/items/x"), Demand(2), replication=2)
    for name, slot, value in assigned:
        key = f"/r/assign/x#z#{name}#{slot}"
        item.assignments[key] = ItemAssignment(entry(key, value, ord(name)), "x", members[name], slot)
        members[name].serve("x")
    item.retarget([members[name] for name in target])
    return item


def operations(item: Item) -> list[Operation]:
    step = Stepper(Layout("/r"), ConsumerPolicy()).step(item)
    return [] if step is None else step.operations


def test_what_is_as_it_should_be_needs_no_step() -> None:
    assert operations(item_with(("a", 0, b""), ("b", 1, b""), target="ab")) == []


def test_a_consistent_replica_is_promoted_before_one_that_is_not() -> None:
    item = item_with(("a", 1, b"backfill"), ("b", 2, b"standby"), target="ab")
    assert operations(item) == [
        DeleteKey("/r/assign/x#z#b#2"),
        PutKey("/r/assign/x#z#b#0", b"standby", LeaseId(ord("b"))),
    ]


def test_a_primary_leaves_when_two_others_are_consistent_and_one_of_them_leads_at_once() -> None:
    behind = item_with(("a", 0, b"standby"), ("b", 1, b"standby"), ("c", 2, b"backfill"), target="bc")
    assert operations(behind) == []
    ready = item_with(("a", 0, b"standby"), ("b", 1, b"standby"), ("c", 2, b"standby"), target="bc")
    assert operations(ready) == [
        DeleteKey("/r/assign/x#z#a#0"),
        DeleteKey("/r/assign/x#z#b#1"),
        PutKey("/r/assign/x#z#b#0", b"standby", LeaseId(ord("b"))),
    ]


def test_a_removal_compares_all_it_was_judged_by() -> None:
    item = item_with(("a", 0, b"standby"), ("b", 1, b"standby"), ("c", 2, b"standby"), target="ab")
    step = Stepper(Layout("/r"), ConsumerPolicy()).step(item)
    assert step is not None
    judged_by = ["/r/items/x", "/r/assign/x#z#a#0", "/r/assign/x#z#b#1", "/r/assign/x#z#c#2"]
    assert sorted(step.compares) == sorted([*judged_by, "guard"])


def test_an_addition_takes_the_lowest_free_slot_under_its_members_lease() -> None:
    item = item_with(("a", 0, b"standby"), ("b", 2, b"standby"), target="ac")
    step = Stepper(Layout("/r"), ConsumerPolicy()).step(item)
    assert step is not None
    assert step.operations == [PutKey("/r/assign/x#z#c#1", b"", LeaseId(ord("c")))]
    assert is_absent("/r/assign/x#z#c#1") in step.compares.values()
    judged_by = ["/r/assign/x#z#a#0", "/r/assign/x#z#b#2", "/r/items/x", "/r/members/z#c", "guard"]
    assert sorted(step.compares) == sorted(["/r/assign/x#z#c#1", *judged_by])


def test_what_a_dead_member_left_behind_is_swept_away() -> None:
    item = item_with(("a", 0, b"standby"), ("b", 1, b"standby"), ("d", 2, b"standby"), target="ab")
    item.assignments["/r/assign/x#z#d#2"].member.entry = None
    step = Stepper(Layout("/r"), ConsumerPolicy()).step(item)
    assert step is not None
    assert step.operations == [DeleteKey("/r/assign/x#z#d#2")]
    assert is_absent("/r/members/z#d") in step.compares.values()


def test_a_member_without_room_is_waited_for() -> None:
    item = item_with(("a", 0, b"standby"), target="ab")
    item.target[1].capacity = 0
    stepper = Stepper(Layout("/r"), ConsumerPolicy())
    assert stepper.step(item) is None
    assert stepper.waiting == [("z#b", "x")]
