"""One etcd server per test process; every test has a prefix of its own in it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from itertools import count

import pytest
from tests.keyspace.shell.etcd.server import EtcdServer

from penstock.keyspace.shell.etcd.options import EtcdOptions
from penstock.keyspace.shell.etcd.store import EtcdKeySpace

QUICK = EtcdOptions(backoff_ms=10, backoff_ms_max=100, page_keys_max=50)
_numbers = count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path_factory.mktemp("etcd") / "data")
    server.start()
    try:
        yield server
    finally:
        server.kill()


class EtcdHarness:
    """One prefix of the server."""

    lease_ms = 1_000

    def __init__(self, server: EtcdServer, opened: AsyncExitStack) -> None:
        self.server = server
        self.prefix = f"test-{next(_numbers)}/"
        self._opened = opened

    async def open(self) -> EtcdKeySpace:
        return await self._opened.enter_async_context(await EtcdKeySpace.open([self.server.address], QUICK))

    async def let_time_pass(self, ms: int) -> None:
        """etcd has its own clock: the test waits for what happens when it is time."""

    async def restart(self) -> None:
        self.server.kill()
        self.server.start()


@pytest.fixture
async def harness(server: EtcdServer) -> AsyncIterator[EtcdHarness]:
    async with AsyncExitStack() as opened:
        yield EtcdHarness(server, opened)
