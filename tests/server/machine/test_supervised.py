"""A role that fails is restarted, three times; one that never served ends the process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.kernel.errors import StorageError, Unavailable
from penstock.server.machine.supervised import FAILURES_MAX, SupervisedRole


class Role:
    """A role that fails when a test says so."""

    def __init__(self) -> None:
        self.failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def ended(self) -> None:
        await self.failing

    async def drain(self) -> None:
        """Do nothing."""


class Roles:
    """All lives of one role."""

    def __init__(self) -> None:
        self.lives: list[Role] = []
        self.refuses = False
        self.served = asyncio.Event()
        self.closed = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Role]:
        if self.refuses:
            raise StorageError("the disk is broken")
        self.lives.append(Role())
        self.served.set()
        try:
            yield self.lives[-1]
        finally:
            self.closed += 1

    async def fail(self, reason: str) -> None:
        """Let the present life fail, and wait for the next one."""
        self.served.clear()
        self.lives[-1].failing.set_exception(Unavailable(reason))


async def test_three_failures_end_the_process_with_the_last_reason() -> None:
    roles = Roles()
    role = SupervisedRole("broker", roles.open, pause_s=0.001)
    running = asyncio.create_task(role.run())
    for number in range(FAILURES_MAX):
        await roles.served.wait()
        assert role.ready.is_set()
        await roles.fail(f"failure {number}")
    with pytest.raises(Unavailable, match=r"the broker failed 3 times in 10 minutes; the last time: failure 2"):
        await running
    assert (len(roles.lives), roles.closed) == (3, 3)


async def test_a_role_that_never_served_ends_the_process_at_once() -> None:
    roles = Roles()
    roles.refuses = True
    role = SupervisedRole("node", roles.open, pause_s=0.001)
    with pytest.raises(StorageError, match="the disk is broken"):
        await role.run()
    assert not role.ready.is_set()


async def test_failures_long_ago_are_forgotten() -> None:
    role = SupervisedRole("lake", Roles().open)
    for now in (0.0, 500.0, 1_101.0, 1_702.0, 2_000.0):
        role._check_often(Unavailable("again"), now)
    with pytest.raises(Unavailable, match="3 times in 10 minutes"):
        role._check_often(Unavailable("again"), 2_302.0)
