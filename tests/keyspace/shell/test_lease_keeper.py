"""A lease is kept while it can be; and when it cannot, its holder learns it, once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.keyspace.shell.behaviours import WAIT_S
from tests.keyspace.shell.embedded.harness import HandClock
from tests.lab.world.inside import new_process

from penstock.keyspace.core.records import Lease, LeaseId
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.embedded.lock import WriterLock
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.lease_keeper import LeaseKeeper
from penstock.plumbing.ports.ports import system_ports

CLOCK = system_ports().clock.boot_ns


@pytest.fixture
async def keyspace(tmp_path: Path) -> AsyncIterator[EmbeddedKeySpace]:
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(poll_ms=20, lock_ms_max=50)) as keyspace:
        yield keyspace


class Losses:
    """Records a loss."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.happened = asyncio.Event()

    def __call__(self, reason: str) -> None:
        self.reasons.append(reason)
        self.happened.set()

    async def wait(self) -> list[str]:
        async with asyncio.timeout(WAIT_S):
            await self.happened.wait()
        return self.reasons


async def test_a_kept_lease_is_renewed_before_it_ends(keyspace: EmbeddedKeySpace) -> None:
    losses = Losses()
    async with (
        await LeaseKeeper.start(keyspace, 2_000, losses, CLOCK) as keeper,
        asyncio.timeout(WAIT_S),
    ):
        await keyspace.transact(then=[PutKey("a", b"", keeper.id)])
        lowest = 2_000
        while (remaining := (await keyspace.lease_status(keeper.id)).remaining_ms) <= lowest:
            lowest = remaining  # until it jumps up: it was renewed
        assert 0 < lowest <= 1_400
        assert keeper.is_good
    assert await keyspace.get("a") is None, "closing revokes it"
    assert losses.reasons == []


async def test_closing_without_revoking_leaves_the_lease_to_its_time(keyspace: EmbeddedKeySpace) -> None:
    keeper = await LeaseKeeper.start(keyspace, 60_000, Losses(), CLOCK)
    await keeper.close(revoke=False)
    assert (await keyspace.lease_status(keeper.id)).remaining_ms > 0
    await keyspace.revoke_lease(keeper.id)
    await keeper.close()  # a lease that is gone need not be revoked


async def test_a_lease_which_others_ended_is_lost(keyspace: EmbeddedKeySpace) -> None:
    losses = Losses()
    keeper = await LeaseKeeper.start(keyspace, 1_500, losses, CLOCK)
    await keyspace.revoke_lease(keeper.id)
    assert await losses.wait() == [f"lease {keeper.id:x} does not exist any more"]
    assert (keeper.is_good, keeper.lost_because) == (False, losses.reasons[0])
    await keeper.close()
    assert len(losses.reasons) == 1


async def test_a_lease_which_cannot_be_renewed_is_lost_after_its_time(
    keyspace: EmbeddedKeySpace, tmp_path: Path
) -> None:
    """The KeySpace is cut off: no answer says that the lease ended, and none can."""
    losses = Losses()
    keeper = await LeaseKeeper.start(keyspace, 300, losses, CLOCK)
    lock = WriterLock(tmp_path / "writer.lock", 1_000)
    lock.acquire()
    assert await losses.wait() == ["it could not be renewed for 300 ms"]
    lock.release()
    lock.close()
    await keeper.close()


async def test_a_process_which_slept_knows_before_it_is_told(keyspace: EmbeddedKeySpace) -> None:
    """Paused, or its machine suspended: its first action, before any timer fired, must not trust the lease."""
    clock = HandClock()
    losses = Losses()
    keeper = await LeaseKeeper.start(keyspace, 600, losses, clock.now_ns)
    clock.move(599)
    assert keeper.is_good
    clock.move(1)
    assert not keeper.is_good
    assert await losses.wait() == ["it could not be renewed for 600 ms"]
    await keeper.close()


async def test_a_renewal_makes_the_lease_good_for_its_time_again(keyspace: EmbeddedKeySpace) -> None:
    clock = HandClock()
    async with (
        await LeaseKeeper.start(keyspace, 3_000, Losses(), clock.now_ns) as keeper,
        asyncio.timeout(WAIT_S),
    ):
        clock.move(2_000)
        lowest = 3_000
        while (remaining := (await keyspace.lease_status(keeper.id)).remaining_ms) <= lowest:
            lowest = remaining
        await keyspace.keep_alive(keeper.id)  # after the keeper's own, whose answer it has by then
        clock.move(2_000)
        assert keeper.is_good
        clock.move(1_000)
        assert not keeper.is_good


class _Absent:
    """A KeySpace that grants a lease, and then answers nothing any more."""

    def __init__(self) -> None:
        self.asked = 0

    async def grant_lease(self, ttl_ms: int) -> Lease:
        return Lease(LeaseId(7), ttl_ms)

    async def keep_alive(self, _: LeaseId) -> Lease:
        self.asked += 1
        never: asyncio.Future[Lease] = asyncio.get_running_loop().create_future()
        return await never


def test_a_lease_near_its_end_is_not_asked_for_again_and_again() -> None:
    """uvloop's timers fire up to 1 ms early: the keeper asked some twenty times in the lease's last millisecond."""
    process = new_process()
    process.loop._early_s = 0.001
    absent, losses = _Absent(), Losses()

    async def keep() -> None:
        keeper = await LeaseKeeper.start(absent, 1_000, losses, process.clock.boot_ns)  # type: ignore[arg-type]
        await losses.wait()
        await keeper.close(revoke=False)

    try:
        process.loop.run_until_complete(keep())
    finally:
        process.world.end()
    assert absent.asked <= 2
