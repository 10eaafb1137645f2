"""The KeySpace of a world does what every KeySpace does, and fails as its port allows."""

import asyncio

import pytest
from tests.keyspace.shell.behaviours import KeySpaceBehaviours
from tests.lab.world.inside import inside, process

from penstock.kernel.errors import Indeterminate, Unavailable
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.port import KeySpace
from penstock_lab.world.ports.keyspace import KeySpaceClient, KeySpaceServer
from penstock_lab.world.process import Life

__all__ = ["process"]


class WorldHarness:
    prefix = "t/"
    lease_ms = 1_000

    def __init__(self, process: Life) -> None:
        self._process = process
        self._server = KeySpaceServer(process.world)

    async def open(self) -> KeySpace:
        return KeySpaceClient(self._server, self._process)

    async def let_time_pass(self, ms: int) -> None:
        await asyncio.sleep(ms / 1000)

    async def restart(self) -> None:
        await asyncio.sleep(1)


class TestKeySpace(KeySpaceBehaviours):
    @pytest.fixture
    def harness(self, process: Life) -> WorldHarness:
        return WorldHarness(process)

    @pytest.fixture
    def keyspace(self, process: Life, harness: WorldHarness) -> KeySpace:
        found: KeySpace = process.loop.run_until_complete(harness.open())
        return found


for name in [name for name in dir(KeySpaceBehaviours) if name.startswith("test_")]:
    setattr(TestKeySpace, name, inside(getattr(KeySpaceBehaviours, name)))


@inside
async def test_unavailable_wrote_nothing_and_indeterminate_may_have(process: Life) -> None:
    server = KeySpaceServer(process.world)
    keyspace = KeySpaceClient(server, process)
    server.trouble.unavailable = 1.0
    with pytest.raises(Unavailable):
        await keyspace.transact(then=[PutKey("a", b"")])
    assert list(server.store.range("")) == []
    server.trouble.unavailable, server.trouble.indeterminate = 0.0, 1.0
    for number in range(20):
        with pytest.raises(Indeterminate):
            await keyspace.transact(then=[PutKey(f"b{number}", b"")])
    assert 0 < len(list(server.store.range("b"))) < 20
