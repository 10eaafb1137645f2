"""A disk that is full for a while: appends are refused by name, nothing is lost, and later ones are committed."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import WAIT_S, read_all, running_cluster
from tests.journals.broker.disks import small_disk

from penstock.journals.broker.spools.room import ROOM_BYTES, FullDisk, Room
from penstock.journals.client.journal import Appended, Journals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import DiskFull, Indeterminate, Outcome
from penstock.kernel.ids import SECOND

JOURNAL = "shop/orders"
CHUNK = bytes(range(256)) * 1024  # 256 KiB


def spec_of(replication: int, *, fsync: bool) -> JournalSpec:
    return JournalSpec(
        name=JOURNAL, replication=replication, fsync=fsync, fragment=FragmentSpec(length=1 << 30, stores=())
    )


async def append_when_there_is_room(journals: Journals, content: bytes) -> Appended:
    """A replica looks for room each second, and its primary asks it as often."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(DiskFull):
                return await journals.append(JOURNAL, content, timeout=WAIT_S)


@pytest.mark.parametrize("fsync", [True, False])
@pytest.mark.parametrize("replication", [1, 3])
async def test_a_full_disk_refuses_appends_and_loses_nothing(tmp_path: Path, replication: int, fsync: bool) -> None:
    names = [f"b{number}" for number in range(1, replication + 1)]
    with small_disk(tmp_path) as disk:
        disk.hold(tmp_path, *names)
        async with running_cluster(tmp_path, replication, default_store="") as cluster:
            await cluster.create(spec_of(replication, fsync=fsync))
            expected = b""
            async with cluster.client() as journals:
                for _ in range(4):
                    await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
                    expected += CHUNK
                disk.fill()
                hosts = cluster.hosts(JOURNAL)
                for _ in range(100):
                    try:
                        await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
                    except DiskFull as error:
                        refused = error
                        break
                    expected += CHUNK  # there was room reserved for it
                else:
                    raise AssertionError("appends go on for ever on a full disk")
                assert refused.outcome is Outcome.DEFINITE
                assert refused.details["broker"] in {f"local#{name}" for name in names}
                assert str(disk.path) in refused.details["folder"] or str(tmp_path) in refused.details["folder"]
                assert refused.details["free_bytes"] < 2 * len(CHUNK)
                assert await read_all(journals, JOURNAL) == expected, "what was refused is not there"
                with pytest.raises(DiskFull):
                    await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
                disk.free()
                await append_when_there_is_room(journals, b"after")
                expected += b"after"
                assert await read_all(journals, JOURNAL) == expected
                assert cluster.hosts(JOURNAL) == hosts, "no replica was opened again"
        async with running_cluster(tmp_path, replication, default_store="") as cluster, cluster.client() as journals:
            await journals.append(JOURNAL, b", restarted", timeout=WAIT_S)
            for name in names:
                address = cluster.brokers[name].address
                assert await read_all(journals, JOURNAL, address=address) == expected + b", restarted"


@pytest.mark.parametrize("fsync", [True, False])
@pytest.mark.parametrize("is_primary", [True, False])
async def test_one_full_disk_of_three_is_named_by_the_refusal(tmp_path: Path, is_primary: bool, fsync: bool) -> None:
    """The disk fills so fast that content is on its way when the peer has no room for it."""
    with small_disk(tmp_path) as disk:
        disk.hold(tmp_path, "b2")
        async with running_cluster(tmp_path, 3, default_store="") as cluster, cluster.client() as journals:
            await cluster.create(spec_of(3, fsync=fsync))
            await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
            if (cluster.primary(JOURNAL) == "b2") is not is_primary:
                if is_primary:
                    for name in ("b1", "b3"):
                        await cluster.stop(name)
                        await cluster.start(name)
                else:
                    await cluster.stop("b2")
                    await cluster.start("b2")
            await append_when_there_is_room(journals, CHUNK)
            assert (cluster.primary(JOURNAL) == "b2") is is_primary
            disk.fill()
            large = CHUNK * 40
            with pytest.raises(DiskFull, match="local#b2 has no room") as refused:
                await journals.append(JOURNAL, large, timeout=WAIT_S)
            assert (refused.value.outcome, refused.value.details["broker"]) == (Outcome.DEFINITE, "local#b2")
            assert await read_all(journals, JOURNAL) == 2 * CHUNK
            disk.free()
            await append_when_there_is_room(journals, large)
            assert await read_all(journals, JOURNAL) == 42 * CHUNK


async def test_a_write_which_fails_is_never_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no room can be reserved, the Spool comes back with all written bytes."""
    monkeypatch.setattr(Room, "reserve", lambda *_: None)
    with small_disk(tmp_path) as disk:
        disk.hold(tmp_path, "b1")
        async with running_cluster(tmp_path, 1, default_store="", reopen_s=0.05) as cluster:
            await cluster.create(spec_of(1, fsync=True))
            async with cluster.client() as journals:
                await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
                disk.fill()
                with pytest.raises(Indeterminate):
                    await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
                disk.free()
                await journals.append(JOURNAL, b"after", timeout=WAIT_S)
                assert await read_all(journals, JOURNAL) == CHUNK + b"after"


async def test_an_answer_leaves_after_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """J-4: with one replica and no fsync the answer was queued before the write."""
    monkeypatch.setattr(Room, "reserve", lambda *_: None)
    with small_disk(tmp_path) as disk:
        disk.hold(tmp_path, "b1")
        async with running_cluster(tmp_path, 1, default_store="") as cluster, cluster.client() as journals:
            await cluster.create(spec_of(1, fsync=False))
            disk.fill()
            with pytest.raises(Indeterminate):
                await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)


async def test_a_broker_without_room_is_passed_over_while_others_have_some(tmp_path: Path) -> None:
    """Rule g of decision 312."""
    with small_disk(tmp_path) as disk:
        disk.hold(tmp_path, "b3")
        async with running_cluster(tmp_path, 3, default_store="", full_ms=200) as cluster:
            spec = msgspec.structs.replace(spec_of(3, fsync=False), least=2)
            await cluster.create(spec)
            async with cluster.client() as journals:
                disk.fill()
                with contextlib.suppress(DiskFull):
                    for _ in range(100):
                        await journals.append(JOURNAL, CHUNK, timeout=WAIT_S)
                    raise AssertionError("appends go on for ever on a full disk")
                await append_when_there_is_room(journals, b"with two")
                assert {each.broker for each in (await journals.list())[0].brokers} == {"local#b1", "local#b2"}


def test_a_disk_is_full_until_it_has_room_however_many_journals_looked() -> None:
    free, now = 0, 0
    disk = FullDisk(lambda: free, lambda: now)
    assert not disk.is_full_for(0)
    disk.refused()
    now = 9 * SECOND
    disk.refused()
    assert not disk.is_full_for(10_000)
    now = 10 * SECOND
    assert disk.is_full_for(10_000)
    free = ROOM_BYTES
    assert not disk.is_full_for(10_000)
    free = 0
    assert not disk.is_full_for(0), "it had room: the next refusal is a first one"
    disk.refused()
    disk.has_room()
    assert not disk.is_full_for(0)
