"""What befalls brokers in a drill: kill -9, SIGSTOP, leases which are gone, restarts, one at a time."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.integration.journal_drill import LEASE_MS, LOOK_S, WAIT_S, Drill, until

from penstock.journals.broker.config import BrokerConfig
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.shell import open_keyspace
from penstock.keyspace.shell.port import KeySpace
from penstock.server.cluster.local import LocalCluster

MEMBERS = Layout(BrokerConfig().root).members
RELIEVED_S = 5 * LEASE_MS / 1_000  # by then a frozen broker has left, and others serve


async def kill_the_primary(drill: Drill) -> None:
    """kill -9, with appends on their way."""
    await _kill_for_a_while(drill, (await drill.brokers())[0])


async def kill_a_replica(drill: Drill) -> None:
    await _kill_for_a_while(drill, drill.random.choice((await drill.brokers())[1:]))


async def _kill_for_a_while(drill: Drill, victim: str) -> None:
    drill.down.add(victim)
    drill.cluster.kill(victim)
    await drill.more()
    drill.come_back(victim)


async def freeze_the_primary(drill: Drill) -> None:
    """It wakes up as a zombie: its lease is gone, others serve, and it must end without doing harm."""
    victim, ended = (await drill.brokers())[0], drill.lost_leases
    drill.cluster.kill(victim, signal.SIGSTOP)
    await drill.more()
    await _left(drill.cluster, victim)  # perhaps it was relieved just before, and appends never waited for it
    drill.cluster.kill(victim, signal.SIGCONT)
    await until(lambda: drill.lost_leases > ended)


async def kill_the_primary_while_fates_are_open(drill: Drill) -> None:
    """A frozen replica acknowledges nothing: appends end as unknown. Then the primary dies, and another epoch tells."""
    async with asyncio.timeout(WAIT_S):
        while not await _kill_the_primary_behind_a_frozen_replica(drill):
            pass


async def _kill_the_primary_behind_a_frozen_replica(drill: Drill) -> bool:
    """False: the allocator relieved the frozen one before an append had to wait for it, as after a start of all."""
    primary, *replicas = await drill.brokers()
    # with three of five frozen no majority suspects them, so that appends wait for them until their leases end
    spare = next(name for name in ("b1", "b2", "b3", "b4", "b5") if name not in (primary, *replicas))
    frozen = [*replicas, spare]
    before = drill.resolved
    for name in frozen:
        drill.cluster.kill(name, signal.SIGSTOP)
    try:
        async with asyncio.timeout(RELIEVED_S):
            await until(lambda: drill.resolved > before)
        drill.down.add(primary)
        drill.cluster.kill(primary)
    except TimeoutError:
        return False
    finally:
        for name in frozen:
            drill.cluster.kill(name, signal.SIGCONT)
    await drill.more()
    drill.come_back(primary)
    return True


async def drop_the_lease_of_the_primary(drill: Drill) -> None:
    """Make its process end, as without a lease it must, and come back with another."""
    victim, ended = (await drill.brokers())[0], drill.lost_leases
    await _revoke(drill.cluster, [victim])
    await until(lambda: drill.lost_leases > ended)
    await drill.more()


async def drop_all_leases(drill: Drill) -> None:
    """Leave the journal without members for a moment. The brokers keep their content when they end, and come back with
    it.
    """
    await drill.brokers()
    names, ended = drill.cluster.names("broker"), drill.lost_leases
    revoked = await _revoke(drill.cluster, names)
    await until(lambda: drill.lost_leases >= ended + revoked)
    await drill.more()


async def restart_every_broker(drill: Drill) -> None:
    """Each in order: it is relieved of its journals first."""
    for name in drill.cluster.names("broker"):
        await drill.brokers()
        drill.down.add(name)
        drill.cluster.kill(name, signal.SIGTERM)
        await until(lambda name=name: not drill.cluster.is_running(name))  # type: ignore[misc]
        drill.come_back(name)
        await drill.more(5)


async def _revoke(cluster: LocalCluster, names: list[str]) -> int:
    """End the leases of these brokers; return how many had one."""
    async with _keyspace(cluster) as keyspace:
        entries = (await keyspace.range(MEMBERS)).entries
        leases = [entry.lease for entry in entries if entry.key.rpartition("#")[2] in names]
        for lease in leases:
            await keyspace.revoke_lease(lease)
    return len(leases)


async def _left(cluster: LocalCluster, name: str) -> None:
    """Until the KeySpace knows this broker no more."""
    async with _keyspace(cluster) as keyspace, asyncio.timeout(WAIT_S):
        while True:
            entries = (await keyspace.range(MEMBERS)).entries
            if name not in {entry.key.rpartition("#")[2] for entry in entries}:
                return
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def _keyspace(cluster: LocalCluster) -> AsyncIterator[KeySpace]:
    where = cluster.keyspace
    async with await open_keyspace(where if "://" in where else f"embedded://{Path(where).absolute()}") as keyspace:
        yield keyspace
