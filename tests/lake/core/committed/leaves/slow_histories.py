"""A tree by increments is the tree from scratch: HISTORIES random histories (default 100,000), from SEED on."""

import os

from tests.lake.core.committed.leaves.grove import histories


def test_many_random_histories() -> None:
    first, count = int(os.environ.get("SEED", "0")), int(os.environ.get("HISTORIES", "100000"))

    assert histories(range(first, first + count)) == 0
