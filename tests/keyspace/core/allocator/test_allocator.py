"""Every item gets its members, none is taken away before others serve in its place, and nothing moves without need."""

from functools import partial
from random import Random

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.keyspace.core.allocator.world import World

from penstock.keyspace.core.allocator import Demand, MemberId
from penstock.keyspace.core.transaction import PutKey


def zones_of(world: World, name: str) -> set[str]:
    return {member.partition("#")[0] for member in world.members_of(name)}


def three_zones(limit: int = 100) -> World:
    world = World()
    for zone in "abc":
        world.join(zone, "one", limit)
    return world


# By hand


def test_a_new_item_gets_its_members_in_one_round_with_one_primary() -> None:
    world = three_zones()
    world.item("x", 3)
    world.round()
    assert world.members_of("x") == {"a#one", "b#one", "c#one"}
    assert sorted(slot for _, slot in world.routes()["x"]) == [0, 1, 2]


def test_an_item_for_which_no_transaction_can_be_made_is_set_aside_and_stops_no_other() -> None:
    """D20: the key of an assignment would be too long."""
    world = three_zones()
    bad = "x" * 2_030
    world.put(PutKey(world.allocator.layout.items + bad, msgspec.json.encode(Demand(3, 1.0))))
    world.item("y", 3)
    world.settle()
    assert world.members_of("y") == {"a#one", "b#one", "c#one"}
    assert world.members_of(bad) == set()
    assert "key" in world.allocator.aside_items[bad]


def test_assignments_hang_on_their_members_lease() -> None:
    world = three_zones()
    world.item("x", 3)
    world.round()
    world.leave(MemberId("b", "one"))
    assert world.members_of("x") == {"a#one", "c#one"}


def test_replicas_and_primaries_are_shared_evenly() -> None:
    world = three_zones()
    for number in range(30):
        world.item(f"item-{number:02}", 2)
    world.settle()
    assert set(world.counts().values()) == {20}
    primaries = [member for route in world.routes().values() for member, slot in route if slot == 0]
    assert sorted(primaries.count(f"{zone}#one") for zone in "abc") == [10, 10, 10]


def test_load_counts_and_not_the_number_of_items() -> None:
    world = three_zones()
    for name in ("big-1", "big-2"):
        world.item(name, 1, load=100)
    for number in range(100):
        world.item(f"small-{number:02}", 1)
    world.settle()
    loads = dict.fromkeys(world.counts(), 0.0)
    for item, member in world.assigned():
        loads[member] += world.demands()[item].load
    assert sorted(loads.values()) == [100, 100, 100]


def test_measured_load_moves_others_away() -> None:
    world = three_zones()
    for number in range(9):
        world.item(f"item-{number}", 1)
    world.settle()
    hot = "item-4"
    world.measure(hot, 4.0)
    world.settle()
    (member,) = world.members_of(hot)
    assert world.counts()[member] == 1
    assert sorted(world.counts().values()) == [1, 4, 4]


def test_a_fair_share_is_in_proportion_to_the_limit() -> None:
    world = World()
    world.join("a", "small", 10)
    world.join("a", "large", 30)
    for number in range(20):
        world.item(f"item-{number:02}", 1)
    world.settle()
    assert world.counts() == {"a#small": 5, "a#large": 15}


def test_a_member_that_died_is_replaced_and_somebody_else_leads_the_item() -> None:
    world = three_zones()
    world.join("c", "two", 100)
    world.item("x", 3)
    world.settle()
    primary = next(member for member, slot in world.routes()["x"] if slot == 0)
    world.leave(MemberId.parse(primary))
    world.settle()
    assert len(world.members_of("x")) == 3
    assert [slot for _, slot in world.routes()["x"]].count(0) == 1
    assert world.removed == []


def test_who_is_consistent_leads_before_who_is_not() -> None:
    world = three_zones()
    world.item("x", 2)
    world.settle()
    primary = next(member for member, slot in world.routes()["x"] if slot == 0)
    (survivor,) = world.members_of("x") - {primary}
    world.leave(MemberId.parse(primary))
    world.round()
    assert next(member for member, slot in world.routes()["x"] if slot == 0) == survivor


def test_a_leaving_member_is_relieved_and_no_item_is_below_its_replication_meanwhile() -> None:
    world = three_zones()
    spare = world.join("b", "two", 100)
    for number in range(20):
        world.item(f"item-{number:02}", 3)
    world.settle()
    world.offer(spare, 100, is_exiting=True)
    world.settle()
    assert world.counts()["b#two"] == 0
    assert all(len(world.members_of(name)) == 3 for name in world.demands())


def test_a_leaving_member_nobody_can_replace_keeps_what_it_has() -> None:
    world = three_zones()
    world.item("x", 3)
    world.settle()
    world.offer(MemberId("a", "one"), 100, is_exiting=True)
    world.settle()
    assert world.members_of("x") == {"a#one", "b#one", "c#one"}
    assert world.allocator.short_items == ["x"]


def test_nothing_is_removed_while_inconsistent() -> None:
    world = three_zones()
    world.item("x", 3)
    world.round()
    world.item("x", 2)
    for _ in range(5):
        world.round()
    assert len(world.members_of("x")) == 3
    world.sync()
    world.round()
    assert len(world.members_of("x")) == 2


def test_who_comes_must_be_consistent_before_anybody_leaves() -> None:
    world = three_zones()
    world.item("x", 3)
    world.settle()
    world.join("d", "one", 100)
    world.item("x", 2)
    leaving = world.allocator.target_of("x")[0]
    world.offer(MemberId.parse(leaving), 100, is_exiting=True)
    world.catch_up()
    world.offer(MemberId("d", "one"), 1)  # seen in the same round: one place to fill, and two members too many
    others = {"a#one", "b#one", "c#one"} - {leaving}
    for other in others - {min(others)}:
        world.offer(MemberId.parse(other), 0)
    world.round()
    assert world.added[-1] == "x d#one"
    assert world.removed == []
    world.settle()
    assert world.members_of("x") == {min(others), "d#one"}


def test_a_removal_is_lost_if_its_guard_changed_after_the_plan() -> None:
    world = three_zones()
    world.item("x", 3)
    world.settle()
    world.item("x", 2)
    world.catch_up()
    batches = [batch for member in world.leases for batch in world.allocator.plan(member)]
    world.put(PutKey("/test/heads/x", b"another head"))
    assert [world.judged(batch.transaction) for batch in batches] == [False]
    assert len(world.members_of("x")) == 3


def test_two_zones_even_if_one_is_crowded() -> None:
    world = World()
    for suffix in ("one", "two", "three"):
        world.join("a", suffix, 100)
    world.join("b", "one", 100)
    for number in range(12):
        world.item(f"item-{number:02}", 2)
    world.settle()
    assert all(len(zones_of(world, name)) == 2 for name in world.demands())


def test_items_gathered_in_one_zone_are_spread_when_another_zone_comes() -> None:
    world = World()
    world.join("a", "one", 100)
    world.join("a", "two", 100)
    for number in range(5):
        world.item(f"item-{number}", 2)
    world.settle()
    assert all(zones_of(world, name) == {"a"} for name in world.demands())
    world.join("b", "one", 100)
    world.settle()
    assert all(zones_of(world, name) == {"a", "b"} for name in world.demands())


def test_full_members_make_room_for_what_fits_nowhere_else() -> None:
    world = World()
    world.join("a", "one", 2)
    world.join("a", "two", 2)
    world.item("only-1", 1)
    world.item("only-2", 1)
    world.settle()
    world.join("a", "three", 1)
    world.settle()
    world.item("wide", 3)
    world.settle()
    assert world.members_of("wide") == {"a#one", "a#two", "a#three"}
    assert world.allocator.short_items == []


def test_who_was_looked_at_is_looked_at_again_when_it_has_to_make_room() -> None:
    world = World()
    world.join("b", "one", 1)
    world.item("alone", 1)
    world.settle()
    world.join("a", "one", 5)
    world.join("a", "two", 5)
    world.item("alone", 1)  # changed, so that one plan looks at it first
    world.item("pair", 2)  # and then at this, which needs its place
    world.settle()
    assert zones_of(world, "pair") == {"a", "b"}
    assert zones_of(world, "alone") == {"a"}


def test_a_joining_member_gets_its_share_and_no_more_is_moved_than_that() -> None:
    world = three_zones()
    for number in range(40):
        world.item(f"item-{number:02}", 3)
    world.settle()
    world.added.clear()
    world.join("a", "new", 100)
    world.settle()
    counts = world.counts()
    assert counts["a#new"] >= 19  # 20 of zone a's 40 would be even; all three zones have to give to be even at 30
    assert len(world.added) == counts["a#new"]


def test_a_settled_cluster_stays_as_it_is_whoever_leads() -> None:
    world = three_zones()
    for number in range(30):
        world.item(f"item-{number:02}", 2, load=1 + number % 3)
    world.settle()
    revision = world.store.revision
    world.fail_over()
    assert world.settle() == 0
    assert world.store.revision == revision


def test_a_deleted_item_is_served_by_nobody() -> None:
    world = three_zones()
    world.item("x", 3)
    world.settle()
    world.delete("x")
    world.settle()
    assert world.routes() == {}


def test_only_the_oldest_member_plans() -> None:
    world = three_zones()
    world.item("x", 3)
    world.catch_up()
    assert world.allocator.plan(MemberId("b", "one")) == []
    assert world.allocator.plan(MemberId("nowhere", "at-all")) == []
    assert len(world.allocator.plan(MemberId("a", "one"))) == 1


def test_a_plan_of_a_leader_which_is_gone_does_nothing() -> None:
    world = three_zones()
    world.item("x", 2)
    world.catch_up()
    (batch,) = world.allocator.plan(MemberId("a", "one"))
    world.leave(MemberId("a", "one"))
    assert not world.judged(batch.transaction)


def test_the_same_plan_twice_does_its_work_once() -> None:
    world = three_zones()
    world.item("x", 3)
    world.catch_up()
    (batch,) = world.allocator.plan(MemberId("a", "one"))
    assert world.judged(batch.transaction)
    assert not world.judged(batch.transaction)
    assert len(world.members_of("x")) == 3


def test_an_item_nobody_can_read_keeps_what_it_has() -> None:
    world = three_zones()
    world.item("x", 2)
    world.settle()
    members = world.members_of("x")
    world.put(PutKey("/test/items/x", b'{"replication": -1}'))
    world.catch_up()
    for _ in range(3):
        world.round()
    assert world.members_of("x") == members


def test_members_which_hold_the_last_bytes_are_preferred() -> None:
    world = three_zones()
    for zone in "abc":
        world.join(zone, "two", 100)
    world.put(PutKey("/test/heads/x", b"a#two b#two"))
    world.item("x", 2)
    world.settle()
    assert world.members_of("x") == {"a#two", "b#two"}


def test_who_holds_the_last_bytes_is_called_back_when_it_returns() -> None:
    world = three_zones()
    world.put(PutKey("/test/heads/x", b"a#two b#two"))
    world.item("x", 2)
    world.settle()
    assert world.allocator.bereft_items == ["x"]
    before = world.members_of("x")
    world.join("b", "two", 100)
    world.round()
    assert world.members_of("x") == before | {"b#two"}, "the others stay until it is consistent"
    world.settle()
    assert "b#two" in world.members_of("x")
    assert len(world.members_of("x")) == 2
    assert len(zones_of(world, "x")) == 2
    assert world.allocator.bereft_items == []
    world.join("a", "two", 100)
    world.added.clear()
    world.fail_over()
    world.settle()
    assert world.added == [], "one of them is enough"


def test_a_place_that_is_free_goes_to_another_who_holds_the_last_bytes() -> None:
    world = three_zones()
    world.item("x", 2)
    world.settle()
    first, second = sorted(world.members_of("x"))
    world.put(PutKey("/test/heads/x", f"{first} {second} c#two".encode()))
    world.join("c", "two", 100)
    world.leave(MemberId.parse(second))
    world.round()
    assert world.members_of("x") == {first, "c#two"}


def test_a_lowered_limit_is_kept_as_soon_as_others_can_serve() -> None:
    world = three_zones()
    for number in range(10):
        world.item(f"item-{number}", 1)
    world.settle()
    world.offer(MemberId("a", "one"), 1)
    world.settle()
    assert world.counts()["a#one"] <= 1
    assert sum(world.counts().values()) == 10


def test_two_primaries_by_accident_become_one() -> None:
    world = three_zones()
    world.item("x", 2)
    lease = world.leases[MemberId("b", "one")]
    world.put(PutKey("/test/assign/x#a#one#0", b"", world.leases[MemberId("a", "one")]))
    world.put(PutKey("/test/assign/x#b#one#0", b"", lease))
    world.settle()
    assert sorted(world.routes()["x"]) == [("a#one", 0), ("b#one", 1)]


# Histories


def feasible(world: World) -> int:
    """Return how many (item, member) pairs can be had at all: augmenting paths, without regard to zones."""
    capacities = {name: c.limit for name, c in world.capacities().items() if not c.is_exiting and c.limit}
    holds: dict[str, set[str]] = {name: set() for name in capacities}

    def augment(item: str, seen: set[str]) -> bool:
        for member, items in holds.items():
            if member in seen or item in items:
                continue
            seen.add(member)
            if len(items) < capacities[member]:
                items.add(item)
                return True
            for other in sorted(items):
                if augment(other, seen):
                    items.remove(other)
                    items.add(item)
                    return True
        return False

    return sum(augment(name, set()) for name, demand in world.demands().items() for _ in range(demand.replication))


def happen(world: World, random: Random, joined: int) -> None:
    """Let one random thing happen to a cluster."""
    members = sorted(world.leases)
    match random.randrange(10):
        case 0 | 1 if joined < 12:
            world.join(random.choice("abc"), f"m{joined}", random.randint(1, 12))
        case 2 if len(members) > 1:
            world.leave(random.choice(members))
        case 3 if members:
            world.offer(random.choice(members), random.randint(0, 12), is_exiting=random.random() < 0.4)
        case 4 | 5 | 6:
            world.item(f"i{random.randrange(12)}", random.randint(0, 4), random.choice([0.5, 1, 1, 3]))
        case 7 if world.demands():
            world.delete(random.choice(sorted(world.demands())))
        case 8 if world.routes():
            world.sync(random.choice(sorted(world.routes())))
        case _:
            world.fail_over()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
@example(seed=219)  # what moved was not looked at again for balance
@example(seed=919)  # a limit was lowered, and a plan saw a part of the items only
@example(seed=4792)  # a chain led through a member with more than its limit
@example(seed=33091)  # an item waited for the place of one that could not go
def test_whatever_happens_it_stays_allowed_and_comes_to_rest(seed: int) -> None:
    random = Random(seed)
    world = World(moves_max=random.choice([1, 3, 200]))
    for joined in range(random.randint(5, 40)):
        happen(world, random, joined)
        if random.random() < 0.7:
            world.round(random, items_max=random.choice([1, 3, 50]))
    if not world.leases:
        return
    world.give_up()
    world.settle()
    targets = {name: world.allocator.target_of(name) for name in world.demands()}
    assert sum(map(len, targets.values())) == feasible(world)
    assert all(world.members_of(name) >= set(target) for name, target in targets.items())
    _check_zones(world)
    counts = world.counts()
    revision = world.store.revision
    world.fail_over()
    world.settle()
    assert world.store.revision == revision, "a settled cluster moved"
    assert world.counts() == counts


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_plan_that_comes_late_does_no_harm(seed: int) -> None:
    """Members die, specs change and journals are synchronized between a plan and its transactions."""
    random = Random(seed)
    world = World()
    for joined in range(12):
        happen(world, random, joined)
    for joined in range(12, 30):
        world.round(items_max=random.choice([3, 50]), meanwhile=partial(_disturb, world, random, joined))
    if world.leases:
        world.give_up()
        world.settle()


def _disturb(world: World, random: Random, joined: int) -> None:
    """Something happens, but for a fail-over: that is the leader's own affair."""
    if random.random() < 0.5:
        world.sync()
    elif world.leases:
        allocator, mirror = world.allocator, world.mirror
        happen(world, random, joined)
        world.allocator, world.mirror = allocator, mirror


def _is_open(world: World, member: str) -> bool:
    capacity = world.capacities()[member]
    return not capacity.is_exiting and capacity.limit > 0


def _check_zones(world: World) -> None:
    """No item is in one zone while a member of another has room."""
    counts = world.counts()
    for name, demand in world.demands().items():
        if demand.replication < 2 or len(world.members_of(name)) < 2:
            continue
        for member, capacity in world.capacities().items():
            if _is_open(world, member) and counts[member] < capacity.limit:
                assert len(zones_of(world, name)) > 1 or member.partition("#")[0] in zones_of(world, name), name
