"""The roles of one machine: the node with its operator, the broker, the lake. Each can fail and begin again by itself.

<folder>/keyspace     the KeySpace of a cluster of one
<folder>/<node>       the quorum node, which orders the lake's changes
<folder>/<broker>     the broker's spools
<folder>/fragments    what journals have stored, in a cluster of one
<folder>/objects      the lake's objects, unless `objectstore.url` says otherwise
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final

import msgspec

from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.process import RunningBroker, running_broker
from penstock.journals.client.journal import Journals
from penstock.journals.gateway.gateway import JournalGateway
from penstock.kernel.errors import LeaseExpired, PenstockError, Unavailable
from penstock.kernel.ids import NodeId
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.core.limits import LEASE_MS_MAX
from penstock.keyspace.shell.port import KeySpace
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.lake.member.services.health import add_lake_checks
from penstock.lake.member.services.lake_service import LakeService, serving_lake
from penstock.lake.rest.credentials import Credentials
from penstock.plumbing.config import Config
from penstock.plumbing.config.secret import Secret
from penstock.plumbing.http.server import HttpServer
from penstock.plumbing.objects import open_store
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wiring.options import store_options, wal_options, wire_tls
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.config import SERVED
from penstock.quorum.node.node_server import NodeServer
from penstock.quorum.node.process import running_node
from penstock.quorum.operator.operator_server import OperatorServer
from penstock.quorum.operator.process import running_operator
from penstock.server.health_site import health_site
from penstock.server.lake_site import lake_app
from penstock.server.machine.plan import SHARD, MachinePlan

__all__ = ["BrokerRole", "LakeRole", "NodeRole", "broker_role", "lake_role", "node_role"]

# No other process could take over: the longest lease keeps a machine that slept over night from giving up its journals.
LEASE_MS_ALONE: Final = LEASE_MS_MAX
# A subscriber that was away for long begins with a checkpoint of its own, so this many entries suffice.
NODE_CONFIG: Final = msgspec.structs.replace(SERVED, retain_entries=50_000)
ASK_S: Final = 0.2  # between two tries to make the shard, while members are missing
log = get_logger()


class NodeRole:
    """The node and the operator of this machine."""

    def __init__(self, node: NodeServer, operator: OperatorServer) -> None:
        self.node = node
        self.operator = operator

    async def ended(self) -> None:
        await asyncio.Event().wait()  # a replica that fails says so in its status; the others serve

    async def drain(self) -> None:
        """Do nothing yet. The operator replaces a leader that has ended."""


@asynccontextmanager
async def node_role(plan: MachinePlan, config: Config, keyspace: KeySpace, wiring: Wiring) -> AsyncIterator[NodeRole]:
    me = NodeId(plan.node)
    async with (
        running_node(
            me, plan.folder / plan.node, wiring, config=NODE_CONFIG, wal=wal_options(config.wal), machine="log"
        ) as (node, server),
        running_operator(NodeId(f"operator-{plan.name}"), keyspace, wiring) as (operator, _),
    ):
        if plan.is_alone:
            for error in node.broken.values():
                raise error  # no other node can serve the shard: waiting helps no client
        await operator.add_node(me, wiring.announced(server.address))
        making = asyncio.create_task(_make_shard(operator, plan), name="make the shard")
        try:
            if plan.is_alone:
                await making
            yield NodeRole(node, operator)
        finally:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)


async def _make_shard(operator: OperatorServer, plan: MachinePlan) -> None:
    """Make the lake's shard when all members answer. Every machine tries; one of them does it."""
    members = [NodeId(name) for name in plan.members] or [NodeId(plan.node)]
    reason = ""
    while SHARD not in operator.shards:
        missing = [name for name in members if name not in operator.directory]
        if not missing:
            try:
                await operator.create(SHARD, members)
                return
            except PenstockError as error:
                if plan.is_alone:
                    raise
                missing, reason = members, error.message
        log.debug("shard waits for its members", shard=SHARD, missing=missing, reason=reason)
        await asyncio.sleep(ASK_S)


class BrokerRole:
    """The broker of this machine."""

    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker

    async def ended(self) -> None:
        try:
            await self.broker.failed()
        except LeaseExpired as lost:
            raise LeaseExpired(lost.message, next_step="penstock up") from lost

    async def drain(self) -> None:
        """Have the broker store its remaining bytes, and others take its journals."""
        with suppress(asyncio.CancelledError):
            await self.broker.drain()


@asynccontextmanager
async def broker_role(plan: MachinePlan, keyspace: KeySpace, wiring: Wiring) -> AsyncIterator[BrokerRole]:
    member = MemberId(plan.zone, plan.broker)
    config = BrokerConfig(default_store=plan.fragments, unstored_bytes_max=plan.unstored_bytes_max)
    if plan.is_alone:
        config = msgspec.structs.replace(config, lease_ms=LEASE_MS_ALONE, replication_max=1)
        await _end_former_life(keyspace, config.root, member)
    async with running_broker(member, plan.folder / plan.broker, keyspace, wiring, config=config) as broker:
        yield BrokerRole(broker)


async def _end_former_life(keyspace: KeySpace, root: str, member: MemberId) -> None:
    """The folder is ours, so the last holder of the broker's lease is dead: do not wait for its end."""
    found = await keyspace.get(Layout(root).member_key(member))
    if found is not None and found.lease:
        await keyspace.revoke_lease(found.lease)


class LakeRole:
    """The lake's member of this machine, with its HTTP server."""

    def __init__(self, lake: LakeService, server: HttpServer) -> None:
        self.lake = lake
        self.server = server

    async def ended(self) -> None:
        reason = await self.lake.engine.host.ended()
        raise Unavailable(f"the lake's member has stopped: {reason}", next_step="penstock up")

    async def drain(self) -> None:
        """Do nothing, because every acknowledged change is on the log."""


@asynccontextmanager
async def lake_role(
    plan: MachinePlan, config: Config, credentials: Credentials, wiring: Wiring, own: str
) -> AsyncIterator[LakeRole]:
    """The lake's member; `own` is the address of this machine's wire."""
    nodes = list(plan.members.values()) or [own]
    brokers = [own, *(address for address in plan.members.values() if address != own)]
    async with (
        QuorumLog(nodes, SHARD, token=wiring.token, tls=wiring.client_tls) as queue,
        open_store(plan.objects, store_options(config.objectstore)) as store,
        serving_lake(
            QuorumQueue(queue),
            store,
            plan.objects,
            secret=credentials.secret_access_key,
            shard=SHARD,
            name="up" if plan.is_alone else plan.name,
        ) as lake,
        Journals(brokers, token=wiring.token, tls=wiring.client_tls) as journals,
        AsyncExitStack() as stack,
    ):
        gateway = JournalGateway(journals, token=Secret(wiring.token) if wiring.token is not None else None)
        health = health_site(wiring.health, wiring.token or "")
        app = lake_app(lake, credentials, plan.objects, first_sites=[health], more_sites=[gateway.site()])
        at = plan.http
        stack.callback(add_lake_checks(wiring.health, lake.engine.host))
        async with await HttpServer.start(app, at.host, at.port, tls=wire_tls(config.tls), name="lake") as server:
            yield LakeRole(lake, server)
