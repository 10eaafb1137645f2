"""The machines of a cluster, in the KeySpace: which level the cluster has, and which machine speaks which. O33.

    cluster/level              the level of the cluster
    cluster/joined             the last machine that joined, so that a raise of the level notices it
    cluster/machines/<name>    a running machine, under its lease
    cluster/lake-keys          the keys of the lake, unless others are configured

A machine joins, and then reads the level: it refuses one that its release does not speak. The level is raised by a
transaction that compares `cluster/joined`. So no machine can join unnoticed between the look at all machines and the
raise.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from penstock.kernel.errors import FormatTooNew, PreconditionFailed
from penstock.kernel.ids import Revision
from penstock.kernel.version import Release
from penstock.keyspace.core.records import NO_REVISION, KeyValue
from penstock.keyspace.core.transaction import PutKey, is_absent, is_at
from penstock.keyspace.shell.membership import Membership
from penstock.keyspace.shell.port import KeySpace

__all__ = ["LAKE_KEYS", "LEVEL", "ClusterMachine", "join_cluster", "level_of", "machines_of", "raise_level"]

ROOT: Final = "cluster/"
LEVEL: Final = ROOT + "level"
JOINED: Final = ROOT + "joined"
MACHINES: Final = ROOT + "machines/"
LAKE_KEYS: Final = ROOT + "lake-keys"
_encode = msgspec.msgpack.Encoder().encode


class ClusterMachine(msgspec.Struct, frozen=True):
    """A machine, as its key says it."""

    name: str
    zone: str
    roles: tuple[str, ...]
    release: str
    level_min: int
    level_max: int
    wire: str  # addresses that others dial
    http: str
    metrics: str
    started_ns: int
    cluster: str = ""

    @property
    def speaks(self) -> Release:
        return Release(self.release, self.level_min, self.level_max)


_decode = msgspec.msgpack.Decoder(ClusterMachine).decode


async def join_cluster(
    keyspace: KeySpace,
    machine: ClusterMachine,
    clock: Callable[[], int],
    *,
    lease_ms: int,
    on_lost: Callable[[str], None],
) -> tuple[Membership, int]:
    """Announce a machine; return its membership and the level of the cluster.

    `FormatTooNew`: the cluster has a level that this release does not speak.
    """
    member = await Membership.announce(
        keyspace, MACHINES + machine.name, _encode(machine), clock, lease_ms=lease_ms, on_lost=on_lost
    )
    try:
        await keyspace.transact(then=[PutKey(JOINED, machine.name.encode())])
        await keyspace.transact([is_absent(LEVEL)], [PutKey(LEVEL, str(machine.level_max).encode())])
        level = await level_of(keyspace)
        if not machine.speaks.speaks(level):
            raise FormatTooNew(
                f"the cluster has level {level}; this is {machine.speaks.describe()}",
                next_step="install the release that the other machines run: penstock status",
                level=level,
            )
    except BaseException:
        await member.close()
        raise
    return member, level


async def level_of(keyspace: KeySpace) -> int:
    """Return the level of the cluster; 0 if no machine has joined one yet."""
    found = await keyspace.get(LEVEL)
    return int(found.value) if found is not None else 0


async def machines_of(keyspace: KeySpace) -> list[ClusterMachine]:
    """Return the machines that run now, by name."""
    snapshot = await keyspace.range(MACHINES)
    return [_decode(entry.value) for entry in snapshot.entries]


async def raise_level(keyspace: KeySpace) -> tuple[int, int]:
    """Raise the level of the cluster by one; return the old and the new one. Older releases are refused from then on.

    `PreconditionFailed` names the machines that do not speak the next level. Nothing is changed then.
    """
    while True:
        joined = await keyspace.get(JOINED)
        level = await keyspace.get(LEVEL)
        if level is None:
            raise PreconditionFailed("no machine has joined this cluster yet", next_step="run penstock server, or up")
        before = int(level.value)
        machines = await machines_of(keyspace)
        behind = [f"{each.name} runs {each.speaks.describe()}" for each in machines if each.level_max <= before]
        if behind or not machines:
            raise PreconditionFailed(
                f"the level stays {before}: {'; '.join(behind) or 'no machine runs'}",
                next_step="upgrade these machines first: penstock upgrade plan",
                level=before,
            )
        compares = [is_at(JOINED, _revision(joined)), is_at(LEVEL, level.mod_revision)]
        outcome = await keyspace.transact(compares, [PutKey(LEVEL, str(before + 1).encode())])
        if outcome.succeeded:
            return before, before + 1


def _revision(entry: KeyValue | None) -> Revision:
    return NO_REVISION if entry is None else entry.mod_revision
