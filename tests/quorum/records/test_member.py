from itertools import combinations

import pytest
from tests.quorum.core.cluster import member

from penstock.kernel.codec import Codec
from penstock.quorum.records.member import Member, majority


@pytest.mark.parametrize("size", range(1, 8))
def test_any_two_majorities_meet_and_no_smaller_groups_do(size: int) -> None:
    groups = [set(group) for group in combinations(range(size), majority(size))]
    assert all(one & other for one in groups for other in groups)
    smaller = [set(group) for group in combinations(range(size), majority(size) - 1)]
    assert any(not one & other for one in smaller for other in smaller)


def test_a_wiped_node_is_another_member() -> None:
    assert member("A", "i1") != member("A", "i2")
    assert str(member("A", "i2")) == "A#i2"
    codec = Codec[Member](Member)
    assert codec.decode(codec.encode(member("A"))) == member("A")
