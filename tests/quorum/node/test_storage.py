"""A shard's storage: offsets survive snapshots and restarts, and what is truncated is kept for people."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from penstock.kernel.errors import FormatTooNew, WalCorrupt
from penstock.kernel.ids import EntryId, Epoch, Incarnation, Lsn, NodeId, Offset
from penstock.plumbing.host.loop import Done
from penstock.plumbing.ports.ports import system_ports
from penstock.plumbing.process.tasks import Tasks
from penstock.quorum.node.storage import NodeStorage
from penstock.quorum.records.effects import KeepLost
from penstock.quorum.records.entry import Barrier, ClientId, Entry, Txn
from penstock.quorum.records.member import Member
from penstock.quorum.records.state import NodeState, SnapshotMeta

E1 = Epoch(1)
STATE = NodeState(Member(NodeId("n1"), Incarnation("i")), E1, Offset(0), SnapshotMeta(EntryId(E1, Offset(40))))


def txn(number: int) -> Txn:
    return Txn(E1, ClientId("c"), number, b"ops%d" % number, is_sync=number % 2 == 0)


def fail(error: BaseException) -> None:
    raise error


async def opened(folder: Path) -> NodeStorage:
    return await NodeStorage.open(folder, system_ports(), Tasks(fail))


async def done(start: Callable[[Done], None]) -> None:
    """Start something durable, and wait for its end."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ended(error: BaseException | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    start(ended)
    await future


async def append(storage: NodeStorage, first: int, *entries: Entry) -> None:
    await done(lambda ended: storage.append(Lsn(first), entries, ended))


async def test_entries_and_registers_come_back_as_they_were(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    assert storage.load_state() is None
    assert await storage.load_entries() == (1, [])
    await append(storage, 1, Barrier(E1), txn(2))
    await append(storage, 3, txn(3))
    await done(lambda ended: storage.save_state(STATE, ended))
    await storage.close()
    again = await opened(tmp_path)
    assert again.load_state() == STATE
    assert await again.load_entries() == (1, [Barrier(E1), txn(2), txn(3)])
    await again.close()


async def test_a_trimmed_log_starts_anew_too_though_its_segment_is_kept(tmp_path: Path) -> None:
    """Found by a drill: a follower which had trimmed its log got a snapshot, and could not write behind it."""
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, Barrier(E1), *map(txn, range(2, 21)))
    storage.trim(Lsn(11))  # all of it is in one segment, so that nothing is really removed
    await done(lambda ended: storage.truncate(Lsn(10), ended))
    await append(storage, 41, txn(41), txn(42))
    assert await storage.read(Offset(41), Offset(50), 1000) == (txn(41), txn(42))
    await storage.close()
    again = await opened(tmp_path)
    assert await again.load_entries() == (41, [txn(41), txn(42)])
    await again.close()


async def test_a_trimmed_log_is_truncated_in_its_middle(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, Barrier(E1), *map(txn, range(2, 21)))
    storage.trim(Lsn(11))
    await done(lambda ended: storage.truncate(Lsn(15), ended))
    await append(storage, 16, txn(99))
    assert await storage.read(Offset(14), Offset(50), 1000) == (txn(14), txn(15), txn(99))
    await storage.close()


async def test_behind_a_snapshot_the_log_starts_anew_anywhere(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, Barrier(E1), txn(2), txn(3))
    await done(lambda ended: storage.truncate(Lsn(0), ended))
    await append(storage, 41, txn(41), txn(42))
    assert await storage.read(Offset(42), Offset(50), 1000) == (txn(42),)
    await storage.close()
    again = await opened(tmp_path)
    assert await again.load_entries() == (41, [txn(41), txn(42)])
    await append(again, 43, txn(43))
    assert await again.read(Offset(41), Offset(43), 100_000) == (txn(41), txn(42), txn(43))
    await again.close()


async def test_reads_stop_where_asked_and_find_nothing_where_nothing_is(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, *[txn(n) for n in range(1, 11)])
    assert await storage.read(Offset(3), Offset(5), 100_000) == (txn(3), txn(4), txn(5))
    assert await storage.read(Offset(3), Offset(9), 1) == (txn(3),)
    assert await storage.read(Offset(11), Offset(12), 100) == ()
    assert await storage.read(Offset(0), Offset(12), 100) == ()
    await storage.close()


async def test_truncated_transactions_are_kept_for_people_first(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, Barrier(E1), *[txn(n) for n in range(2, 6)])
    storage.keep_lost(KeepLost(Offset(4), Offset(5), Epoch(2)))
    await done(lambda ended: storage.truncate(Lsn(3), ended))
    (kept,) = (tmp_path / "lost").iterdir()
    assert [json.loads(line) for line in kept.read_text().splitlines()] == [
        {
            "epoch": 1,
            "offset": number,
            "client": "c",
            "seq": number,
            "sync": number % 2 == 0,
            "displaced_by_epoch": 2,
            "ops_base64": base64,
        }
        for number, base64 in ((4, "b3BzNA=="), (5, "b3BzNQ=="))
    ]
    assert storage.lost.transactions == 2
    await append(storage, 4, txn(44))
    assert await storage.read(Offset(3), Offset(4), 100_000) == (txn(3), txn(44))
    await storage.close()


async def test_a_hole_between_entries_is_corruption(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, txn(1))
    storage._shift = 5  # as if a defect had lost four entries
    await append(storage, 7, txn(7))
    await storage.close()
    again = await opened(tmp_path)
    with pytest.raises(WalCorrupt, match="entry 7 is in the place of 2"):
        await again.load_entries()
    await again.close()


async def test_a_full_wal_is_told_to_the_machine_not_raised_at_it(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await storage.close()
    errors: list[BaseException | None] = []
    storage.append(Lsn(1), [txn(1)], errors.append)
    storage.save_state(STATE, errors.append)
    assert [str(error) for error in errors] == ["the WAL is closed", "the WAL is closed"]


async def test_an_entry_of_an_unknown_kind_is_named_and_never_skipped(tmp_path: Path) -> None:
    storage = await opened(tmp_path)
    await storage.load_entries()
    await append(storage, 1, Barrier(E1), txn(2))
    await storage.wal.append([msgspec.msgpack.encode((3, (9, E1, "of the future")))])
    with pytest.raises(FormatTooNew, match=rf"{tmp_path}/log has a record of the unknown kind 9"):
        await storage.read(Offset(1), Offset(3), 1 << 20)
    await storage.close()
    reopened = await opened(tmp_path)
    with pytest.raises(FormatTooNew, match="unknown kind 9"):
        await reopened.load_entries()
    await reopened.close()
