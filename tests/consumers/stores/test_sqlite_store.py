"""The SQLite store: what SQLite does to its files comes back whole, also after kill -9 at any moment."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random

import pytest
from tests.consumers.stores.recoverylog.site import Site, checkpoint, make_tables, running_site
from tests.consumers.worker import writing_process

from penstock.consumers.stores.recoverylog import recording
from penstock.consumers.stores.sqlite_store import SqliteStore
from penstock.kernel.errors import InvalidArgument, StorageError

WAIT_S = 100.0


async def commit(store: SqliteStore, offset: int, *statements: str) -> None:
    connection = await store.transaction()
    for statement in statements:
        connection.execute(statement)
    await store.seal(checkpoint(offset))
    await store.commit()


async def test_a_process_is_killed_while_it_writes_and_the_database_is_a_committed_one(tmp_path: Path) -> None:
    """Again and again; each process continues where the one before was cut off."""
    rng = Random(9)
    async with running_site(tmp_path) as site:
        least = 0
        for _ in range(3):
            sealed, committed = await _killed(site, tmp_path, lines=rng.randrange(20, 90))
            store = SqliteStore(site.log(), setup=writing_process.make_tables)
            async with asyncio.timeout(WAIT_S):
                found = (await store.restore()).sources[writing_process.JOURNAL].offset
            assert max(committed, least) <= found <= sealed
            connection = await store.transaction()
            assert connection.pragma("integrity_check") == "ok"
            rows = list(connection.execute("SELECT * FROM entries ORDER BY id"))
            assert rows == writing_process.expected(found)
            await store.close()
            least = found
        assert len(list(site.folder.iterdir())) <= 2, "what killed processes left is removed by the next"


async def _killed(site: Site, folder: Path, lines: int) -> tuple[int, int]:
    """Run a process until its output has this many lines; return its sealed and committed maximum."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        writing_process.__file__,
        site.cluster.addresses[0],
        str(folder / "keyspace"),
        str(site.folder),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    said: list[bytes] = []
    try:
        async with asyncio.timeout(WAIT_S):
            while len(said) < lines:
                line = await process.stdout.readline()
                assert line, "the process ended by itself"
                said.append(line)
    finally:
        os.kill(process.pid, signal.SIGKILL)
    said += (await process.stdout.read()).splitlines(keepends=True)
    await process.wait()
    numbers = {word: [int(n) for w, n in map(bytes.split, said) if w == word] for word in (b"sealed", b"committed")}
    # It may have sealed one more, and not have come to say so.
    return max(numbers[b"sealed"]) + 1, max(numbers[b"committed"], default=0)


async def test_a_database_which_shrinks_and_is_rewritten_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "REWRITE_LOG_BYTES_MIN", 0)
    monkeypatch.setattr(recording, "REWRITE_STEP_BYTES", 20_000)
    async with running_site(tmp_path) as site:
        store = site.sqlite()
        await store.restore()
        await commit(store, 1, "PRAGMA auto_vacuum = 1")
        for number in range(2, 40):
            await commit(store, number, f"INSERT INTO notes VALUES ('{number}' || hex(zeroblob(10000)))")
            if number % 3:
                await commit(store, number, f"DELETE FROM notes WHERE note LIKE '{number}%'")
        kept = list((await store.transaction()).execute("SELECT note FROM notes ORDER BY rowid"))
        await commit(store, 40)
        connection = await store.transaction()
        connection.execute("COMMIT")
        connection.execute("VACUUM")  # outside of a transaction: SQLite has no other way
        connection.execute("BEGIN")
        await commit(store, 41)
        size = (store.log.recording.folder / "state.db").stat().st_size
        await store.close()
        again = site.sqlite()
        assert await again.restore() == checkpoint(41)
        connection = await again.transaction()
        assert connection.pragma("integrity_check") == "ok"
        assert list(connection.execute("SELECT note FROM notes ORDER BY rowid")) == kept
        assert (again.log.recording.folder / "state.db").stat().st_size == size
        await again.close()


async def test_an_application_must_not_end_the_transaction(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        store = site.sqlite()
        await store.restore()
        await commit(store, 1, "INSERT INTO notes VALUES ('kept')")
        (await store.transaction()).execute("INSERT INTO notes VALUES ('lost'); COMMIT")
        with pytest.raises(InvalidArgument, match="the shard's to do"):
            await store.seal(checkpoint(2))
        await store.close()
        again = site.sqlite()
        assert await again.restore() == checkpoint(1)
        rows = list((await again.transaction()).execute("SELECT note FROM notes"))
        assert rows == [("kept",)]
        await again.close()


async def test_a_setup_which_fails_leaves_nothing(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        broken = SqliteStore(site.log(), setup=lambda connection: connection.execute("CREATE nonsense").close())
        with pytest.raises(StorageError, match="cannot be opened"):
            await broken.restore()
        await broken.close()
        store = SqliteStore(site.log(), setup=make_tables)
        await store.restore()
        await commit(store, 1, "INSERT INTO notes VALUES ('first')")
        await store.close()
