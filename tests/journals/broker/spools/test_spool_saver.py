import asyncio
import hashlib
from pathlib import Path

from tests.keyspace.shell.behaviours import WAIT_S

from penstock.journals.broker.spools.spool_files import Keeps, SpoolFiles
from penstock.journals.broker.spools.spool_saver import SpoolSaver
from penstock.journals.core.spool import SpoolState
from penstock.journals.records.epoch import NO_EPOCH
from penstock.journals.records.point import Point
from penstock.kernel.errors import PenstockError, StorageError
from penstock.kernel.ids import Incarnation, Offset, Revision
from penstock.plumbing.ports.ports import system_ports


def state_of(content: bytes) -> SpoolState:
    point = Point(Offset(0), Offset(len(content)), hashlib.sha1(content, usedforsecurity=False).digest())
    return SpoolState(Incarnation("i"), Revision(1), NO_EPOCH, NO_EPOCH, Offset(0), (point,))


async def test_saves_end_in_order_and_the_newest_is_durable(tmp_path: Path) -> None:
    files, _ = SpoolFiles.open(system_ports(), tmp_path, "a/journal", Keeps.ALWAYS)
    failures: list[PenstockError] = []
    saver = SpoolSaver(files, failures.append)
    ended: list[int] = []
    content = b""
    for number in range(20):
        files.write(b"x")
        content += b"x"
        saver.save(state_of(content), lambda number=number: ended.append(number))  # type: ignore[misc]
        if number % 5 == 0:
            await asyncio.sleep(0)
    async with asyncio.timeout(WAIT_S):
        await saver.quiet()
    assert ended == list(range(20))
    assert failures == []
    _, recovered = SpoolFiles.open(system_ports(), tmp_path, "a/journal", Keeps.ALWAYS)
    assert recovered is not None
    assert recovered.state == state_of(content)
    files.close()


async def test_after_a_failure_nothing_is_said_to_be_saved(tmp_path: Path) -> None:
    files, _ = SpoolFiles.open(system_ports(), tmp_path, "a/journal", Keeps.ALWAYS)
    failures: list[PenstockError] = []
    saver = SpoolSaver(files, failures.append)
    ended: list[int] = []
    files.write(b"x")
    (tmp_path / "a/journal/#spool/state.new").mkdir()  # the state cannot be written
    saver.save(state_of(b"x"), lambda: ended.append(1))
    async with asyncio.timeout(WAIT_S):
        await saver.quiet()
    assert [type(failure) for failure in failures] == [StorageError]
    (tmp_path / "a/journal/#spool/state.new").rmdir()
    saver.save(state_of(b"x"), lambda: ended.append(2))
    await saver.quiet()
    assert ended == []
    files.close()
