"""Random walks: a few seeds on every run. More: `python -m tests.quorum.core.walk 0 1000`."""

import pytest
from tests.quorum.core.walk import Walk


@pytest.mark.parametrize("seed", range(40))
def test_walk(seed: int) -> None:
    Walk(seed).run(400)
