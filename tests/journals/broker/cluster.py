"""Brokers in one process, for tests of the client and the runtime: real spools, real sockets, no process to start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.process import BROKER_LIMITS, RunningBroker, running_broker
from penstock.journals.broker.replica_host import ReplicaHost
from penstock.journals.client.journal import Journals
from penstock.journals.core.config import JournalConfig
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import MILLISECOND
from penstock.keyspace.core.allocator.layout import MemberId
from penstock.keyspace.shell import open_keyspace
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.wiring.wiring import Wiring

WAIT_S = 60.0
CONFIG = BrokerConfig(late_upload_ms=100, core=JournalConfig(retry_ns=20 * MILLISECOND, retry_ns_max=200 * MILLISECOND))


class Cluster:
    """Brokers which can be stopped and started, each on its own port."""

    def __init__(self, folder: Path, config: BrokerConfig, etcd: str | None = None) -> None:
        self.folder = folder
        self.etcd = etcd  # the address of a server; None: the KeySpace is embedded
        self.config = config
        self.brokers: dict[str, RunningBroker] = {}
        self._ports: dict[str, int] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    async def start(self, name: str) -> RunningBroker:
        stack = self._stacks[name] = AsyncExitStack()
        keyspace = await stack.enter_async_context(await self._open_keyspace())
        wiring = Wiring(port=self._ports.get(name, 0), limits=BROKER_LIMITS)
        broker = await stack.enter_async_context(
            running_broker(MemberId("local", name), self.folder / name, keyspace, wiring, config=self.config)
        )
        self._ports[name] = int(broker.address.rpartition(":")[2])
        self.brokers[name] = broker
        return broker

    async def _open_keyspace(self) -> KeySpace:
        if self.etcd is not None:
            return await open_keyspace(f"etcd://{self.etcd}")
        return await EmbeddedKeySpace.open(self.folder / "keyspace", EmbeddedOptions(poll_ms=10))

    async def stop(self, name: str, *, drains: bool = False) -> None:
        if drains:
            await self.brokers[name].drain()
        del self.brokers[name]
        await self._stacks.pop(name).aclose()

    @property
    def addresses(self) -> list[str]:
        return [broker.address for broker in self.brokers.values()]

    def client(self) -> Journals:
        return Journals(self.addresses)

    async def create(self, *specs: JournalSpec) -> None:
        """Make journals, and wait until appends can flow."""
        async with self.client() as journals:
            await journals.create(*specs)
            for spec in specs:
                await journals.append(spec.name, b"", timeout=WAIT_S)

    def hosts(self, journal: str) -> dict[str, ReplicaHost]:
        found = {name: broker.server.host(journal) for name, broker in self.brokers.items()}
        return {name: host for name, host in found.items() if host is not None}

    def primary(self, journal: str) -> str:
        return next(name for name, host in self.hosts(journal).items() if host.is_primary)

    async def close(self) -> None:
        for name in list(self._stacks):
            await self._stacks.pop(name).aclose()


@asynccontextmanager
async def running_cluster(
    folder: Path, brokers: int = 3, *, config: BrokerConfig = CONFIG, etcd: str | None = None, **changes: object
) -> AsyncIterator[Cluster]:
    """Brokers b1, b2, …; `changes` are those of the configuration."""
    store = f"{(folder / 'objects').as_uri()}/"
    cluster = Cluster(folder, msgspec.structs.replace(config, **{"default_store": store, **changes}), etcd)
    try:
        await asyncio.gather(*(cluster.start(f"b{number}") for number in range(1, brokers + 1)))
        yield cluster
    finally:
        await cluster.close()


async def read_all(journals: Journals, journal: str, *, address: str | None = None) -> bytes:
    """Everything a broker shows of a journal now."""
    return b"".join([bytes(chunk.content) async for chunk in journals.read(journal, 0, address=address)])
