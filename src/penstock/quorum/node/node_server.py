"""A node process: replicas of any number of shards in one data folder, served on one port.

    <folder>/node           who this is
    <folder>/shards/<name>/ one replica: see `storage.py`

A replica is made when an operator asks for it (`quorum.member`), and gets a random incarnation then: a folder which was
lost comes back as another member. A replica that cannot run (damaged log, full disk) reports the reason in the status;
the others continue.
"""

import asyncio
import re
from pathlib import Path
from typing import Final

from penstock.kernel.errors import (
    InvalidArgument,
    NotFound,
    PenstockError,
    PreconditionFailed,
    Unavailable,
    WalCorrupt,
)
from penstock.kernel.formats import NODE_OWNER
from penstock.kernel.ids import EntryId, Epoch, Incarnation, NodeId, Offset
from penstock.plumbing.ports.disk import FileSystem
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wal import StateFile, WalOptions
from penstock.plumbing.wire.channels import Channels
from penstock.quorum.core.config import SERVED, NodeConfig
from penstock.quorum.core.machines.builtin import machine_of, make_machine
from penstock.quorum.node.host import ReplicaHost
from penstock.quorum.node.status import status_of
from penstock.quorum.node.storage import NodeStorage
from penstock.quorum.records.api import ShardStatus
from penstock.quorum.records.member import Member
from penstock.quorum.records.messages import Role
from penstock.quorum.records.state import NodeState

__all__ = ["NodeServer", "valid_name"]

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
LEAVE_S: Final = 2.0  # how long a process that ends waits for its successors
log = get_logger()


def valid_name(name: str, what: str) -> str:
    """Names become folders and keys: lower case letters, digits, and . _ - between them."""
    if not NAME.fullmatch(name):
        raise InvalidArgument(f"{what} {name!r}: expected 1 to 64 of a-z 0-9 . _ - with a letter or digit at both ends")
    return name


class NodeServer:
    """All replicas of one node."""

    def __init__(
        self,
        node: NodeId,
        folder: Path,
        ports: Ports,
        channels: Channels,
        tasks: Tasks,
        config: NodeConfig,
        wal: WalOptions,
        machine: str,
    ) -> None:
        self.node = node
        self._folder = folder
        self._ports = ports
        self._disk = ports.disk
        self._channels = channels
        self._tasks = tasks
        self._config = config
        self._wal = wal
        self._machine = machine
        self._hosts: dict[str, ReplicaHost] = {}
        self._broken: dict[str, tuple[Member, PenstockError]] = {}

    @classmethod
    async def open(
        cls,
        node: NodeId,
        folder: Path,
        ports: Ports,
        channels: Channels,
        tasks: Tasks,
        *,
        config: NodeConfig | None = None,
        wal: WalOptions | None = None,
        machine: str = "map",
    ) -> "NodeServer":
        """Start every replica the folder has. Refuses a folder which belongs to another node."""
        valid_name(node, "node")
        make_machine(machine)
        _check_owner(folder, node, ports.disk)
        server = cls(node, folder, ports, channels, tasks, config or SERVED, wal or WalOptions(), machine)
        shards = folder / "shards"
        for shard in sorted(ports.disk.names(shards)) if ports.disk.exists(shards) else ():
            await server._start(shard)
        return server

    @property
    def hosts(self) -> list[ReplicaHost]:
        return list(self._hosts.values())

    def host(self, shard: str) -> ReplicaHost:
        """The running replica of a shard, or why there is none."""
        if shard in self._hosts:
            return self._hosts[shard]
        if shard in self._broken:
            reason = self._broken[shard][1]
            raise Unavailable(
                f"the replica of {shard} on {self.node} cannot run: {reason}",
                next_step=reason.next_step or "penstock quorum status",
            )
        raise NotFound(f"{self.node} has no replica of shard {shard!r}", next_step="penstock quorum shards")

    async def member(self, shard: str, *, wiped: bool = False) -> Member:
        """This node's member of a shard; made if there is none. `wiped` sets a broken replica aside and makes a new
        one.
        """
        valid_name(shard, "shard")
        if wiped:
            await self._set_aside(shard)
        if shard in self._broken:
            return self._broken[shard][0]
        if shard not in self._hosts:
            await self._start(shard)
        return self.host(shard).member

    @property
    def broken(self) -> dict[str, PenstockError]:
        """Return the shards whose replica here cannot run, and why."""
        return {shard: error for shard, (_, error) in self._broken.items()}

    def statuses(self) -> list[ShardStatus]:
        running = [status_of(host) for host in self._hosts.values()]
        return running + [_broken_status(shard, *why) for shard, why in self._broken.items()]

    async def hand_over(self) -> None:
        """Let other nodes lead the shards that this one leads."""
        await asyncio.gather(*(host.hand_over(LEAVE_S) for host in self._hosts.values()))

    async def close(self) -> None:
        for host in self._hosts.values():
            await host.close()

    async def _start(self, shard: str) -> None:
        folder = self._folder / "shards" / shard
        member = Member(self.node, Incarnation("?"))
        try:
            storage = await NodeStorage.open(folder, self._ports, self._tasks, self._wal)
            state = storage.load_state()
            if state is None:
                if storage.wal.durable_lsn:
                    raise WalCorrupt(
                        f"{folder / 'state'} is missing, though {folder / 'log'} has records",
                        next_step="keep the folder for inspection, and restore this node from its peers or a backup",
                    )
                state = NodeState(Member(self.node, Incarnation(self._token())))
                storage.format(state)
            member = state.member
            self._hosts[shard] = await ReplicaHost.start(
                shard,
                folder,
                self._ports,
                state,
                storage,
                make_machine(machine_of(shard, self._machine)),
                self._channels,
                self._config,
                self._tasks,
            )
        except PenstockError as error:
            # The other replicas are as good as ever: one broken log must not take them down.
            log.error("replica cannot start", shard=shard, reason=str(error))
            self._broken[shard] = (member, error)

    async def _set_aside(self, shard: str) -> None:
        """Keep the rest of a broken replica for inspection, under another name."""
        host = self._hosts.get(shard)
        if host is not None and not host.failed and host.node.divergence is None:
            raise PreconditionFailed(f"the replica of {shard} on {self.node} runs well: it is not wiped")
        if host is not None:
            await host.close()
            del self._hosts[shard]
        self._broken.pop(shard, None)
        folder = self._folder / "shards" / shard
        if self._disk.exists(folder):
            self._disk.make_folders(self._folder / "set-aside")
            self._disk.rename(folder, self._folder / "set-aside" / f"{shard}-{self._token()}")

    def _token(self) -> str:
        return self._ports.chance.token(4).hex()


def _check_owner(folder: Path, node: NodeId, disk: FileSystem) -> None:
    disk.make_folders(folder)
    owner = StateFile(folder / "node", disk, kind=NODE_OWNER)
    found = owner.load()
    if found is None:
        if disk.walk(folder / "shards"):
            raise WalCorrupt(
                f"{folder / 'node'} is missing, though {folder / 'shards'} has files: it says whose they are",
                next_step="restore the file from a backup, or the folder from its peers",
            )
        owner.save(node.encode())
    elif found.decode() != node:
        raise PreconditionFailed(
            f"{folder} belongs to node {found.decode()}, not to {node}", next_step="give each node a folder of its own"
        )


def _broken_status(shard: str, member: Member, reason: PenstockError) -> ShardStatus:
    nothing = Offset(0)
    return ShardStatus(
        shard, member, Role.FENCED, Epoch(0), EntryId(Epoch(0), nothing), nothing, nothing, nothing, nothing, nothing,
        failed=str(reason),
    )  # fmt: skip
