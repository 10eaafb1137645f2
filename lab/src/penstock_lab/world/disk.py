"""The disk port, simulated: a page cache over durable bytes, for each machine.

Each fault is allowed by a document. Power loss keeps, tears or drops each unsynced write and name by itself: fsync(2)
("does not necessarily ensure that the entry in the directory has also reached disk"), and Pillai et al., OSDI 2014, for
what file systems reorder. A failed fsync may leave pages marked clean: Rebello et al., ATC 2020. Short writes:
write(2). ENOSPC, EDQUOT, EIO: write(2), fsync(2), posix_fallocate(3); blocks that were reserved stay.

What always holds: synced bytes and names survive every loss of power; a descriptor is of one life of one process.
"""

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock_lab.world.process import Life
    from penstock_lab.world.world import World

__all__ = ["DiskTrouble", "Files", "SimulatedDisk"]

CALL_NS: Final = (500, 5_000)
WRITE_NS_PER_BYTE: Final = 0.2
SYNC_NS: Final = (50_000, 2_000_000)
FREE_BYTES: Final = 1 << 40
SECTOR: Final = 512


class _File:
    """An inode: its bytes now, those that are durable, and the writes between."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes | None]] = []  # where and what; None: cut to there
        self.reserved = 0
        self.is_locked_by: int | None = None

    def write(self, data: bytes, at: int) -> None:
        _patch(self.data, data, at)
        self.pending.append((at, data))

    def cut(self, size: int) -> None:
        _cut(self.data, size)
        self.pending.append((size, None))

    def sync(self) -> None:
        for at, data in self.pending:
            _apply(self.durable, at, data)
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        mode = rng.choice(("none", "all", "some"))
        for at, data in self.pending:
            if mode == "all" or (mode == "some" and rng.random() < 0.5):
                if data is not None and len(data) > 1 and rng.random() < 0.3:
                    data = data[: rng.randrange(1, len(data))]
                _apply(self.durable, at, data)
        self.pending.clear()
        self.data = bytearray(self.durable)
        self.reserved = 0
        self.is_locked_by = None


class _Folder:
    """A folder: its names now, and what became of the durable ones since."""

    def __init__(self) -> None:
        self.names: dict[str, _File | _Folder] = {}
        self.durable: dict[str, _File | _Folder] = {}
        self.pending: list[tuple[_Step, str, _File | _Folder | None]] = []

    def set(self, name: str, node: "_File | _Folder | None", step: "_Step | None" = None) -> None:
        if node is None:
            del self.names[name]
        else:
            self.names[name] = node
        self.pending.append((step or _Step(), name, node))

    def sync(self) -> None:
        for step, name, node in self.pending:
            self._settle(name, node)
            step.is_durable = True
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        for step, name, node in self.pending:
            if step.is_durable is None:
                step.is_durable = rng.random() < 0.5
            if step.is_durable:
                self._settle(name, node)
        self.pending.clear()
        self.names = dict(self.durable)
        for node in self.names.values():
            node.lose_power(rng)

    def _settle(self, name: str, node: "_File | _Folder | None") -> None:
        if node is None:
            self.durable.pop(name, None)
        else:
            self.durable[name] = node


class _Step:
    """One change of names, which may be in two folders. It is durable as a whole."""

    def __init__(self) -> None:
        self.is_durable: bool | None = None


class DiskTrouble:
    """The faults of a disk now. Each can end again."""

    def __init__(self) -> None:
        self.is_full = False
        self.full_code = errno.ENOSPC
        self.write_code = 0  # an errno for every write
        self.sync_code = 0  # likewise for syncs; the writes stay in the cache, and are never written
        self.read_code = 0
        self.sync_ns = SYNC_NS
        self.short_writes = 0.0  # the chance that a write takes only a part
        # schedules: called before each call with its name and its path; may return an errno
        self.script: Callable[[str, str], int] = lambda _operation, _path: 0


class Files:
    """The files of one machine."""

    def __init__(self, world: "World", name: str, rng: Random) -> None:
        self.world = world
        self.name = name
        self.faults = DiskTrouble()
        self.root = _Folder()
        self._rng = rng

    def lose_power(self) -> None:
        self.root.lose_power(self._rng)

    def folder(self, path: Path) -> _Folder:
        node = self.find(path)
        if isinstance(node, _Folder):
            return node
        raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def file(self, path: Path) -> _File:
        node = self.find(path)
        if isinstance(node, _File):
            return node
        raise _error(errno.ENOENT if node is None else errno.EISDIR, path)

    def find(self, path: Path) -> _File | _Folder | None:
        node: _File | _Folder | None = self.root
        for name in path.parts[1:]:
            node = node.names.get(name) if isinstance(node, _Folder) else None
        return node

    def walk(self, folder: Path) -> list[Path]:
        found: list[Path] = []
        node = self.find(folder)
        if isinstance(node, _Folder):
            for name, below in node.names.items():
                found += self.walk(folder / name) if isinstance(below, _Folder) else [folder / name]
        return sorted(found)

    def flip(self, path: Path, at: int, mask: int = 1) -> None:
        """Damage one byte where it lies, in the cache too: what a bad cell or a bad controller gives back."""
        file = self.file(path)
        for content in (file.data, file.durable):
            if at < len(content):
                content[at] ^= mask
        self.world.note(self.name, "disk", f"flips {path} at {at}")


class SimulatedDisk:
    """The disk as one life of a process sees it: a `FileSystem`."""

    def __init__(self, process: "Life", files: Files) -> None:
        self.files = files
        self._process = process
        self._rng = process.rng
        self._open: dict[int, tuple[_File, str]] = {}
        self._locks: dict[int, _File] = {}
        self._last = 100 * process.life

    def close_all(self) -> None:
        for file in self._locks.values():
            file.is_locked_by = None
        self._locks.clear()
        self._open.clear()

    # Names

    def mkdir(self, folder: Path) -> None:
        self._begin("mkdir", folder)
        above = self.files.folder(folder.parent)
        if folder.name in above.names:
            raise _error(errno.EEXIST, folder)
        self._need_room(folder)
        above.set(folder.name, _Folder())

    def make_folders(self, folder: Path) -> None:
        if self.files.find(folder) is None:
            self.make_folders(folder.parent)
            self.mkdir(folder)

    def names(self, folder: Path) -> list[str]:
        self._begin("names", folder)
        names = list(self.files.folder(folder).names)
        self._rng.shuffle(names)
        return names

    def walk(self, folder: Path) -> list[Path]:
        self._begin("walk", folder)
        return self.files.walk(folder)

    def exists(self, path: Path) -> bool:
        return self.files.find(path) is not None

    def rename(self, source: Path, target: Path) -> None:
        self._begin("rename", source)
        node = self.files.find(source)
        if node is None:
            raise _error(errno.ENOENT, source)
        into, step = self.files.folder(target.parent), _Step()
        there = into.names.get(target.name)
        if isinstance(there, _Folder) and (there.names or isinstance(node, _File)):
            raise _error(errno.ENOTEMPTY, target)
        if source != target:
            into.set(target.name, node, step)
            self.files.folder(source.parent).set(source.name, None, step)

    def unlink(self, path: Path) -> None:
        self._begin("unlink", path)
        self.files.file(path)
        self.files.folder(path.parent).set(path.name, None)

    def remove(self, path: Path) -> None:
        if self.files.find(path) is not None:
            self.unlink(path)

    def remove_tree(self, folder: Path) -> None:
        node = self.files.find(folder)
        if not isinstance(node, _Folder):
            return
        self._begin("remove_tree", folder)
        for name, below in list(node.names.items()):
            if isinstance(below, _Folder):
                self.remove_tree(folder / name)
            else:
                node.set(name, None)
        self.files.folder(folder.parent).set(folder.name, None)

    def fsync_folder(self, folder: Path) -> None:
        self._begin("fsync_folder", folder)
        node = self.files.folder(folder)
        self._process.wait_for_disk(self._rng.randint(*self.files.faults.sync_ns))
        self._fail(self.files.faults.sync_code, folder)
        node.sync()

    def temporary(self, folder: Path | None) -> int:
        self._begin("temporary", folder or Path("/tmp"))
        if folder is not None:
            self.files.folder(folder)
        return self._opened(_File(), "a file without a name")

    def lock(self, path: Path) -> int:
        self._begin("lock", path)
        above = self.files.folder(path.parent)
        if path.name not in above.names:
            above.set(path.name, _File())
        file = self.files.file(path)
        if file.is_locked_by is not None:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        fd = self._opened(file, str(path))
        file.is_locked_by = fd
        self._locks[fd] = file
        return fd

    # Files

    def create(self, path: Path) -> int:
        self._begin("create", path)
        above = self.files.folder(path.parent)
        node = above.names.get(path.name)
        if isinstance(node, _File):
            node.cut(0)
            return self._opened(node, str(path))
        return self._created(path, above)

    def create_new(self, path: Path) -> int:
        self._begin("create_new", path)
        above = self.files.folder(path.parent)
        if path.name in above.names:
            raise _error(errno.EEXIST, path)
        return self._created(path, above)

    def _created(self, path: Path, above: _Folder) -> int:
        self._need_room(path)
        file = _File()
        above.set(path.name, file)
        return self._opened(file, str(path))

    def open(self, path: Path) -> int:
        self._begin("open", path)
        return self._opened(self.files.file(path), str(path))

    def close(self, fd: int) -> None:
        if self._process.is_dead:
            return
        file, _ = self._file(fd)
        del self._open[fd]
        if self._locks.pop(fd, None) is not None:
            file.is_locked_by = None

    def size(self, fd: int) -> int:
        return len(self._file(fd)[0].data)

    def read_file(self, path: Path) -> bytes:
        self._begin("read_file", path)
        file = self.files.file(path)
        self._fail(self.files.faults.read_code, path)
        return bytes(file.data)

    def pread(self, fd: int, count: int, at: int) -> bytes:
        file, path = self._file(fd)
        self._begin("pread", path)
        self._fail(self.files.faults.read_code, path)
        return bytes(memoryview(file.data)[at : at + count])

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        return self._write(fd, bytes(data), at)

    def pwritev(self, fd: int, buffers: Sequence[memoryview], at: int) -> int:
        return self._write(fd, b"".join(buffers), at)

    def _write(self, fd: int, data: bytes, at: int) -> int:
        file, path = self._file(fd)
        self._begin("pwrite", path, data)
        faults = self.files.faults
        self._fail(faults.write_code, path)
        self._process.wait_for_disk(int(len(data) * WRITE_NS_PER_BYTE))
        if faults.is_full:
            room = max(file.reserved, len(file.data)) - at
            if room <= 0 < len(data):
                raise _error(faults.full_code, path)
            data = data[:room]
        if faults.short_writes and len(data) > 1 and self._rng.random() < faults.short_writes:
            data = data[: self._rng.randrange(1, len(data))]
        file.write(data, at)
        return len(data)

    def ftruncate(self, fd: int, count: int) -> None:
        file, path = self._file(fd)
        self._begin("ftruncate", path)
        file.cut(count)
        file.reserved = min(file.reserved, count)

    def fdatasync(self, fd: int) -> None:
        file, path = self._file(fd)
        self._begin("fdatasync", path)
        self._process.wait_for_disk(self._rng.randint(*self.files.faults.sync_ns))
        if self.files.faults.sync_code:
            file.pending.clear()  # the cache says clean: a second try would find nothing to write
            raise _error(self.files.faults.sync_code, path)
        file.sync()

    # Room

    def fallocate(self, fd: int, count: int) -> bool:
        self.reserve(fd, 0, count)
        file, _ = self._file(fd)
        if len(file.data) < count:
            file.cut(count)
        return True

    def reserve(self, fd: int, at: int, size: int) -> None:
        file, path = self._file(fd)
        self._begin("reserve", path)
        if self.files.faults.is_full and at + size > max(file.reserved, len(file.data)):
            raise _error(self.files.faults.full_code, path)
        file.reserved = max(file.reserved, at + size)

    def release(self, fd: int) -> None:
        file, path = self._file(fd)
        self._begin("release", path)
        file.reserved = len(file.data)

    def free_bytes(self, folder: Path) -> int:
        return 0 if self.files.faults.is_full else FREE_BYTES

    def disk_bytes(self, folder: Path) -> int:
        return FREE_BYTES

    # What all calls share

    def _begin(self, operation: str, path: object, data: bytes = b"") -> None:
        process = self._process
        if process.is_dead or process.world.is_over:
            raise _error(errno.EIO, path)  # a task of the dead ends: nothing it does may reach the disk
        process.wait_for_disk(self._rng.randint(*CALL_NS))
        process.note("disk", f"{operation} {path}", data)
        self._fail(self.files.faults.script(operation, str(path)), path)

    def _fail(self, code: int, path: object) -> None:
        if code:
            raise _error(code, path)

    def _need_room(self, path: Path) -> None:
        if self.files.faults.is_full:
            raise _error(self.files.faults.full_code, path)

    def _opened(self, file: _File, path: str) -> int:
        self._last += 1
        self._open[self._last] = (file, path)
        return self._last

    def _file(self, fd: int) -> tuple[_File, str]:
        found = self._open.get(fd)
        if found is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return found


def _error(code: int, path: object) -> OSError:
    return OSError(code, os.strerror(code), str(path))


def _patch(content: bytearray, data: bytes, at: int) -> None:
    if len(content) < at:
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))
    del content[size:]


def _apply(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        _cut(content, at)
    else:
        _patch(content, data, at)
