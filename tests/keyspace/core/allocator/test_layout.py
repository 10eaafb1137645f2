import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.keyspace.core.allocator.layout import Layout, MemberId, Place
from penstock.keyspace.core.limits import KEY_BYTES_MAX, check_key

names = st.text(st.characters(min_codepoint=0x24, max_codepoint=0x7E), min_size=1, max_size=8)


def test_keys_are_those_of_gazette() -> None:
    layout = Layout("/gazette/cluster")
    member = MemberId("us-east-1", "calm-bear")
    assert layout.item_key("shop/orders") == "/gazette/cluster/items/shop/orders"
    assert layout.member_key(member) == "/gazette/cluster/members/us-east-1#calm-bear"
    assert layout.assignment_key("shop/orders", member, 0) == (
        "/gazette/cluster/assign/shop/orders#us-east-1#calm-bear#0"
    )


@given(names, names, names, st.integers(0, 999))
def test_a_key_says_what_it_was_made_of(item: str, zone: str, suffix: str, slot: int) -> None:
    layout = Layout("/root")
    key = layout.assignment_key(item, MemberId(zone, suffix), slot)
    assert layout.parse_assignment(key) == Place(item, f"{zone}#{suffix}", slot)
    assert key.startswith(layout.assignments_of(item))
    assert MemberId.parse(f"{zone}#{suffix}") == MemberId(zone, suffix)


@given(st.lists(st.tuples(names, names, names), min_size=2, max_size=6))
def test_keys_sort_as_item_zone_and_suffix_do(places: list[tuple[str, str, str]]) -> None:
    layout = Layout("/root")
    by_key = sorted(places, key=lambda p: layout.assignment_key(p[0], MemberId(p[1], p[2]), 1))
    assert by_key == sorted(places)


@pytest.mark.parametrize("rest", ["x#a#b", "x#a#b#c", "x#a##0", "#a#b#0", "x#a#b#00", "x#a#b#1000", "x#a#b#²", "x"])
def test_other_keys_are_no_assignments(rest: str) -> None:
    assert Layout("/root").parse_assignment(f"/root/assign/{rest}") is None


@pytest.mark.parametrize("name", ["", "a b", "a#b", 'a"b', "a\nb", "!"])
def test_names_which_would_not_be_read_back_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        Layout("/root").item_key(name)
    with pytest.raises(InvalidArgument):
        Layout("/root").member_key(MemberId("zone", name))


@pytest.mark.parametrize("root", ["", "/root/"])
def test_a_root_is_a_key_and_no_folder(root: str) -> None:
    with pytest.raises(InvalidArgument):
        Layout(root)


def test_every_key_of_an_accepted_item_and_member_is_one_that_the_keyspace_takes() -> None:
    layout = Layout("/root")
    member = MemberId("z" * 100, "s" * 154)
    layout.member_key(member)
    with pytest.raises(LimitExceeded, match="more than 255 bytes"):
        layout.member_key(MemberId("z" * 100, "s" * 155))
    longest = "i" * (KEY_BYTES_MAX - len("/root/assign/##999") - 255)
    layout.item_key(longest)
    assert check_key(layout.assignment_key(longest, member, 999)) == KEY_BYTES_MAX
    with pytest.raises(LimitExceeded, match="is 1 bytes too long"):
        layout.item_key(longest + "i")
