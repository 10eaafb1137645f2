"""Prefixes as ranges of bytes."""

import doctest

from hypothesis import given
from hypothesis import strategies as st

from penstock.keyspace.core import keys
from penstock.keyspace.core.keys import prefix_end


@given(st.binary(max_size=4), st.binary(max_size=6))
def test_the_end_of_a_prefix_divides_those_which_have_it_from_those_behind(prefix: bytes, key: bytes) -> None:
    end = prefix_end(prefix)
    assert key.startswith(prefix) is (prefix <= key and (end is None or key < end))


def test_examples() -> None:
    assert doctest.testmod(keys).failed == 0
