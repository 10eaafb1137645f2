"""Members that most of the others cannot reach are passed over at once, and put back when they can be reached."""

from tests.keyspace.core.allocator.world import World

from penstock.kernel.ids import Revision
from penstock.keyspace.core.allocator import Layout, MemberId, Suspicions, leader_of, suspicion_key
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.records import NO_LEASE, KeyValue

LAYOUT = Layout("/test")


def three(items: int = 2) -> tuple[World, list[MemberId]]:
    world = World()
    members = [world.join("z", name, 10) for name in "abc"]
    for number in range(items):
        world.item(f"i{number}", 3)
    world.settle()
    return world, members


def suspicions(*pairs: str) -> Suspicions:
    found = Suspicions(LAYOUT)
    for pair in pairs:
        key = suspicion_key(LAYOUT, f"z#{pair[0]}", f"z#{pair[1]}")
        found.note(key, MirrorEntry(KeyValue(key, b"", Revision(1), Revision(1), 1, NO_LEASE), b""))
    return found


def test_more_than_half_of_the_others_decide_and_at_least_two() -> None:
    def away(names: str, *pairs: str) -> set[str]:
        return {name[2:] for name in suspicions(*pairs).away(f"z#{name}" for name in names)}

    assert away("abc", "ab") == set(), "one voice: it may be cut off itself"
    assert away("abc", "ab", "ac") == {"a"}
    assert away("ab", "ab") == set(), "of two, neither can tell"
    assert away("abcde", "ab", "ac") == set()
    assert away("abcde", "ab", "ac", "ad") == {"a"}
    assert away("abc", "ab", "ac", "ba", "ca") == {"a"}, "a member that is cut off suspects all, and is one voice"
    assert away("abc", "ax", "ay") == set(), "members that are gone have no voice"


def test_a_suspicion_that_was_taken_back_counts_no_more() -> None:
    found = suspicions("ab", "ac")
    found.note(suspicion_key(LAYOUT, "z#a", "z#b"), None)
    assert not found.away(["z#a", "z#b", "z#c"])
    found.note("/test/suspects/nonsense", None)


def test_the_oldest_that_is_not_away_leads() -> None:
    entries = [
        MirrorEntry(KeyValue(f"/test/members/z#{name}", b"", Revision(at), Revision(at), 1, NO_LEASE), b"")
        for at, name in enumerate("abc", 1)
    ]

    def leads(*away: str) -> str:
        leader = leader_of(entries, frozenset(f"z#{name}" for name in away), "/test/members/")
        assert leader is not None
        return leader.key[-1]

    assert [leads(), leads("a"), leads("a", "b"), leads("a", "b", "c")] == ["a", "b", "c", "a"]


def test_a_member_is_passed_over_at_once_and_another_allocates() -> None:
    world, (a, b, c) = three()
    world.suspect(a, b, c)
    batches = world.round()
    assert {name: world.members_of(name) for name in ("i0", "i1")} == {"i0": {str(b), str(c)}, "i1": {str(b), str(c)}}
    assert all([slot for _, slot in route].count(0) == 1 for route in world.routes().values())
    keys = {compare.key for batch in batches for compare in batch.transaction.compares}
    assert {"/test/heads/i0", f"/test/suspects/{a}#{b}", f"/test/suspects/{a}#{c}"} <= keys
    assert sum(key.startswith("/test/assign/i0#") for key in keys) >= 3, "every assignment is compared"


def test_it_is_left_out_while_others_cannot_reach_it_and_is_put_back_then() -> None:
    world, (a, b, c) = three()
    world.suspect(a, b, c)
    world.settle()
    assert str(a) not in world.members_of("i0")
    world.trust(a)
    world.settle()
    assert world.members_of("i0") == {str(a), str(b), str(c)}


def test_a_spare_member_takes_its_place() -> None:
    world, (a, b, c) = three()
    d = world.join("z", "d", 10)
    world.settle()
    away = next(each for each in (a, b, c, d) if str(each) in world.members_of("i0"))
    world.suspect(away, *[each for each in (a, b, c, d) if each != away])
    world.settle()
    assert len(world.members_of("i0")) == 3
    assert str(away) not in world.members_of("i0")


def test_the_last_one_that_has_the_content_is_not_passed_over() -> None:
    world, (a, b, c) = three(items=1)
    for member in (b, c):
        world.leave(member)
    world.catch_up()
    b, c = world.join("z", "b", 10), world.join("z", "c", 10)
    world.round()
    assert world.members_of("i0") == {str(a), str(b), str(c)}
    world.suspect(a, b, c)
    world.round()
    assert str(a) in world.members_of("i0"), "the others were not synchronized since they came"
    world.sync()
    world.round()
    assert world.members_of("i0") == {str(b), str(c)}


def test_a_holder_is_called_back_although_another_one_of_that_name_serves() -> None:
    world, (a, b, c) = three(items=1)
    d = world.join("z", "d", 10)
    world.settle()
    for member in (a, b, c):
        world.leave(member)
    world.catch_up()
    b = world.join("z", "b", 10)
    world.join("z", "e", 10)
    world.round()
    assert world.members_of("i0") == {str(b), str(d), "z#e"}
    a = world.join("z", "a", 10)
    world.round()
    assert str(a) in world.members_of("i0"), f"{b} may have come back without its content"
