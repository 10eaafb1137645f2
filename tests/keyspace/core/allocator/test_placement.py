"""Targets: within limits, spread, complete whenever that is possible at all."""

from penstock.keyspace.core.allocator.placement import Placement
from penstock.keyspace.core.allocator.ranking import Ranking
from penstock.keyspace.core.allocator.state import AllocatorMember, Item


def cluster(**capacities: int) -> tuple[Ranking, Placement, dict[str, AllocatorMember]]:
    """Members by name; the first letter is the zone."""
    ranking = Ranking()
    for name, capacity in capacities.items():
        member = ranking.members[name] = AllocatorMember(name, name[0])
        ranking.resize(member, capacity)
    return ranking, Placement(ranking), ranking.members


def placed(ranking: Ranking, placement: Placement, name: str, replication: int, *at: AllocatorMember) -> Item:
    item = Item(name, replication=replication)
    ranking.demand += replication
    ranking.retarget(item, list(at))
    placement.complete(item, [])
    return item


def names(item: Item) -> list[str]:
    return sorted(member.name for member in item.target)


def test_a_full_member_gives_away_what_can_go_elsewhere() -> None:
    ranking, placement, members = cluster(a1=1, a2=1)
    first = placed(ranking, placement, "first", 1, members["a1"])
    wide = Item("wide", replication=1)
    ranking.demand += 1
    ranking.resize(members["a2"], 0)
    placement.complete(wide, [])
    assert names(wide) == []
    assert list(placement.short) == ["wide"]
    ranking.resize(members["a2"], 1)
    assert placement.room_was_freed() == [wide]
    placement.complete(wide, [])
    assert sorted([*names(first), *names(wide)]) == ["a1", "a2"]


def test_a_chain_of_displacements_ends_at_room() -> None:
    ranking, placement, members = cluster(a1=1, a2=1, a3=1)
    x = placed(ranking, placement, "x", 1, members["a1"])
    y = placed(ranking, placement, "y", 1, members["a2"])
    both = placed(ranking, placement, "z", 1)
    assert names(both) == ["a3"]
    ranking.retarget(both, [])
    pinned = placed(ranking, placement, "pinned", 2, members["a3"])  # needs a1 or a2, which are full
    assert len(pinned.target) == 1, "three places for four replicas"
    assert [*names(x), *names(y)] == ["a1", "a2"]


def test_the_last_replica_goes_to_another_zone_even_if_room_must_be_made_there() -> None:
    ranking, placement, members = cluster(a1=5, a2=5, b1=1)
    alone = placed(ranking, placement, "alone", 1, members["b1"])
    pair = placed(ranking, placement, "pair", 2, members["a1"])
    assert "b1" in names(pair)
    assert names(alone) != ["b1"]
    assert placement.displaced == [alone]


def test_one_zone_is_better_than_too_few() -> None:
    ranking, placement, members = cluster(a1=5, a2=5, b1=0)
    pair = placed(ranking, placement, "pair", 2, members["a1"])
    assert names(pair) == ["a1", "a2"]
    assert list(placement.gathered) == ["pair"]


def test_what_serves_is_kept_and_what_is_too_much_goes_from_the_fullest() -> None:
    ranking, placement, members = cluster(a1=10, b1=10, c1=10)
    placed(ranking, placement, "other", 1, members["c1"])
    item = placed(ranking, placement, "x", 3)
    item.replication = 2
    placement.keep(item)
    assert names(item) == ["a1", "b1"]


def test_a_member_without_capacity_is_not_kept() -> None:
    ranking, placement, members = cluster(a1=10, b1=10, c1=10)
    item = placed(ranking, placement, "x", 2, members["a1"], members["b1"])
    ranking.resize(members["b1"], 0)
    placement.keep(item)
    assert names(item) == ["a1"]
    placement.complete(item, [])
    assert names(item) == ["a1", "c1"]


def test_the_preferred_are_taken_if_they_have_room() -> None:
    ranking, placement, members = cluster(a1=10, b1=10, b2=10, c1=0)
    placed(ranking, placement, "other", 1, members["b2"])
    item = Item("x", replication=2)
    placement.complete(item, [members["c1"], members["b2"]])
    assert names(item) == ["a1", "b2"]
