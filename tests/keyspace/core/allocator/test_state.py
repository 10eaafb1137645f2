"""The two views of one relation agree, whatever is done to them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.keyspace.core.allocator.state import AllocatorMember, Item

steps = st.lists(st.tuples(st.sampled_from(["target", "serve", "unserve", "weigh"]), st.integers(0, 7)), max_size=40)


@given(steps)
def test_loads_and_occupancies_are_those_of_what_is_wanted_and_served(history: list[tuple[str, int]]) -> None:
    members = [AllocatorMember(f"m{number}", "z") for number in range(3)]
    items = [Item(f"i{number}", load=1.0 + number) for number in range(2)]
    for what, number in history:
        item, chosen = items[number % 2], [m for bit, m in enumerate(members) if number >> bit & 1]
        match what:
            case "target":
                item.retarget(chosen)
            case "serve":
                for member in chosen:
                    member.serve(item.id)
            case "unserve":
                for member in chosen:
                    if item.id in member.serves:
                        member.unserve(item.id)
            case _:
                item.weigh(float(number + 1))
    for member in members:
        assert list(member.wanted.values()) == [item for item in member.wanted.values() if member in item.target]
        assert {item.id for item in items if member in item.target} == set(member.wanted)
        assert member.load == sum(item.load for item in member.wanted.values())
        assert member.occupancy == len({*member.wanted, *member.serves})
