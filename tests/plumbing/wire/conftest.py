"""Every asynchronous test of the wire runs on both event loops."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from tests.plumbing.wire.harness import Stage


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """Servers, channels and raw peers, all of which are closed at the end of the test."""
    async with Stage() as stage:
        yield stage
