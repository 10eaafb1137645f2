"""Random trees: HISTORIES (default 100,000) of them by increments, and LISTS (10,000) of branches, from SEED on."""

import os

from tests.lake.core.committed.leaves.grove import histories
from tests.lake.core.committed.test_branch_listing import check


def test_many_random_histories() -> None:
    first, count = int(os.environ.get("SEED", "0")), int(os.environ.get("HISTORIES", "100000"))

    assert histories(range(first, first + count)) == 0


def test_many_random_lists() -> None:
    first, count = int(os.environ.get("SEED", "0")), int(os.environ.get("LISTS", "10000"))

    for seed in range(first, first + count):
        check(seed)
