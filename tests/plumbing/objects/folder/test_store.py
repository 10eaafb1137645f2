import asyncio
import os
import threading
from pathlib import Path

import pytest

from penstock.kernel.errors import LimitExceeded, ObjectStoreFailed
from penstock.plumbing.objects import ObjectStore, StoreOptions
from penstock.plumbing.objects.folder.store import FolderStore
from penstock.plumbing.objects.folder.syscalls import Syscalls
from penstock.plumbing.objects.port import GET_BYTES_MAX


def open_files(root: Path) -> list[str]:
    """Files below a folder which this process still has open."""
    return [path for path in (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()) if str(root) in path]


async def keys(store: ObjectStore) -> list[str]:
    return [meta.key async for page in store.list() for meta in page.objects]


async def test_objects_are_plain_files_any_tool_can_read_and_write(tmp_path: Path) -> None:
    (tmp_path / "by/another").mkdir(parents=True)
    (tmp_path / "by/another/tool").write_bytes(b"theirs")
    async with FolderStore(str(tmp_path), StoreOptions()) as store:
        assert bytes((await store.get("by/another/tool")).data) == b"theirs"
        await store.put("ours", b"ours")
        assert await keys(store) == ["by/another/tool", "ours"]
    assert (tmp_path / "ours").read_bytes() == b"ours"


async def test_names_which_are_no_keys_are_not_listed(tmp_path: Path) -> None:
    for name in ["ok", "ends.", "e\u0301", "back\\slash", "tab\t"]:
        (tmp_path / name).write_bytes(b"")
    (tmp_path / os.fsdecode(b"\xff\xfe")).write_bytes(b"")
    (tmp_path / "empty/folder").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "ok")
    async with FolderStore(str(tmp_path), StoreOptions()) as store:
        assert await keys(store) == ["ok"]
        assert [page.folders async for page in store.list(delimiter="/")] == [()]


async def test_a_file_cut_short_by_another_program_is_noticed(tmp_path: Path) -> None:
    async with FolderStore(str(tmp_path), StoreOptions(chunk_bytes=10)) as store:
        await store.put("a", b"x" * 100)
        async with store.reader("a") as reader:
            chunks = aiter(reader)
            await anext(chunks)
            os.truncate(tmp_path / "a", 15)
            with pytest.raises(ObjectStoreFailed, match="cut short"):
                [chunk async for chunk in chunks]


async def test_an_object_too_large_for_memory_can_only_be_streamed_or_cut(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", GET_BYTES_MAX + 3)  # without blocks: it takes no space
    async with FolderStore(str(tmp_path), StoreOptions()) as store:
        with pytest.raises(LimitExceeded, match="more than"):
            await store.get("large")
        assert bytes((await store.get("large", GET_BYTES_MAX)).data) == b"\0\0\0"
        async with store.reader("large", GET_BYTES_MAX) as reader:
            assert [bytes(chunk) async for chunk in reader] == [b"\0\0\0"]


async def test_no_file_stays_open(tmp_path: Path) -> None:
    async with FolderStore(str(tmp_path), StoreOptions(threads_max=2)) as store:
        await store.put("a", b"x" * 100)
        await store.copy("a", "b")
        for _ in range(5):
            await store.get("a", 1, 2)
            await store.get_ranges("a", [(0, 1)])
            await store.head("a")
            async with store.reader("a"):
                pass
            with pytest.raises(Exception, match="no object"):
                await store.get("nothing")
            with pytest.raises(Exception, match="already"):
                await store.put("a", b"", if_absent=True)
            async with store.writer("c") as writer:
                await writer.abort()
        await store.delete("a", "b")
    assert open_files(tmp_path) == []


class Telling(Syscalls):
    """Tells the event loop when a call of one name is made, in its thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = name
        self.told = asyncio.Event()

    def _tell(self, name: str) -> None:
        if name == self._name:
            self._loop.call_soon_threadsafe(self.told.set)

    def create(self, path: str) -> int:
        self._tell("create")
        return super().create(path)

    def write(self, file: int, data: memoryview) -> int:
        self._tell("write")
        return super().write(file, data)


def staged(root: Path) -> list[Path]:
    return list(root.glob(".penstock/staging/*/*"))


@pytest.mark.parametrize("call", ["create", "write"])
async def test_a_writer_cancelled_during_a_call_leaves_nothing(tmp_path: Path, call: str) -> None:
    telling = Telling(call)
    async with FolderStore(str(tmp_path), StoreOptions(), telling) as store:

        async def write() -> None:
            async with store.writer("a") as writer:
                while True:
                    await writer.write(bytes(1 << 20))

        for _ in range(5):
            telling.told.clear()
            task = asyncio.create_task(write())
            await telling.told.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await keys(store) == []
    assert staged(tmp_path) == []
    assert open_files(tmp_path) == []


class Slow(Telling):
    """Holds a write until its file is removed, or for a moment if it is not, as it should."""

    def __init__(self) -> None:
        super().__init__("write")
        self.order: list[str] = []
        self._removed = threading.Event()

    def write(self, file: int, data: memoryview) -> int:
        self.order.append("write begins")
        self._tell("write")
        self._removed.wait(0.2)
        self.order.append("write ends")
        return super().write(file, data)

    def unlink(self, path: str) -> None:
        self.order.append("removed")
        self._removed.set()
        super().unlink(path)


async def test_a_file_is_not_closed_under_the_thread_which_writes_it(tmp_path: Path) -> None:
    slow = Slow()
    async with FolderStore(str(tmp_path), StoreOptions(), slow) as store:

        async def write() -> None:
            async with store.writer("a") as writer:
                await writer.write(b"x")

        task = asyncio.create_task(write())
        await slow.told.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert slow.order == ["write begins", "write ends", "removed"]
