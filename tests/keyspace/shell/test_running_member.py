"""A member of a cluster as something that runs: the first failure ends it, a signal lets it drain. Real ones are in
`tests/runtime/journal` and `tests/client/consumer`."""

import asyncio

import pytest

from penstock.kernel.errors import Unavailable
from penstock.keyspace.shell.running_member import RunningMember


class Shop(RunningMember):
    """A member which only knows that it was drained."""

    def __init__(self) -> None:
        super().__init__()
        self.is_drained = False

    async def drain(self) -> list[str]:
        await asyncio.sleep(0)
        self.is_drained = True
        return []


async def test_the_first_reason_why_it_cannot_go_on_counts() -> None:
    shop = Shop()
    shop.fail(Unavailable("the lease is lost"))
    shop.fail(Unavailable("something which follows from that"))
    with pytest.raises(Unavailable, match="the lease is lost"):
        await shop.until_told()
    assert not shop.is_drained


async def test_one_which_is_told_to_end_drains_and_then_ends() -> None:
    shop = Shop()
    serving = asyncio.create_task(shop.until_told())
    await asyncio.sleep(0)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert shop.is_drained
