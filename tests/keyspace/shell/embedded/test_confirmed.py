"""Damage to the store's files is noticed by the next open, before it writes (E-6)."""

import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

from penstock.kernel.errors import DataDamaged, KeySpaceForgot, PenstockError, StorageError
from penstock.kernel.ids import Revision
from penstock.keyspace.core.transaction import DeleteKey, PutKey
from penstock.keyspace.shell.embedded.confirmed import WITNESS_FILE, Confirmed, check_store
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.plumbing.files.witness import read_witness

COMMITS = 60


async def fill(keyspace: EmbeddedKeySpace, count: int = COMMITS, start: int = 0) -> None:
    for number in range(start, start + count):
        await keyspace.transact(then=[PutKey(f"/k/{number % 20:02}", b"value %06d " % number * 30)])
    await keyspace.transact(then=[DeleteKey("/k/03")])


async def as_kill_leaves_it(folder: Path, copy: Path) -> None:
    """A store whose process was killed after its commits, without a checkpoint."""
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("wake"))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and "-shm" not in path.name}


async def refused(folder: Path) -> PenstockError:
    """The error of an open, which must have changed nothing."""
    before = contents(folder)
    with pytest.raises((KeySpaceForgot, DataDamaged)) as caught:
        await EmbeddedKeySpace.open(folder)
    assert contents(folder) == before
    assert "penstock fsck" in caught.value.next_step
    return caught.value


def flip(path: Path, at: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


async def test_a_flipped_bit_in_the_log_takes_no_store_back_in_time(tmp_path: Path) -> None:
    random = Random(6)
    await as_kill_leaves_it(tmp_path / "origin", tmp_path / "killed")
    size = (tmp_path / "killed/store.sqlite-wal").stat().st_size
    for number in range(40):
        folder = tmp_path / f"copy-{number}"
        shutil.copytree(tmp_path / "killed", folder)
        flip(folder / "store.sqlite-wal", random.randrange(size), random.randrange(8))
        error = await refused(folder)
        assert "store.sqlite" in str(error)
        shutil.rmtree(folder)
    async with await EmbeddedKeySpace.open(tmp_path / "killed") as keyspace:
        assert (await keyspace.status()).revision == COMMITS + 2
        assert await keyspace.get("/k/03") is None


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
async def test_a_log_that_was_cut_or_lost_is_noticed(tmp_path: Path, keep: float) -> None:
    await as_kill_leaves_it(tmp_path / "origin", tmp_path / "killed")
    log = tmp_path / "killed/store.sqlite-wal"
    if keep:
        log.write_bytes(log.read_bytes()[: int(log.stat().st_size * keep)])
    else:
        log.unlink()
        (tmp_path / "killed/store.sqlite-shm").unlink()
    error = await refused(tmp_path / "killed")
    assert isinstance(error, KeySpaceForgot)
    assert f"had come to {COMMITS + 2}" in str(error) or "was at revision" in str(error)


async def test_a_changed_letter_in_the_database_is_not_served_as_truth(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace)
        kept = Revision((await keyspace.status()).revision - 3)
    data = (folder / "store.sqlite").read_bytes()
    for marker in (b"/k/19", b"value 000059", b"value 000042"):
        places = [at for at in range(len(data)) if data.startswith(marker, at)]
        assert places, marker
        for at in places:
            copy = tmp_path / "copy"
            shutil.copytree(folder, copy)
            flip(copy / "store.sqlite", at + 4, 0)
            try:
                async with await EmbeddedKeySpace.open(copy) as keyspace:
                    now, then = await keyspace.range(""), await keyspace.range("", at=kept)
            except StorageError:
                pass
            else:  # it was not in a page in use
                async with await EmbeddedKeySpace.open(folder) as keyspace:
                    assert (now, then) == (await keyspace.range(""), await keyspace.range("", at=kept))
            shutil.rmtree(copy)


async def test_an_older_copy_of_the_database_and_one_of_another_store_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace)
    shutil.copy(folder / "store.sqlite", tmp_path / "yesterday")
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace, 5)
    shutil.copy(tmp_path / "yesterday", folder / "store.sqlite")
    assert f"is at revision {COMMITS + 2}, and had come to {COMMITS + 8}" in str(await refused(folder))
    async with await EmbeddedKeySpace.open(tmp_path / "other") as keyspace:
        await fill(keyspace, 100)
    shutil.copy(tmp_path / "other/store.sqlite", folder / "store.sqlite")
    assert "another KeySpace" in str(await refused(folder))
    (folder / "store.sqlite").unlink()
    assert "store.sqlite is missing, and was at revision" in str(await refused(folder))


async def test_a_witness_that_is_missing_or_damaged_is_refused_and_one_torn_record_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace)
    whole = (folder / WITNESS_FILE).read_bytes()
    (folder / WITNESS_FILE).unlink()
    assert "witness is missing" in str(await refused(folder))
    for at in (0, 2_048):
        (folder / WITNESS_FILE).write_bytes(whole)
        flip(folder / WITNESS_FILE, at + 40)
        async with await EmbeddedKeySpace.open(folder) as keyspace:
            await fill(keyspace, 3)  # both records are whole again
        whole = (folder / WITNESS_FILE).read_bytes()
    flip(folder / WITNESS_FILE, 40)
    flip(folder / WITNESS_FILE, 2_048 + 40)
    assert "neither of its two records is whole" in str(await refused(folder))


async def test_the_witness_is_exact_after_each_commit(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        for number in range(5):
            outcome = await keyspace.transact(then=[PutKey(f"/{number}", b"x")])
            payload = read_witness(folder / WITNESS_FILE)
            assert payload is not None
            assert Confirmed.decode(payload).revision == outcome.revision
        lease = await keyspace.grant_lease(60_000)
        await keyspace.transact(then=[PutKey("/leased", b"x", lease.id)])
        await keyspace.revoke_lease(lease.id)
        await keyspace.compact((await keyspace.status()).revision)
    assert check_store(folder / "store.sqlite")


async def test_a_store_of_an_older_release_gets_its_sums(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace)
        expected = await keyspace.range("")
    with sqlite3.connect(folder / "store.sqlite") as connection:
        connection.execute("DROP TABLE digest")
        connection.execute("ALTER TABLE version DROP COLUMN sum")
    connection.close()
    (folder / WITNESS_FILE).unlink()
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        assert await keyspace.range("") == expected
    (folder / "store.sqlite").unlink()
    await refused(folder)


async def test_commits_of_an_older_release_are_taken(tmp_path: Path) -> None:
    """It shares the folder in a rolling upgrade, and knows neither sums nor digest."""
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await fill(keyspace)
    with sqlite3.connect(folder / "store.sqlite") as connection:
        connection.execute("UPDATE state SET revision = revision + 1")
        connection.execute(
            "INSERT INTO version (key, revision, create_revision, version, lease, value) "
            "SELECT x'2F6F6C64', revision, revision, 1, 0, x'01' FROM state"
        )
        connection.execute("INSERT INTO live SELECT x'2F6F6C64', revision, 0 FROM state")
    connection.close()
    for _ in range(2):
        async with await EmbeddedKeySpace.open(folder) as keyspace:
            assert (await keyspace.get("/old")) is not None
            await fill(keyspace, 2)
