"""Counting gives the order which sorting gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.message.order_kernels import order_by_commit


@given(st.lists(st.integers(0, 50), max_size=60))
def test_commits_are_ordered_as_by_a_stable_sort(commits: list[int]) -> None:
    values = np.array(commits, np.int64)
    assert order_by_commit(values, 51).tolist() == np.argsort(values, kind="stable").tolist()
