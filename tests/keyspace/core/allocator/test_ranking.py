from penstock.keyspace.core.allocator.ranking import Ranking, is_spread
from penstock.keyspace.core.allocator.state import AllocatorMember, Item


def ranking_of(*capacities: tuple[str, int]) -> tuple[Ranking, dict[str, AllocatorMember]]:
    ranking = Ranking()
    for name, capacity in capacities:
        member = ranking.members[name] = AllocatorMember(name, name.partition("#")[0])
        ranking.resize(member, capacity)
    return ranking, ranking.members


def give(ranking: Ranking, member: AllocatorMember, count: int, load: float = 1.0) -> None:
    for _ in range(count):
        ranking.demand += load
        ranking.retarget(Item(f"{member.name}-{len(member.wanted)}", load=load), [member])


def test_the_least_filled_comes_first_in_proportion_to_its_capacity() -> None:
    ranking, members = ranking_of(("a#small", 10), ("a#large", 100))
    give(ranking, members["a#small"], 2)
    give(ranking, members["a#large"], 10)
    assert ranking.best(Item("x"), []) is members["a#large"]


def test_a_zone_the_item_is_not_in_is_better_than_an_emptier_member() -> None:
    ranking, members = ranking_of(("a#1", 10), ("a#2", 10), ("b#1", 10))
    ranking.demand = 9  # so that no member is above the fair share
    give(ranking, members["b#1"], 1)
    assert ranking.best(Item("x"), [members["a#1"]]) is members["b#1"]


def test_a_member_above_its_fair_share_is_the_last_choice_even_in_another_zone() -> None:
    ranking, members = ranking_of(("a#1", 10), ("a#2", 10), ("b#1", 10))
    give(ranking, members["b#1"], 3)
    assert ranking.best(Item("x"), [members["a#1"]]) is members["a#2"]


def test_who_has_no_room_or_is_excluded_or_in_a_full_zone_is_not_chosen() -> None:
    ranking, members = ranking_of(("a#1", 1), ("a#2", 1), ("b#1", 1))
    give(ranking, members["a#1"], 1)
    assert ranking.best(Item("x"), [members["a#2"]], ["b"]) is None
    assert ranking.best(Item("x"), [members["a#2"]]) is members["b#1"]
    assert ranking.best(Item("x"), []) in (members["a#2"], members["b#1"])


def test_room_comes_back_when_an_item_goes() -> None:
    ranking, members = ranking_of(("a#1", 1))
    item = Item("x")
    ranking.retarget(item, [members["a#1"]])
    assert ranking.best(Item("y"), []) is None
    assert not ranking.has_room_freed or ranking.capacity == 1
    ranking.has_room_freed = False
    ranking.retarget(item, [])
    assert ranking.has_room_freed
    assert ranking.best(Item("y"), []) is members["a#1"]


def test_zones_count_while_a_member_of_them_has_capacity() -> None:
    ranking, members = ranking_of(("a#1", 5), ("b#1", 5))
    assert ranking.zone_count == 2
    ranking.resize(members["b#1"], 0)
    assert ranking.zone_count == 1
    assert ranking.capacity == 5


def test_many_changes_leave_a_short_heap() -> None:
    ranking, members = ranking_of(("a#1", 1_000), ("a#2", 1_000))
    item = Item("x")
    for _ in range(500):
        ranking.retarget(item, [members["a#1"]])
        ranking.retarget(item, [members["a#2"]])
    assert len(ranking._zones["a"]) < 100
    assert ranking.best(Item("y"), []) is members["a#1"]


def test_one_alone_is_spread_and_two_of_a_zone_are_not() -> None:
    a, b = AllocatorMember("a#1", "a"), AllocatorMember("b#1", "b")
    assert [is_spread([a]), is_spread([a, b]), is_spread([a, AllocatorMember("a#2", "a")])] == [True, True, False]
