"""Real processes on one embedded KeySpace: killed while writing, stopped while holding a lease, woken by others."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random

from tests.keyspace.shell.behaviours import WAIT_S, shown_until
from tests.keyspace.shell.processes import worker

from penstock.kernel.ids import Revision
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.plumbing.files.versions import check_versions


def url(folder: Path) -> str:
    return f"embedded://{folder}"


async def test_processes_killed_while_they_write_lose_nothing_and_leave_no_half(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    rng = Random(5)
    acknowledged: dict[str, dict[int, int]] = {"one": {}, "other": {}}

    async def live_and_die(name: str) -> None:
        for _ in range(3):
            async with worker("write", url(folder), name) as process:
                lines = [await process.line() for _ in range(rng.randint(1, 60))]
                lines += await process.kill()
                for line in lines:
                    if len(line.split()) == 2 and line.split()[1]:  # the last one may be cut
                        number, revision = map(int, line.split())
                        acknowledged[name][number] = revision

    await asyncio.gather(*map(live_and_die, acknowledged))
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        snapshot = await keyspace.range("")
        stored = {entry.key: entry for entry in snapshot.entries}
        for name, acks in acknowledged.items():
            assert len(acks) >= 3
            for number, revision in acks.items():
                entry = stored[f"{name}/a/{number:06}"]
                assert str(entry.mod_revision).startswith(str(revision)), "acknowledged at another revision"
        for key, entry in stored.items():
            other = stored[key.replace("/a/", "/b/") if "/a/" in key else key.replace("/b/", "/a/")]
            assert entry.mod_revision == other.mod_revision, "half a transaction"
        revisions = sorted({entry.mod_revision for entry in stored.values()})
        assert revisions == list(range(2, snapshot.revision + 1)), "revisions have no gaps"
        async with keyspace.watch("", Revision(2)) as watch:
            changes = await shown_until(watch, snapshot.revision)
        assert len(changes) == len(stored)
    with sqlite3.connect(folder / "store.sqlite") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


async def test_another_process_wakes_a_watch_without_any_polling(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    never = EmbeddedOptions(poll_ms=600_000)
    async with (
        await EmbeddedKeySpace.open(folder, never) as keyspace,
        keyspace.watch("k", Revision(2)) as watch,
        worker("put", url(folder), "k") as other,
    ):
        for number in range(2, 6):
            await other.tell("again")
            assert [change.revision for change in await shown_until(watch, Revision(number))] == [number]
            assert await other.line() == "put"


async def test_a_stopped_process_loses_its_lease_and_is_told_when_it_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with (
        await EmbeddedKeySpace.open(folder, EmbeddedOptions(poll_ms=20)) as keyspace,
        worker("hold", url(folder), "holders/a", 1_500) as holder,
    ):
        assert await holder.line() == "holding"
        held = await keyspace.range("holders/")
        assert [entry.key for entry in held.entries] == ["holders/a"]
        async with keyspace.watch("holders/", Revision(held.revision + 1)) as watch:
            holder.process.send_signal(signal.SIGSTOP)
            (gone,) = await shown_until(watch, Revision(held.revision + 1))
            assert gone.now is None
        holder.process.send_signal(signal.SIGCONT)
        assert (await holder.line()).startswith("lost: ")
        async with asyncio.timeout(WAIT_S):
            assert await holder.process.wait() == 0


async def test_a_killed_process_leaves_a_lease_which_ends_and_a_fifo_which_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "keyspace"
    async with (
        await EmbeddedKeySpace.open(folder, EmbeddedOptions(poll_ms=20)) as keyspace,
        worker("hold", url(folder), "holders/a", 1_000) as holder,
    ):
        assert await holder.line() == "holding"
        assert len(list((folder / "wake").iterdir())) == 2
        held = (await keyspace.range("holders/")).revision
        await holder.kill()
        async with keyspace.watch("holders/", Revision(held + 1)) as watch:
            assert [change.now for change in await shown_until(watch, Revision(held + 1))] == [None]
        assert len(list((folder / "wake").iterdir())) == 1, "who ended the lease could wake nobody there"


LOOK = """
import asyncio, sys
from pathlib import Path
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace

async def look():
    async with await EmbeddedKeySpace.open(Path(sys.argv[1])) as keyspace:
        print(sorted(entry.key for entry in (await keyspace.range("")).entries))

asyncio.run(look())
"""


async def seen_by_another_process(folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LOOK, str(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().strip()


async def test_a_second_open_in_one_process_takes_no_lock_from_the_first(tmp_path: Path) -> None:
    # a process that closes any descriptor of a file loses its locks on that file: the close of another process would
    # then remove the log that this one still writes to
    folder = tmp_path / "keyspace"
    async with await EmbeddedKeySpace.open(folder) as keyspace:
        await keyspace.transact(then=[PutKey("a", b"1")])
        async with await EmbeddedKeySpace.open(folder):
            assert await seen_by_another_process(folder) == "['a']"
            check_versions(tmp_path)
            assert await seen_by_another_process(folder) == "['a']"
        await keyspace.transact(then=[PutKey("b", b"2")])
        assert await seen_by_another_process(folder) == "['a', 'b']"
