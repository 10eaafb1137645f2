import asyncio

import pytest

from penstock.base.errors import AlreadyClosed, InvalidArgument, LimitExceeded, ShuttingDown
from penstock.base.ids import Lsn
from penstock.runtime.wal import WalOptions
from penstock.runtime.wal.append_queue import AppendQueue
from penstock.runtime.wal.writer import Group

OPTIONS = WalOptions(record_bytes_max=50, batch_bytes_max=60, queue_bytes_max=100)


class Handed:
    """A queue, and the groups it has handed over."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.queue = AppendQueue(OPTIONS, Lsn(7), self.groups.append)

    def put(self, *records: bytes | bytearray) -> "asyncio.Future[Lsn] | None":
        """The waiter, unless there was no room."""
        waiter = asyncio.get_running_loop().create_future()
        return None if self.queue.put(records, waiter) is None else waiter

    def wait(self, *records: bytes | bytearray) -> "asyncio.Future[Lsn]":
        waiter = asyncio.get_running_loop().create_future()
        self.queue.wait(records, waiter)
        return waiter


async def test_what_is_put_in_one_turn_is_handed_over_as_one_group() -> None:
    handed = Handed()
    waiters = [handed.put(b"one"), handed.put(b"two", b"three"), handed.put(bytearray(b"four"))]
    assert handed.queue.last_lsn == 11
    assert handed.groups == []
    await asyncio.sleep(0)
    [group] = handed.groups
    assert group.records == [b"one", b"two", b"three", b"four"]
    assert group.waiters == waiters
    assert group.lsns == [8, 10, 11]
    assert group.queued_bytes == handed.queue.queued_bytes == 15 + 4 * 8
    await asyncio.sleep(0)
    assert len(handed.groups) == 1
    handed.put(b"five")
    await asyncio.sleep(0)
    assert [group.lsns for group in handed.groups] == [[8, 10, 11], [12]]
    assert handed.groups[1].queued_bytes == 12


async def test_a_group_which_is_large_enough_does_not_wait_for_the_turn() -> None:
    handed = Handed()
    handed.put(bytes(25))
    assert handed.groups == []
    handed.put(bytes(25))
    assert [group.lsns for group in handed.groups] == [[8, 9]]
    handed.put(b"x")
    await asyncio.sleep(0)
    assert [group.lsns for group in handed.groups] == [[8, 9], [10]]


async def test_there_is_room_up_to_the_limit_and_again_when_a_group_is_done() -> None:
    handed = Handed()
    assert handed.put(bytes(42))
    assert handed.put(bytes(42))
    assert handed.queue.queued_bytes == 100
    assert not handed.put(b"")
    assert handed.queue.last_lsn == 9
    handed.queue.flush()
    handed.queue.release(handed.groups[0])
    assert handed.queue.queued_bytes == 0
    assert handed.put(bytes(42))
    assert handed.queue.last_lsn == 10


async def test_who_waits_is_let_in_first_come_first_served() -> None:
    handed = Handed()
    handed.put(bytes(42))
    handed.queue.flush()
    handed.put(bytes(32))
    large, cancelled, small = handed.wait(bytes(40)), handed.wait(b"cancelled"), handed.wait(b"small")
    changing = bytearray(b"before")
    handed.wait(changing)
    changing[:] = b"after!"
    cancelled.cancel()
    assert not handed.put(b"")  # there would be room, but others came first
    assert handed.queue.last_lsn == 9
    handed.queue.release(handed.groups[0])
    handed.queue.flush()
    assert handed.groups[1].records == [bytes(32), bytes(40)]
    assert handed.groups[1].waiters[1] is large
    assert not handed.put(b"")  # small still waits
    handed.queue.release(handed.groups[1])
    handed.queue.flush()
    assert handed.groups[2].records == [b"small", b"before"]
    assert handed.groups[2].waiters[0] is small
    assert handed.put(b"and on")


async def test_when_nothing_is_let_in_any_more_everybody_hears_why() -> None:
    handed = Handed()
    handed.put(bytes(42))
    handed.put(bytes(42))
    cancelled, waiting = handed.wait(b"cancelled"), handed.wait(b"waiting")
    cancelled.cancel()
    handed.queue.refuse(lambda: AlreadyClosed("closed"), lambda: ShuttingDown("closing"))
    with pytest.raises(ShuttingDown):
        await waiting
    for _ in range(2):
        with pytest.raises(AlreadyClosed):
            handed.put(b"x")
        with pytest.raises(AlreadyClosed):
            handed.queue.check_open()
        handed.queue.release(handed.groups[0])  # room alone does not open it again
    handed.queue.refuse(lambda: ShuttingDown("later"), lambda: ShuttingDown("later"))
    with pytest.raises(AlreadyClosed):  # the first reason counts
        handed.queue.check_open()


async def test_limits() -> None:
    handed = Handed()
    with pytest.raises(InvalidArgument):
        handed.put()
    with pytest.raises(LimitExceeded, match="a record of 51 bytes is above the limit of 50"):
        handed.put(b"x", bytes(51))
    with pytest.raises(LimitExceeded, match="3 records of 101 bytes are above the limit of 100"):
        handed.put(bytes(50), bytes(25), bytes(2))
    assert handed.put(bytes(50), bytes(25), bytes(1))
    assert handed.queue.last_lsn == 10
