"""The embedded KeySpace keeps the port's law."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.runtime.keyspace.behaviours import KeySpaceBehaviours
from tests.runtime.keyspace.embedded.harness import EmbeddedHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EmbeddedHarness]:
    async with AsyncExitStack() as opened:
        yield EmbeddedHarness(tmp_path / "keyspace", opened)


class TestBehaviours(KeySpaceBehaviours):
    """See behaviours.py."""
