"""Damage to the files of a Spool: unreadable files are kept and named, and all other content is served."""

import asyncio
import contextlib
import json
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, Cluster, read_all, running_cluster
from tests.journals.broker.disks import flip

from penstock.journals.broker.replica_host import ReplicaHost
from penstock.journals.broker.spools.spool_files import Keeps, SpoolFiles
from penstock.journals.broker.spools.state_log import StateLog
from penstock.journals.client.journal import Journals
from penstock.journals.records.api import Fate, Status
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import DataDamaged, FormatTooNew, PenstockError, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.transaction import Transaction
from penstock.plumbing.ports.ports import system_ports

JOURNAL = "shop/orders"
FINISHED = 6
LENGTH = 1_024


def spec_of(replication: int = 1) -> JournalSpec:
    fragment = FragmentSpec(length=LENGTH, refresh_interval_ms=1_000)
    return JournalSpec(name=JOURNAL, replication=replication, fsync=True, fragment=fragment)


def content_of(number: int) -> bytes:
    return bytes([number]) * LENGTH


async def fill(cluster: Cluster, replication: int = 1) -> None:
    """Six finished fragments, which no store takes, and five bytes in an open one."""
    (cluster.folder / "objects").write_bytes(b"a file in the way of the store's folder")
    await cluster.create(spec_of(replication))
    async with cluster.client() as journals:
        for number in range(FINISHED):
            await journals.append(JOURNAL, content_of(number), timeout=WAIT_S)
        await journals.append(JOURNAL, b"12345", timeout=WAIT_S)


def spool(folder: Path, broker: str = "b1") -> Path:
    return folder / broker / "spools" / JOURNAL / "#spool"


def open_file(folder: Path, broker: str = "b1") -> Path:
    (path,) = (path for path in spool(folder, broker).glob("open-*") if path.stat().st_size == 5)
    return path


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def until_stored(cluster: Cluster, fragments: int) -> None:
    folder = cluster.folder / "objects" / JOURNAL
    async with asyncio.timeout(WAIT_S):
        while True:
            if len([path for path in folder.rglob("*") if path.is_file()]) >= fragments:
                break
            await asyncio.sleep(0.01)


async def read_when_stored(journals: Journals, address: str) -> bytes:
    """A broker lists the stores once in a second at most."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(Unavailable):
                return await read_all(journals, JOURNAL, address=address)


@pytest.mark.parametrize("damaged", ["content", "state"])
async def test_a_flipped_bit_leaves_the_finished_fragments(tmp_path: Path, damaged: str) -> None:
    """A4: a bit in an open file of five bytes, or in the last state, with six finished fragments."""
    async with running_cluster(tmp_path, 1) as cluster:
        await fill(cluster)
        await cluster.stop("b1")
        path = open_file(tmp_path) if damaged == "content" else spool(tmp_path) / "state"
        flip(path, 2 if damaged == "content" else path.stat().st_size - 3)
        kept = path.read_bytes()
        (tmp_path / "objects").unlink()
        await cluster.start("b1")
        await until_stored(cluster, FINISHED)
        async with cluster.client() as journals:
            whole = b"".join(map(content_of, range(FINISHED)))
            got = b"".join([bytes(each.content) async for each in journals.read(JOURNAL, 0, end=len(whole))])
            assert got == whole
            with pytest.raises(DataDamaged, match="6144, 6149"):
                await read_all(journals, JOURNAL)
    (note,) = (tmp_path / "b1" / "quarantine").glob("*-spool-*/why.json")
    why = json.loads(note.read_bytes())
    assert (why["journal"], why["ranges"]) == (JOURNAL, [[6144, 6149]])
    assert (note.parent / path.name).read_bytes() == kept


async def test_a_broker_does_not_serve_a_journal_because_of_a_leftover_spool(tmp_path: Path) -> None:
    """A broker was killed, and its journal is on others now. An append there was answered `journal-not-found`."""
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(JournalSpec(name=JOURNAL, replication=1))
        leftover = spool(tmp_path, "b2")
        leftover.mkdir(parents=True)
        (leftover / "open-0000000000000000-1").write_bytes(b"without a state")
        other = (await cluster.start("b2")).server
        async with asyncio.timeout(WAIT_S):
            while (host := other.host(JOURNAL)) is not None:
                assert host.replica.topology.spec is not None
                await asyncio.sleep(0.01)
        answer, primary = other.unserved(JOURNAL, Revision(0))
        assert (answer.fate, answer.status) == (Fate.ABORTED, Status.NOT_JOURNAL_PRIMARY_BROKER)
        assert primary == cluster.brokers["b1"].address
    assert len(list((tmp_path / "b2" / "quarantine").glob("*-spool-*"))) == 1


async def test_a_damaged_finished_fragment_is_named_and_the_others_are_stored(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await fill(cluster)
        await cluster.stop("b1")
        path = next(path for path in (spool(tmp_path) / "final").iterdir() if path.read_bytes() == content_of(2))
        flip(path, 500)
        (tmp_path / "objects").unlink()
        await cluster.start("b1")
        await until_stored(cluster, FINISHED - 1)
        async with cluster.client() as journals:
            await journals.append(JOURNAL, b"6", timeout=WAIT_S)
            with pytest.raises(DataDamaged, match="2048, 3072"):
                await read_all(journals, JOURNAL)
            rest = b"".join([bytes(each.content) async for each in journals.read(JOURNAL, 3 * LENGTH)])
            assert rest == b"".join(map(content_of, range(3, FINISHED))) + b"123456"


@pytest.mark.parametrize("record", [b"\x81\xa5field\x01", b"\xc1"])
async def test_a_state_of_another_release_is_refused_and_nothing_is_changed(tmp_path: Path, record: bytes) -> None:
    """A8: a newer release ran on this folder."""
    async with running_cluster(tmp_path, 1, reopen_s=0.05) as cluster:
        await fill(cluster)
        await cluster.create(JournalSpec(name="shop/other", replication=1))
        await cluster.stop("b1")
        state = StateLog(system_ports().disk, spool(tmp_path) / "state", is_synced=True, boot=b"monday")
        older = state.load()
        assert older is not None
        state.save(older)
        state.save(record)
        state.close()
        before = files_below(spool(tmp_path))
        await cluster.start("b1")
        async with cluster.client() as journals:
            await journals.append("shop/other", b"goes on", timeout=WAIT_S)
            with pytest.raises(FormatTooNew, match="state was written by another release"):
                await read_all(journals, JOURNAL)
        answer, _ = cluster.brokers["b1"].server.unserved(JOURNAL, Revision(0))
        assert (answer.fate, "another release" in answer.reason) == (Fate.ABORTED, True)
        await cluster.stop("b1")
        assert files_below(spool(tmp_path)) == before
        assert not (tmp_path / "b1" / "quarantine").exists()
        state = StateLog(system_ports().disk, spool(tmp_path) / "state", is_synced=True, boot=b"monday")
        state.save(older)  # as the newer release would
        state.close()
        await cluster.start("b1")
        async with cluster.client() as journals:
            await journals.append(JOURNAL, b"6", timeout=WAIT_S)
            assert (await read_all(journals, JOURNAL))[-6:] == b"123456"


async def test_of_three_replicas_one_may_be_damaged(tmp_path: Path) -> None:
    # without suspicions: the others would begin a new epoch, and finish the open file, while the broker stops
    async with running_cluster(tmp_path, 3, reopen_s=0.05, silent_ms=0) as cluster:
        await fill(cluster, 3)
        victim = cluster.primary(JOURNAL)
        await cluster.stop(victim)
        flip(open_file(tmp_path, victim), 1)
        (tmp_path / "objects").unlink()
        await cluster.start(victim)
        async with cluster.client() as journals:
            done = await journals.append(JOURNAL, b"6", timeout=WAIT_S)
            assert done.begin == FINISHED * LENGTH + 5
            await until_stored(cluster, FINISHED + 1)  # the sync began a new fragment: the others store the older one
            expected = b"".join(map(content_of, range(FINISHED))) + b"123456"
            for broker in cluster.brokers.values():
                assert await read_when_stored(journals, broker.address) == expected
    assert len(list((tmp_path / victim / "quarantine").iterdir())) == 1


def test_if_the_quarantine_cannot_take_them_the_bytes_stay(tmp_path: Path) -> None:
    """A12: then the journal is not opened, and the broker says so."""
    root = tmp_path / "spools"
    path = root / JOURNAL / "#spool" / "open-0000000000000000-run-1"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    (tmp_path / "quarantine").write_bytes(b"no folder")
    with pytest.raises(PenstockError, match="cannot be moved"):
        SpoolFiles.open(system_ports(), root, JOURNAL, Keeps.ALWAYS)
    assert path.read_bytes() == b"content"


async def test_finished_fragments_are_read_while_no_store_takes_them(tmp_path: Path) -> None:
    """The head is lost with the open file. The Fragments that were finished before are decided."""
    async with running_cluster(tmp_path, 1) as cluster:
        await fill(cluster)
        await cluster.stop("b1")
        flip(open_file(tmp_path), 2)
        await cluster.start("b1")
        async with cluster.client() as journals:
            whole = b"".join(map(content_of, range(FINISHED)))
            read = journals.read(JOURNAL, 0, end=len(whole))
            assert b"".join([bytes(each.content) async for each in read]) == whole


async def test_content_that_changes_on_one_disk_is_read_from_another_broker(tmp_path: Path) -> None:
    """A running broker served the changed bytes with success. Alone it refuses their block, and serves the others."""
    block = 64 << 10
    content = bytes(range(256)) * (3 * block // 256)
    for brokers in (2, 1):
        folder = tmp_path / str(brokers)
        folder.mkdir()
        async with running_cluster(folder, brokers) as cluster:
            await cluster.create(JournalSpec(name=JOURNAL, replication=brokers, fsync=True))
            async with cluster.client() as journals:
                await journals.append(JOURNAL, content, timeout=WAIT_S)
                (path,) = (each for each in spool(folder).glob("open-*") if each.stat().st_size)
                flip(path, block + 7)
                for _ in range(8):  # a client asks any broker
                    if brokers == 2:
                        assert await read_all(journals, JOURNAL) == content
                        continue
                    with pytest.raises(DataDamaged, match=str(path)) as caught:
                        await read_all(journals, JOURNAL)
                    assert (caught.value.details["begin"], caught.value.details["end"]) == (block, 2 * block)
                got = [bytes(each.content) async for each in journals.read(JOURNAL, 2 * block)]
                assert b"".join(got) == content[2 * block :]


async def test_a_read_right_after_a_restart_does_not_end_at_the_recovered_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read before the first sync ended at the saved mark, a lower bound, with success."""
    gate = asyncio.Event()
    transact = ReplicaHost._transact
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(JournalSpec(name=JOURNAL, replication=1, fsync=True))
        async with cluster.client() as journals:
            for _ in range(3):
                await journals.append(JOURNAL, b"acknowledged", timeout=WAIT_S)
        await cluster.stop("b1")

        async def later(self: ReplicaHost, number: int, transaction: Transaction) -> None:
            await gate.wait()
            await transact(self, number, transaction)

        monkeypatch.setattr(ReplicaHost, "_transact", later)
        await cluster.start("b1")
        async with cluster.client() as journals:
            reading = asyncio.create_task(read_all(journals, JOURNAL))
            async with asyncio.timeout(WAIT_S):
                while (host := cluster.hosts(JOURNAL).get("b1")) is None or not host.fragments.is_refreshed:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await asyncio.wait([reading], timeout=0.2)
            assert not reading.done()
            gate.set()
            assert await reading == b"acknowledged" * 3
