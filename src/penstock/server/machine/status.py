"""What a machine says about itself, and of the others: the answers that `penstock status` shows. Design: O21.

`machine.status` is answered by the server of the machine, whichever of its roles run.
"""

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.journals.broker.status.health import short_journals
from penstock.kernel.codec import Codec
from penstock.kernel.errors import PenstockError, Unavailable
from penstock.plumbing.process.health import CheckReport, Health, HealthState
from penstock.plumbing.wire.message import WireCall
from penstock.plumbing.wire.records import RecordMethod
from penstock.plumbing.wire.service import Service
from penstock.quorum.records.api import ShardStatus
from penstock.server.machine.membership import ClusterMachine, machines_of

if TYPE_CHECKING:
    from penstock.journals.broker.broker_server import BrokerServer
    from penstock.server.machine.running import RunningMachine

__all__ = ["STATUS", "BrokerFigures", "LogFigures", "MachineQuery", "MachineStatus", "MachineStatusService"]


KEYSPACE_S: Final = 0.15


class MachineQuery(msgspec.Struct, frozen=True, tag="status-query"):
    """Ask a machine for its status."""


class LogFigures(msgspec.Struct, frozen=True):
    """A shard whose leader is on this machine."""

    shard: str
    epoch: int
    limbo: int  # transactions that wait for a majority
    lag: int  # entries that the last follower has not confirmed


class BrokerFigures(msgspec.Struct, frozen=True):
    """The journals of this machine's broker."""

    journals: int = 0
    led: int = 0  # it is the primary of them
    short: int = 0  # of those: journals with fewer brokers than their replication
    unstored_bytes: int = 0


class MachineStatus(msgspec.Struct, frozen=True, tag="machine-status"):
    """One machine."""

    machine: ClusterMachine
    level: int
    state: HealthState
    checks: tuple[CheckReport, ...]  # the worst first
    pid: int
    disk_percent: float  # of the data folder's disk
    folder: str
    logs: tuple[LogFigures, ...]
    broker: BrokerFigures | None
    lake_url: str
    machines: tuple[ClusterMachine, ...]  # every machine with a living lease, as this one knows


STATUS: Final = RecordMethod[MachineQuery, MachineStatus](
    "machine.status", Codec[MachineQuery](MachineQuery), Codec[MachineStatus](MachineStatus)
)


class MachineStatusService:
    """Answers for one machine."""

    def __init__(self, health: Health) -> None:
        self.running: RunningMachine | None = None  # it starts before its roles
        self._health = health

    def register(self, service: Service) -> None:
        STATUS.serve(service)(self._answer)

    async def _answer(self, _: MachineQuery, call: WireCall) -> MachineStatus:
        running = self.running
        if running is None:
            raise Unavailable("this machine is starting", next_step="penstock status")
        checks = tuple(self._health.report())
        usage = shutil.disk_usage(running.plan.folder)
        return MachineStatus(
            running.machine,
            running.level,
            checks[0].state if checks else HealthState.OK,
            checks,
            os.getpid(),
            100.0 * usage.used / max(1, usage.used + usage.free),
            str(running.plan.folder),
            tuple(_log(each) for each in running.replicas if each.limbo is not None),
            _broker(running.broker),
            running.lake_url,
            await _machines(running),
        )


async def _machines(running: "RunningMachine") -> tuple[ClusterMachine, ...]:
    """Return the machines that the KeySpace knows; this one alone while the KeySpace does not answer."""
    try:
        async with asyncio.timeout(KEYSPACE_S):
            return tuple(await machines_of(running.keyspace))
    except (PenstockError, TimeoutError):
        return (running.machine,)


def _broker(server: "BrokerServer | None") -> BrokerFigures | None:
    if server is None:
        return None
    led = sum(host.is_primary for host in server.hosts)
    return BrokerFigures(len(server.hosts), led, len(short_journals(server)), server.unstored.bytes)


def _log(status: ShardStatus) -> LogFigures:
    assert status.limbo is not None
    lag = max((status.head.offset - each.last_confirmed for each in status.cursors), default=0)
    return LogFigures(status.shard, status.epoch, status.limbo.length + status.limbo.volatile_length, lag)
