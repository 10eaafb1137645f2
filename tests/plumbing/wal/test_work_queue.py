import asyncio

import pytest

from penstock.kernel.errors import AlreadyClosed, InvalidArgument, LimitExceeded, ShuttingDown
from penstock.kernel.ids import Lsn
from penstock.plumbing.wal import WalOptions
from penstock.plumbing.wal.work import Group, WalJob, Work
from penstock.plumbing.wal.work_queue import WorkQueue

OPTIONS = WalOptions(record_bytes_max=50, batch_bytes_max=60, queue_bytes_max=100)


class Handed:
    """A queue, and what it has handed over."""

    def __init__(self) -> None:
        self.work: list[Work] = []
        self.queue = WorkQueue(OPTIONS, Lsn(7), self.work.append)

    @property
    def groups(self) -> list[list[bytes]]:
        return [work.records for work in self.work if isinstance(work, Group)]

    def put(self, *records: bytes | bytearray) -> "asyncio.Future[Lsn] | None":
        """The waiter, unless there was no room."""
        waiter = asyncio.get_running_loop().create_future()
        return None if self.queue.put(records, waiter) is None else waiter

    def wait(self, *records: bytes | bytearray) -> "asyncio.Future[Lsn]":
        waiter = asyncio.get_running_loop().create_future()
        self.queue.wait(records, waiter)
        return waiter

    async def turn(self) -> None:
        """Let the loop turn once."""
        await asyncio.sleep(0)

    async def finish(self) -> None:
        """The writer is done with the last thing it got."""
        self.queue.release(self.work[-1])
        await self.turn()


async def test_what_is_put_in_one_turn_is_handed_over_as_one_group() -> None:
    handed = Handed()
    waiters = [handed.put(b"one"), handed.put(b"two", b"three"), handed.put(bytearray(b"four"))]
    assert handed.queue.last_lsn == 11
    assert handed.work == []
    await handed.turn()
    [group] = handed.work
    assert isinstance(group, Group)
    assert group.records == [b"one", b"two", b"three", b"four"]
    assert group.waiters == waiters
    assert group.lsns == [8, 10, 11]
    assert group.queued_bytes == handed.queue.queued_bytes == 15 + 4 * 8


async def test_while_the_writer_is_busy_appends_gather() -> None:
    handed = Handed()
    handed.put(b"one")
    await handed.turn()
    handed.put(b"two")
    await handed.turn()
    handed.put(b"three")
    await handed.turn()
    assert handed.groups == [[b"one"]]
    handed.queue.release(handed.work[0])
    handed.put(b"four")  # who was woken by the release is still in time
    await handed.turn()
    assert handed.groups == [[b"one"], [b"two", b"three", b"four"]]
    assert handed.queue.queued_bytes == len(b"twothreefour") + 3 * 8
    await handed.finish()
    assert handed.queue.queued_bytes == 0
    handed.put(b"five")
    await handed.turn()
    assert handed.groups[2:] == [[b"five"]]


async def test_a_group_which_is_large_enough_is_complete() -> None:
    handed = Handed()
    for record in (bytes(22), bytes(22), b"x"):
        handed.put(record)
    await handed.turn()
    assert handed.groups == [[bytes(22), bytes(22)]]
    await handed.finish()
    assert handed.groups == [[bytes(22), bytes(22)], [b"x"]]


async def test_a_job_keeps_its_place() -> None:
    handed = Handed()
    job = WalJob("a job", lambda: None, lambda error: None)
    handed.put(b"one")
    handed.queue.put_job(job)
    handed.put(b"two")
    handed.queue.put_job(job)
    handed.queue.put_job(job)
    for _ in range(5):
        await handed.turn()
        handed.queue.release(handed.work[-1])
    assert [work if isinstance(work, WalJob) else work.records for work in handed.work] == [
        [b"one"],
        job,
        [b"two"],
        job,
        job,
    ]


async def test_there_is_room_up_to_the_limit_and_again_when_a_group_is_done() -> None:
    handed = Handed()
    assert handed.put(bytes(42))
    assert handed.put(bytes(42))
    assert handed.queue.queued_bytes == 100
    assert not handed.put(b"")
    assert handed.queue.last_lsn == 9
    await handed.turn()
    await handed.finish()
    assert handed.queue.queued_bytes == 0
    assert handed.put(bytes(42))
    assert handed.queue.last_lsn == 10


async def test_who_waits_is_let_in_first_come_first_served() -> None:
    handed = Handed()
    handed.put(bytes(42))
    await handed.turn()
    handed.put(bytes(32))
    large, cancelled, small = handed.wait(bytes(40)), handed.wait(b"cancelled"), handed.wait(b"small")
    changing = bytearray(b"before")
    handed.wait(changing)
    changing[:] = b"after!"
    cancelled.cancel()
    assert not handed.put(b"")  # there would be room, but others came first
    assert handed.queue.last_lsn == 9
    await handed.finish()
    group = handed.work[1]
    assert isinstance(group, Group)
    assert group.records == [bytes(32), bytes(40)]
    assert group.waiters[1] is large
    assert not handed.put(b"")  # small still waits
    await handed.finish()
    group = handed.work[2]
    assert isinstance(group, Group)
    assert group.records == [b"small", b"before"]
    assert group.waiters[0] is small
    assert handed.put(b"and on")


async def test_when_nothing_is_let_in_any_more_everybody_hears_why() -> None:
    handed = Handed()
    handed.put(bytes(42))
    await handed.turn()
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
        await handed.finish()  # room alone does not open it again
    assert handed.groups == [[bytes(42)], [bytes(42)]]  # what was let in before is still handed over
    handed.queue.refuse(lambda: ShuttingDown("later"), lambda: ShuttingDown("later"))
    with pytest.raises(AlreadyClosed):  # the first reason counts
        handed.queue.check_open()


async def test_what_was_not_handed_over_can_be_dropped() -> None:
    handed = Handed()
    handed.put(b"one")
    await handed.turn()
    handed.put(b"two")
    job = WalJob("a job", lambda: None, lambda error: None)
    handed.queue.put_job(job)
    handed.put(b"three")
    dropped = handed.queue.drop_all()
    assert [work if isinstance(work, WalJob) else work.records for work in dropped] == [[b"two"], job, [b"three"]]
    await handed.finish()
    assert handed.groups == [[b"one"]]


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
