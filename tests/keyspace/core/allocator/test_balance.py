"""Voluntary moves end, even things out, and are not made for nothing."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.keyspace.core.allocator.balance import find_moves
from penstock.keyspace.core.allocator.ranking import Ranking, is_spread
from penstock.keyspace.core.allocator.state import AllocatorMember, Item


def cluster(capacities: list[int]) -> Ranking:
    ranking = Ranking()
    for number, capacity in enumerate(capacities):
        name = f"{'ab'[number % 2]}#{number}"
        member = ranking.members[name] = AllocatorMember(name, name[0])
        ranking.resize(member, capacity)
    return ranking


def put(ranking: Ranking, name: str, load: float, *places: int) -> Item:
    item = Item(name, replication=len(places), load=load)
    ranking.demand += load * len(places)
    ranking.retarget(item, [list(ranking.members.values())[place] for place in places])
    return item


def potential(ranking: Ranking) -> float:
    return sum(member.load**2 / member.capacity for member in ranking.members.values())


@given(
    st.lists(st.integers(20, 40), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.1, 1.0, 2.5])), max_size=20),
)
def test_each_move_evens_the_load_and_they_come_to_an_end(
    capacities: list[int], items: list[tuple[int, float]]
) -> None:
    ranking = cluster(capacities)
    for number, (place, load) in enumerate(items):
        put(ranking, f"item-{number}", load, place % len(capacities))
    before = potential(ranking)
    for _ in range(1_000):
        if not find_moves(ranking, (), 1):
            break
        assert potential(ranking) < before
        before = potential(ranking)
    else:
        raise AssertionError("moves without an end")


def test_all_on_one_becomes_even() -> None:
    ranking = cluster([100, 100, 100])
    for number in range(10):
        put(ranking, f"item-{number}", 1.0, 0)
    assert len(find_moves(ranking, (), 100)) == 6
    assert sorted(member.load for member in ranking.members.values()) == [3, 3, 4]
    assert find_moves(ranking, (), 100) == []


def test_within_the_tolerance_nothing_moves() -> None:
    ranking = cluster([1_000, 1_000])
    for number in range(204):
        put(ranking, f"item-{number}", 1.0, 0 if number < 104 else 1)
    assert find_moves(ranking, (), 100) == []


def test_no_more_moves_than_asked_for_and_none_of_what_is_moving() -> None:
    ranking = cluster([100, 100])
    for number in range(10):
        put(ranking, f"item-{number}", 1.0, 0)
    assert len(find_moves(ranking, (), 2)) == 2
    assert find_moves(ranking, [f"item-{number}" for number in range(10)], 100) == []


def test_a_move_keeps_two_zones_two() -> None:
    ranking = cluster([100, 100, 100])  # a, b, a
    items = [put(ranking, f"item-{number}", 1.0, 0, 1) for number in range(9)]
    assert find_moves(ranking, (), 100)
    assert all(is_spread(item.target) for item in items)
    assert list(ranking.members.values())[1].load == 9  # zone b has one member: it cannot give any away
