"""Counting gives the order which sorting gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.messages.sequencing.order_kernels import delivered_rows
from penstock.messages.sequencing.sequence_kernels import PENDING
from penstock.messages.uuid import ACK_TXN


@given(st.lists(st.tuples(st.integers(0, 59) | st.just(PENDING), st.integers(0, 3), st.integers(0, 2)), max_size=60))
def test_rows_are_ordered_as_by_a_stable_sort(chunk: list[tuple[int, int, int]]) -> None:
    commits = np.array([commit if commit == PENDING else commit % len(chunk) for commit, _, _ in chunk], np.int64)
    flags, clocks = (np.array([row[at] for row in chunk], np.uint64) for at in (1, 2))
    rows = [
        number
        for number, (commit, flags_, clock) in enumerate(chunk)
        if commit != PENDING and not (flags_ == ACK_TXN and clock)
    ]
    assert delivered_rows(commits, flags, clocks, is_ordered=False).tolist() == rows
    assert delivered_rows(commits, flags, clocks).tolist() == sorted(rows, key=lambda row: int(commits[row]))
