"""The embedded KeySpace keeps the port's law, and what only it can be asked: locks, files, clocks, history."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.keyspace.shell.behaviours import WAIT_S, KeySpaceBehaviours, shown_until
from tests.keyspace.shell.embedded.harness import QUICK, EmbeddedHarness, HandClock

from penstock.kernel.errors import (
    AlreadyClosed,
    DiskFull,
    KeySpaceForgot,
    LeaseExpired,
    Overloaded,
    StorageError,
    Written,
)
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import NO_LEASE
from penstock.keyspace.core.transaction import DeleteKey, PutKey, TransactOutcome
from penstock.keyspace.shell.embedded.lock import WriterLock
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EmbeddedHarness]:
    async with AsyncExitStack() as opened:
        yield EmbeddedHarness(tmp_path / "keyspace", opened)


class TestBehaviours(KeySpaceBehaviours):
    """See behaviours.py."""


def lock_of(harness: EmbeddedHarness) -> WriterLock:
    return WriterLock(harness.folder / "writer.lock", 1_000)


async def test_revisions_have_no_gaps_whoever_writes(harness: EmbeddedHarness) -> None:
    clients = [await harness.open() for _ in range(3)]
    outcomes = await asyncio.gather(*(clients[n % 3].transact(then=[PutKey(f"k{n}", b"")]) for n in range(60)))
    assert sorted(outcome.revision for outcome in outcomes) == list(range(2, 62))


async def test_a_store_is_the_same_after_all_have_closed_it(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await keyspace.transact(then=[PutKey("a", b"1")])
        before = await keyspace.status(), await keyspace.range("")
    assert sorted(path.name for path in folder.iterdir()) == ["store.sqlite", "wake", "witness", "writer.lock"]
    assert list((folder / "wake").iterdir()) == []
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        assert (await keyspace.status(), await keyspace.range("")) == before
        async with keyspace.watch("", Revision(2)) as watch:
            assert [change.key for change in await shown_until(watch, Revision(2))] == ["a"]


async def test_two_stores_have_two_identities(tmp_path: Path) -> None:
    async with (
        await EmbeddedKeySpace.open(tmp_path / "one") as one,
        await EmbeddedKeySpace.open(tmp_path / "other") as other,
    ):
        assert (await one.status()).store_id != (await other.status()).store_id


async def test_a_store_is_opened_by_many_at_once(tmp_path: Path) -> None:
    keyspaces = await asyncio.gather(*(EmbeddedKeySpace.open(tmp_path / "keyspace") for _ in range(8)))
    assert len({(await keyspace.status()).store_id for keyspace in keyspaces}) == 1
    await asyncio.gather(*(keyspace.close() for keyspace in keyspaces))


# Failures


async def test_a_writer_which_holds_the_lock_too_long_makes_others_give_up(tmp_path: Path) -> None:
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(lock_ms_max=50)) as keyspace:
        lock = WriterLock(tmp_path / "writer.lock", 1_000)
        lock.acquire()
        with pytest.raises(Overloaded, match="held the KeySpace's writer lock for 50 ms") as refused:
            await keyspace.transact(then=[PutKey("a", b"")])
        assert refused.value.written is Written.NO
        assert await keyspace.get("a") is None, "reads go on"
        lock.release()
        lock.close()
        assert (await keyspace.transact(then=[PutKey("a", b"")])).succeeded


async def test_a_foreign_program_which_holds_the_file_makes_writers_wait(harness: EmbeddedHarness) -> None:
    keyspace = await harness.open()
    foreign = sqlite3.connect(harness.folder / "store.sqlite", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with pytest.raises(Overloaded, match="not Penstock"):
        await keyspace.transact(then=[PutKey("a", b"")])
    foreign.execute("ROLLBACK")
    foreign.close()
    assert (await keyspace.transact(then=[PutKey("a", b"")])).succeeded


async def test_more_writes_than_may_wait_are_refused(tmp_path: Path) -> None:
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(requests_max=2)) as keyspace:
        lock = WriterLock(tmp_path / "writer.lock", 1_000)
        lock.acquire()
        tasks = [asyncio.create_task(keyspace.transact(then=[PutKey(f"k{n}", b"")])) for n in range(5)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=WAIT_S)
        assert {type(task.exception()) for task in done} == {Overloaded}
        lock.release()
        lock.close()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [TransactOutcome] * 3 + [Overloaded] * 2  # one began, two waited
        assert len((await keyspace.range("k")).entries) == 3


async def test_a_write_cancelled_while_it_waits_never_happens(harness: EmbeddedHarness) -> None:
    keyspace = await harness.open()
    lock = lock_of(harness)
    lock.acquire()
    first, waits = (asyncio.create_task(keyspace.transact(then=[PutKey(key, b"")])) for key in ("first", "waits"))
    await asyncio.sleep(0)
    waits.cancel()
    lock.release()
    lock.close()
    assert (await first).succeeded
    await keyspace.transact(then=[PutKey("last", b"")])
    assert [entry.key for entry in (await keyspace.range("")).entries] == ["first", "last"]


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_store_which_vanished_is_not_written_to(harness: EmbeddedHarness, how: str) -> None:
    keyspace = await harness.open()
    path = harness.folder / "store.sqlite"
    if how == "removed":
        path.unlink()
    else:
        shutil.copy(path, f"{path}.copy")
        os.replace(f"{path}.copy", path)
    with pytest.raises(KeySpaceForgot, match=how) as refused:
        await keyspace.transact(then=[PutKey("a", b"")])
    assert refused.value.written is Written.NO
    with pytest.raises(KeySpaceForgot):
        await keyspace.transact(then=[PutKey("a", b"")])
    async with keyspace.watch("", Revision(2)) as watch, asyncio.timeout(WAIT_S):
        with pytest.raises(KeySpaceForgot):
            await anext(watch)


async def test_a_full_store_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    options = EmbeddedOptions(bytes_max=1 << 20, history_bytes_max=1 << 30)
    async with await EmbeddedKeySpace.open(tmp_path, options) as keyspace:
        await keyspace.transact(then=[PutKey("small", b"")])
        await keyspace.transact(then=[PutKey("big", b"x" * 700_000)])
        with pytest.raises(DiskFull) as refused:
            await keyspace.transact(then=[PutKey("big", b"x" * 700_000)])
        assert refused.value.written is Written.NO
        before = (await keyspace.status()).revision
        await keyspace.compact(before)
        assert (await keyspace.transact(then=[PutKey("small", b"again")])).revision == before + 1


async def test_what_is_no_keyspace_is_refused(tmp_path: Path) -> None:
    async def refusal(name: str) -> str:
        with pytest.raises(StorageError) as refused:
            await EmbeddedKeySpace.open(tmp_path / name)
        return refused.value.message

    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "store.sqlite").write_text("not a database, but long enough to be read as the header of one")
    assert "not a database" in await refusal("text")
    (tmp_path / "other").mkdir()
    with sqlite3.connect(tmp_path / "other" / "store.sqlite") as connection:
        connection.execute("CREATE TABLE customer (name)")
    connection.close()
    assert "no KeySpace of this version" in await refusal("other")
    async with await EmbeddedKeySpace.open(tmp_path / "newer"):
        pass
    with sqlite3.connect(tmp_path / "newer" / "store.sqlite") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = (tmp_path / "newer" / "store.sqlite").read_bytes()
    assert "has version 99" in await refusal("newer")
    files = sorted(path.name for path in (tmp_path / "newer").iterdir() if path.is_file())
    assert files == ["store.sqlite", "witness", "writer.lock"]
    assert (tmp_path / "newer" / "store.sqlite").read_bytes() == before
    (tmp_path / "file").write_text("")
    assert "file" in await refusal("file")


async def test_closing_ends_what_waits(harness: EmbeddedHarness) -> None:
    keyspace = await harness.open()
    async with keyspace.watch("", Revision(2)) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await keyspace.close()
        await keyspace.close()
        with pytest.raises(AlreadyClosed):
            await waiting
    with pytest.raises(AlreadyClosed):
        await anext(watch)
    for call in (keyspace.get("a"), keyspace.transact(), keyspace.grant_lease(1_000), keyspace.status()):
        with pytest.raises(AlreadyClosed):
            await call


async def test_a_write_which_waits_when_the_keyspace_is_closed_never_happens(tmp_path: Path) -> None:
    keyspace = await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(lock_ms_max=50))
    lock = WriterLock(tmp_path / "writer.lock", 1_000)
    lock.acquire()
    begun, waits = (asyncio.create_task(keyspace.transact(then=[PutKey(key, b"")])) for key in ("begun", "waits"))
    await asyncio.sleep(0)
    await keyspace.close()  # although another process holds the lock
    with pytest.raises(Overloaded):
        await begun
    with pytest.raises(AlreadyClosed):
        await waits
    lock.release()
    lock.close()
    async with await EmbeddedKeySpace.open(tmp_path) as keyspace:
        assert (await keyspace.range("")).entries == ()


# Leases and clocks


async def test_a_lease_of_another_clock_ends_when_it_was_seen_unrenewed_for_its_time(tmp_path: Path) -> None:
    """After a reboot the old deadlines mean nothing, whatever the new clock says."""
    before, after = HandClock("boot 1", now_ns=10**18), HandClock("boot 2", now_ns=5)
    async with await EmbeddedKeySpace.open(tmp_path, QUICK, clock=before) as keyspace:
        lease = await keyspace.grant_lease(1_000)
        await keyspace.transact(then=[PutKey("a", b"", lease.id)])
    async with await EmbeddedKeySpace.open(tmp_path, QUICK, clock=after) as keyspace:
        after.move(900)
        assert 0 < (await keyspace.lease_status(lease.id)).remaining_ms <= 100
        assert await keyspace.get("a") is not None
        after.move(101)
        async with keyspace.watch("a", Revision(3)) as watch:
            assert [change.now for change in await shown_until(watch, Revision(3))] == [None]


async def test_renewing_brings_a_lease_to_the_clock_of_who_renews(tmp_path: Path) -> None:
    one, other = HandClock("boot 1"), HandClock("boot 2", now_ns=5)
    async with (
        await EmbeddedKeySpace.open(tmp_path, QUICK, clock=one) as looks,
        await EmbeddedKeySpace.open(tmp_path, QUICK, clock=other) as holds,
    ):
        lease = await looks.grant_lease(1_000)
        for _ in range(5):
            one.move(700)
            other.move(1)
            await holds.keep_alive(lease.id)
        assert (await looks.lease_status(lease.id)).id == lease.id


async def test_a_lease_which_ended_while_nobody_looked_is_gone_before_the_first_read(tmp_path: Path) -> None:
    clock = HandClock()
    async with await EmbeddedKeySpace.open(tmp_path, QUICK, clock=clock) as keyspace:
        lease = await keyspace.grant_lease(1_000)
        await keyspace.transact(then=[PutKey("a", b"", lease.id)])
    clock.move(1_001)
    async with await EmbeddedKeySpace.open(tmp_path, QUICK, clock=clock) as keyspace:
        assert await keyspace.get("a") is None


async def test_an_ended_lease_cannot_be_renewed_even_if_nobody_noticed_yet(tmp_path: Path) -> None:
    clock = HandClock()
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(poll_ms=600_000), clock=clock) as keyspace:
        lease = await keyspace.grant_lease(1_000)
        await keyspace.transact(then=[PutKey("a", b"", lease.id)])
        clock.move(1_001)
        assert await keyspace.get("a") is not None, "nobody has looked"
        with pytest.raises(LeaseExpired, match="not renewed in time"):
            await keyspace.keep_alive(lease.id)
        assert await keyspace.get("a") is None


async def test_what_counts_is_when_a_holder_asked_not_how_long_it_waited_for_the_lock(tmp_path: Path) -> None:
    clock = HandClock()
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(poll_ms=600_000), clock=clock) as keyspace:
        lease = await keyspace.grant_lease(1_000)
        clock.move(900)
        lock = WriterLock(tmp_path / "writer.lock", 1_000)
        lock.acquire()
        renewing = asyncio.create_task(keyspace.keep_alive(lease.id))
        await asyncio.sleep(0)
        clock.move(200)
        lock.release()
        lock.close()
        assert await renewing == lease
        assert (await keyspace.lease_status(lease.id)).remaining_ms == 800


# History


async def test_history_is_kept_within_its_number(tmp_path: Path) -> None:
    options = EmbeddedOptions(poll_ms=5, history_revisions_max=10)
    async with await EmbeddedKeySpace.open(tmp_path, options) as keyspace:
        for n in range(30):
            await keyspace.transact(then=[PutKey("a", b"%d" % n)])
        async with asyncio.timeout(WAIT_S):
            while (await keyspace.status()).compacted == 0:
                pass
        status = await keyspace.status()
        assert 10 <= status.revision - status.compacted <= 20
        entry = await keyspace.get("a", at=status.compacted)
        assert entry is not None
        assert entry.value == b"%d" % (status.compacted - 2)


async def test_compaction_keeps_what_is_live_and_nothing_else(harness: EmbeddedHarness) -> None:
    keyspace = await harness.open()
    for n in range(5):
        await keyspace.transact(then=[PutKey("kept", b"%d" % n), PutKey(f"gone{n}", b"")])
    last = await keyspace.transact(then=[DeleteKey("gone", is_prefix=True)])
    await keyspace.compact(last.revision)
    connection = sqlite3.connect(harness.folder / "store.sqlite")
    assert connection.execute("SELECT key, value FROM version").fetchall() == [(b"kept", b"4")]
    connection.close()


async def test_a_batch_is_bounded_and_still_has_whole_revisions(tmp_path: Path) -> None:
    async with await EmbeddedKeySpace.open(tmp_path, EmbeddedOptions(batch_changes_max=3)) as keyspace:
        for size in (2, 1, 2, 2, 5, 1, 1, 1, 1):
            await keyspace.transact(then=[PutKey(f"k{n}", b"") for n in range(size)])
        async with keyspace.watch("", Revision(2)) as watch:
            batches = [len((await anext(watch)).changes) for _ in range(6)]
        assert batches == [3, 2, 2, 5, 3, 1]


async def test_many_transactions_share_a_commit_and_a_refused_one_harms_no_other(harness: EmbeddedHarness) -> None:
    keyspace = await harness.open()
    lease = await keyspace.grant_lease(60_000)
    await keyspace.revoke_lease(lease.id)
    lock = lock_of(harness)
    lock.acquire()
    tasks = [
        asyncio.create_task(keyspace.transact(then=[PutKey(f"k{n}", b"", lease.id if n % 3 == 1 else NO_LEASE)]))
        for n in range(30)
    ]
    await asyncio.sleep(0)
    lock.release()
    lock.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [TransactOutcome, LeaseExpired, TransactOutcome] * 10
    revisions = [result.revision for result in results if isinstance(result, TransactOutcome)]
    assert revisions == list(range(2, 22))
    assert len((await keyspace.range("k")).entries) == 20
