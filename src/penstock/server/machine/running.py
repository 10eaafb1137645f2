"""A running machine: one server for the wire, the KeySpace, and the roles under supervision.

async with running_machine(session, plan) as machine:
    await machine.ready()
    await machine.ended()     # raises when a role has failed too often
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from penstock.journals.broker.broker_server import BrokerServer
from penstock.journals.broker.broker_service import BrokerService
from penstock.journals.broker.process import BROKER_LIMITS
from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.kernel.formats import CREDENTIALS
from penstock.kernel.version import Release
from penstock.keyspace.core.limits import LEASE_MS_MAX
from penstock.keyspace.core.transaction import PutKey, is_absent
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.neighbours import LifeAnswers
from penstock.keyspace.shell.port import KeySpace
from penstock.lake.rest.credentials import Credentials
from penstock.plumbing.files.data_folder import enter_folder
from penstock.plumbing.files.sealed import write_sealed
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.running import RunningServer
from penstock.plumbing.wire.server import Server
from penstock.plumbing.wire.service import Service
from penstock.plumbing.wiring.switchboard import Switchboard
from penstock.plumbing.wiring.wiring import Wiring
from penstock.quorum.node.node_service import NodeService
from penstock.quorum.operator.operator_service import OperatorService
from penstock.quorum.records.api import ShardStatus
from penstock.server.keyspaces import open_keyspace
from penstock.server.lake_server import lake_credentials
from penstock.server.machine.membership import LAKE_KEYS, MACHINES, ClusterMachine, join_cluster
from penstock.server.machine.plan import SHARD, MachinePlan
from penstock.server.machine.roles import BrokerRole, LakeRole, NodeRole, broker_role, lake_role, node_role
from penstock.server.machine.status import MachineStatusService
from penstock.server.machine.supervised import SupervisedRole
from penstock.server.session import Session
from penstock.server.wiring import wiring_of

__all__ = ["RunningMachine", "running_machine"]

LEASE_MS: Final = 10_000
REJOIN_S: Final = 1.0
log = get_logger()


class RunningMachine:
    """The roles of this process."""

    def __init__(self, plan: MachinePlan, keyspace: KeySpace, wire: str, machine: ClusterMachine, level: int) -> None:
        self.plan = plan
        self.keyspace = keyspace
        self.wire = wire
        self.machine = machine
        self.level = level
        self.roles: dict[str, SupervisedRole] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, role: SupervisedRole) -> None:
        self.roles[role.name] = role
        self._tasks[role.name] = asyncio.create_task(role.run(), name=f"role {role.name}")

    async def ready(self) -> None:
        """Wait until every role has served; raise if one cannot."""
        for name, role in self.roles.items():
            waiting = asyncio.create_task(role.ready.wait())
            try:
                await asyncio.wait({waiting, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
                self._raise_first()
            finally:
                waiting.cancel()
            log.debug("role ready", role=name)

    async def ended(self) -> None:
        """Wait until a role must not be restarted any more; raise the reason."""
        await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        self._raise_first()

    def _raise_first(self) -> None:
        for task in self._tasks.values():
            if task.done():
                task.result()

    async def drain(self) -> None:
        """Have every role hand over its work."""
        for role in self.roles.values():
            if role.running is not None:
                await role.running.drain()

    async def close(self) -> None:
        """End the roles, the last one first."""
        for task in reversed(self._tasks.values()):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @property
    def lake_url(self) -> str:
        role = self.roles.get("lake")
        running = role.running if role is not None else None
        return running.server.url if isinstance(running, LakeRole) else ""

    @property
    def replicas(self) -> list[ShardStatus]:
        """Return the status of each replica of the quorum log on this machine."""
        role = self.roles.get("node")
        running = role.running if role is not None else None
        return running.node.statuses() if isinstance(running, NodeRole) else []

    @property
    def broker(self) -> BrokerServer | None:
        """Return the broker, if it runs."""
        role = self.roles.get("broker")
        running = role.running if role is not None else None
        return running.broker.server if isinstance(running, BrokerRole) else None

    @property
    def running(self) -> RunningServer:
        """Return the addresses for `up.json`."""
        return RunningServer(os.getpid(), self.wire, self.wire, self.wire, self.lake_url, SHARD)


@asynccontextmanager
async def running_machine(session: Session, plan: MachinePlan) -> AsyncIterator[RunningMachine]:
    """Run the roles of the plan until the block is left. The data folder must be held."""
    config = session.effective.config
    board = Switchboard(_offered(plan))
    status = MachineStatusService(session.health)
    status.register(board.service)
    at = plan.listen
    wiring = msgspec.structs.replace(
        wiring_of(session), host=at.host, port=at.port, limits=BROKER_LIMITS, advertise=plan.advertise, board=board
    )
    wiring.check_announced()
    async with AsyncExitStack() as stack:
        board.server = await Server.start(
            board.service, at.host, at.port, limits=wiring.limits, token=wiring.token, tls=wiring.server_tls
        )
        stack.push_async_callback(board.server.close, drain_s=0.5)
        wire = wiring.announced(board.server.address)
        keyspace = await stack.enter_async_context(await _keyspace(plan, wiring))
        machine = _machine(plan, wire, config.cluster.name, wiring)
        level = await _joined(stack, keyspace, machine, wiring, plan)
        enter_folder(plan.folder, level=level)
        credentials = await _credentials(session, keyspace, plan)
        running = status.running = RunningMachine(plan, keyspace, wire, machine, level)
        stack.push_async_callback(running.close)
        openers: dict[str, Callable[[], AbstractAsyncContextManager[Any]]] = {
            "node": partial(node_role, plan, config, keyspace, wiring),
            "broker": partial(broker_role, plan, keyspace, wiring),
            "lake": partial(lake_role, plan, config, credentials, wiring, wire),
        }
        for name in plan.roles:
            role = SupervisedRole(name, openers[name])
            stack.callback(session.health.add("role", name, role.look))
            running.start(role)
        yield running


def _offered(plan: MachinePlan) -> dict[str, Service]:
    """Return the methods of each role, whose handlers come when the role runs."""
    nothing: Any = None
    node, broker = Service(), Service()
    NodeService(nothing).register(node)
    OperatorService(nothing).register(node)
    BrokerService(nothing).register(broker)
    LifeAnswers(lambda: None).offer(broker)
    return {name: service for name, service in (("node", node), ("broker", broker)) if name in plan.roles}


async def _keyspace(plan: MachinePlan, wiring: Wiring) -> KeySpace:
    try:
        return await open_keyspace(plan.keyspace, wiring, first=plan.members.get(plan.name, ""))
    except InvalidArgument as error:
        raise ConfigError(
            f"cluster.keyspace: {error.message}", next_step="--set cluster.keyspace=etcd://HOST:PORT,HOST:PORT"
        ) from None


async def _credentials(session: Session, keyspace: KeySpace, plan: MachinePlan) -> Credentials:
    """Return the lake's keys. Members that have none configured share those that the first of them made."""
    credentials, made_in = lake_credentials(session)
    if plan.is_alone or made_in is None:
        return credentials
    fields = {"access_key_id": credentials.access_key_id, "secret_access_key": credentials.secret_access_key}
    await keyspace.transact([is_absent(LAKE_KEYS)], [PutKey(LAKE_KEYS, msgspec.json.encode(fields))])
    found = await keyspace.get(LAKE_KEYS)
    assert found is not None, "no call removes it"
    shared = msgspec.json.decode(found.value, type=dict[str, str])
    if shared != fields:
        write_sealed(CREDENTIALS, made_in, shared, mode=0o600)
    return Credentials(shared["access_key_id"], shared["secret_access_key"])


def _machine(plan: MachinePlan, wire: str, cluster: str, wiring: Wiring) -> ClusterMachine:
    host = plan.advertise or plan.http.host
    return ClusterMachine(
        plan.name,
        plan.zone,
        plan.roles,
        *Release(),
        wire=wire,
        http=f"{host}:{plan.http.port}",
        metrics=f"{host}:{plan.metrics.port}" if plan.metrics is not None else "",
        started_ns=wiring.ports.clock.time_ns(),
        cluster=cluster,
    )


async def _joined(
    stack: AsyncExitStack, keyspace: KeySpace, machine: ClusterMachine, wiring: Wiring, plan: MachinePlan
) -> int:
    """Join the cluster, and again whenever the lease is lost. Return the level of the cluster."""
    lost = asyncio.Event()
    if plan.is_alone:  # the folder is ours, so the last holder of the lease is dead
        found = await keyspace.get(MACHINES + machine.name)
        if found is not None and found.lease:
            await keyspace.revoke_lease(found.lease)

    async def join() -> tuple[Membership, int]:
        return await join_cluster(
            keyspace,
            machine,
            wiring.ports.clock.boot_ns,
            lease_ms=LEASE_MS_MAX if plan.is_alone else LEASE_MS,
            on_lost=lambda _: lost.set(),
        )

    member, level = await join()

    async def keep() -> None:
        nonlocal member
        try:
            while True:
                await lost.wait()
                lost.clear()
                log.warning("machine lost its lease, and joins again", machine=machine.name)
                await member.close()
                member, _ = await join()
        finally:
            with suppress(Exception):
                await member.close()

    keeping = asyncio.create_task(keep(), name="machine's key")

    async def leave() -> None:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    stack.push_async_callback(leave)
    return level
