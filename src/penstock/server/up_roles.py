"""What `penstock up` runs: every role in one process, on one data folder.

    <folder>/keyspace     topology, of journals and of the quorum log
    <folder>/n1           the quorum node, which orders the lake's changes
    <folder>/b1           the broker's spools
    <folder>/fragments    what journals have stored
    <folder>/objects      the lake's objects, unless `objectstore.url` says otherwise

Roles are opened in order and closed in reverse. If a role cannot continue, all end: a restarted process continues from
its stored state.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.process import BROKER_LIMITS, RunningBroker, running_broker
from penstock.journals.client.journal import Journals
from penstock.journals.gateway.gateway import JournalGateway
from penstock.kernel.errors import LeaseExpired, Unavailable
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.core.limits import LEASE_MS_MAX
from penstock.keyspace.shell import open_keyspace
from penstock.keyspace.shell.port import KeySpace
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.lake.member.services.lake_service import LakeService, serving_lake
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.objects import open_store
from penstock.plumbing.process.running import Running
from penstock.plumbing.wiring.options import object_store_url, store_options, wal_options, wire_tls
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.operator.alone import quorum_alone
from penstock.server.lake_server import lake_credentials
from penstock.server.lake_site import lake_app
from penstock.server.session import Session
from penstock.server.wiring import metrics_endpoint, wiring_of

__all__ = ["Roles", "running_roles"]

SHARD: Final = "main"
BROKER: Final = MemberId("local", "b1")
# No other process could take over: the longest lease keeps a machine that slept over night from giving up its journals.
LEASE_MS: Final = LEASE_MS_MAX


class Roles:
    """All of them, running."""

    def __init__(self, broker: RunningBroker, lake: LakeService, running: Running) -> None:
        self.running = running
        self._broker = broker
        self._lake = lake

    async def ended(self) -> None:
        """Wait until one of the roles cannot continue; raise why."""
        broker = asyncio.ensure_future(self._broker.failed())
        member = asyncio.ensure_future(self._lake.engine.host.ended())
        try:
            await asyncio.wait({broker, member}, return_when=asyncio.FIRST_COMPLETED)
            if broker.done():
                try:
                    await broker
                except LeaseExpired as lost:
                    raise LeaseExpired(
                        lost.message, next_step="penstock up, which continues from the stored data"
                    ) from lost
            raise Unavailable(f"the lake's member has stopped: {await member}", next_step="penstock up")
        finally:
            for task in (broker, member):
                task.cancel()
            await asyncio.gather(broker, member, return_exceptions=True)

    async def drain(self) -> None:
        """Have the broker store its remaining bytes."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._broker.drain()


@asynccontextmanager
async def running_roles(session: Session) -> AsyncIterator[Roles]:
    """Every role, on the data folder of the session's configuration. The folder must be held."""
    config = session.effective.config
    folder = config.data.folder.absolute()
    wiring = wiring_of(session)
    inner = msgspec.structs.replace(wiring, port=0)  # the node and the operator take ports which are free
    async with AsyncExitStack() as stack:
        keyspace = await stack.enter_async_context(await open_keyspace(f"embedded://{quote(str(folder))}/keyspace"))
        alone = await stack.enter_async_context(
            quorum_alone(folder, keyspace, SHARD, wal=wal_options(config.wal), wiring=inner)
        )
        broker = await stack.enter_async_context(_broker(folder, keyspace, wiring))
        log = await stack.enter_async_context(QuorumLog([alone.node], SHARD, token=wiring.token, tls=wiring.client_tls))
        lake, server = await _lake(stack, session, log, broker, wiring)
        await stack.enter_async_context(metrics_endpoint(session))
        yield Roles(broker, lake, Running(os.getpid(), broker.address, alone.node, alone.operator, server.url, SHARD))


@asynccontextmanager
async def _broker(folder: Path, keyspace: KeySpace, wiring: Wiring) -> AsyncIterator[RunningBroker]:
    store = (folder / "fragments").as_uri() + "/"
    config = BrokerConfig(lease_ms=LEASE_MS, default_store=store, replication_max=1)
    await _end_former_life(keyspace, config.root)
    wiring = msgspec.structs.replace(wiring, limits=BROKER_LIMITS)
    async with running_broker(BROKER, folder / BROKER.suffix, keyspace, wiring, config=config) as broker:
        yield broker


async def _end_former_life(keyspace: KeySpace, root: str) -> None:
    """Revoke the lease of an earlier process. The folder is ours, so that process is dead: no need to wait for
    its end.
    """
    found = await keyspace.get(Layout(root).member_key(BROKER))
    if found is not None and found.lease:
        await keyspace.revoke_lease(found.lease)


async def _lake(
    stack: AsyncExitStack, session: Session, log: QuorumLog, broker: RunningBroker, wiring: Wiring
) -> tuple[LakeService, HttpServer]:
    """A member of the lake, and the HTTP server of lake and journals."""
    config = session.effective.config
    credentials, _ = lake_credentials(session)
    url, secret = object_store_url(config), credentials.secret_access_key
    store = await stack.enter_async_context(open_store(url, store_options(config.objectstore)))
    lake = await stack.enter_async_context(
        serving_lake(QuorumQueue(log), store, url, secret=secret, shard=SHARD, name="up")
    )
    journals = await stack.enter_async_context(Journals([broker.address], token=wiring.token, tls=wiring.client_tls))
    gateway = JournalGateway(journals, token=Secret(wiring.token) if wiring.token is not None else None)
    app = lake_app(lake, credentials, url, more_sites=[gateway.site()])
    at = config.lake.listen
    server = await HttpServer.start(app, at.host, at.port, tls=wire_tls(config.tls), name="lake")
    return lake, await stack.enter_async_context(server)
