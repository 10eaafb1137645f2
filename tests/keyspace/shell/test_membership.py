import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.keyspace.shell.behaviours import WAIT_S

from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.membership import Membership
from penstock.plumbing.ports.ports import system_ports

CLOCK = system_ports().clock.boot_ns

KEY = "/root/members/zone#one"


@pytest.fixture
async def keyspace(tmp_path: Path) -> AsyncIterator[EmbeddedKeySpace]:
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(poll_ms=20)) as keyspace:
        yield keyspace


def ignore(_: str) -> None:
    pass


async def test_a_member_is_there_while_it_lives(keyspace: EmbeddedKeySpace) -> None:
    async with await Membership.announce(keyspace, KEY, b"one", CLOCK, lease_ms=60_000, on_lost=ignore) as membership:
        found = await keyspace.get(KEY)
        assert found is not None
        assert (found.value, found.lease, found.mod_revision) == (b"one", membership.lease, membership.revision)
        assert membership.is_good
        revision = await membership.update(b"two")
        found = await keyspace.get(KEY)
        assert found is not None
        assert (found.value, found.lease, found.mod_revision) == (b"two", membership.lease, revision)
    assert await keyspace.get(KEY) is None


async def test_a_new_life_waits_until_the_lease_of_the_old_one_has_ended(keyspace: EmbeddedKeySpace) -> None:
    old = await Membership.announce(keyspace, KEY, b"old", CLOCK, lease_ms=60_000, on_lost=ignore)
    coming = asyncio.create_task(Membership.announce(keyspace, KEY, b"new", CLOCK, lease_ms=60_000, on_lost=ignore))
    done, _ = await asyncio.wait([coming], timeout=0.2)
    assert not done
    await old.close()
    async with asyncio.timeout(WAIT_S), await coming:
        found = await keyspace.get(KEY)
        assert found is not None
        assert found.value == b"new"


async def test_who_gives_up_waiting_leaves_no_lease_behind(keyspace: EmbeddedKeySpace) -> None:
    async with await Membership.announce(keyspace, KEY, b"old", CLOCK, lease_ms=60_000, on_lost=ignore) as old:
        coming = asyncio.create_task(Membership.announce(keyspace, KEY, b"new", CLOCK, lease_ms=60_000, on_lost=ignore))
        await asyncio.wait([coming], timeout=0.1)
        coming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await coming
        found = await keyspace.get(KEY)
        assert found is not None
        assert found.lease == old.lease


async def test_a_lost_lease_is_told(keyspace: EmbeddedKeySpace) -> None:
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    membership = await Membership.announce(keyspace, KEY, b"one", CLOCK, lease_ms=1_000, on_lost=lost.set_result)
    await keyspace.revoke_lease(membership.lease)
    async with asyncio.timeout(WAIT_S):
        assert "lease" in await lost
    assert not membership.is_good
    await membership.close()
