"""The disk port, simulated: a page cache over durable bytes, for each machine.

Each fault is allowed by a document. Power loss keeps, tears or drops each unsynced write and name by itself: fsync(2)
("does not necessarily ensure that the entry in the directory has also reached disk"), and Pillai et al., OSDI 2014, for
what file systems reorder. A failed fsync may leave pages marked clean: Rebello et al., ATC 2020. Short writes:
write(2). ENOSPC, EDQUOT, EIO: write(2), fsync(2), posix_fallocate(3); blocks that were reserved stay.

What always holds: synced bytes and names survive every loss of power; a descriptor is of one life of one process.
"""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock_lab.world.ports.files import FileNode, Files, FolderNode, NameChange, disk_error

if TYPE_CHECKING:
    from penstock_lab.world.process import Life

__all__ = ["SimulatedDisk"]

CALL_NS: Final = (500, 5_000)
WRITE_NS_PER_BYTE: Final = 0.2
FREE_BYTES: Final = 1 << 40


class SimulatedDisk:
    """The disk as one life of a process sees it: a `FileSystem`."""

    def __init__(self, process: "Life", files: Files) -> None:
        self.files = files
        self._process = process
        self._rng = process.rng
        self._open: dict[int, tuple[FileNode, str]] = {}
        self._locks: dict[int, FileNode] = {}
        self._last = 100 * process.life

    @property
    def open_count(self) -> int:
        """Return how many descriptors are open."""
        return len(self._open)

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
            raise disk_error(errno.EEXIST, folder)
        self._need_room(folder)
        above.set(folder.name, FolderNode())

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
            raise disk_error(errno.ENOENT, source)
        into, step = self.files.folder(target.parent), NameChange()
        there = into.names.get(target.name)
        if isinstance(there, FolderNode) and (there.names or isinstance(node, FileNode)):
            raise disk_error(errno.ENOTEMPTY, target)
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
        if not isinstance(node, FolderNode):
            return
        self._begin("remove_tree", folder)
        for name, below in list(node.names.items()):
            if isinstance(below, FolderNode):
                self.remove_tree(folder / name)
            else:
                node.set(name, None)
        self.files.folder(folder.parent).set(folder.name, None)

    def fsync_folder(self, folder: Path) -> None:
        self._begin("fsync_folder", folder)
        node = self.files.folder(folder)
        self._process.wait_for_disk(self._rng.randint(*self.files.trouble.sync_ns))
        self._fail(self.files.trouble.sync_code, folder)
        node.sync()

    def temporary(self, folder: Path | None) -> int:
        self._begin("temporary", folder or Path("/tmp"))
        if folder is not None:
            self.files.folder(folder)
        return self._opened(FileNode(), "a file without a name")

    def lock(self, path: Path) -> int:
        self._begin("lock", path)
        above = self.files.folder(path.parent)
        if path.name not in above.names:
            above.set(path.name, FileNode())
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
        if isinstance(node, FileNode):
            node.cut(0)
            return self._opened(node, str(path))
        return self._created(path, above)

    def create_new(self, path: Path) -> int:
        self._begin("create_new", path)
        above = self.files.folder(path.parent)
        if path.name in above.names:
            raise disk_error(errno.EEXIST, path)
        return self._created(path, above)

    def _created(self, path: Path, above: FolderNode) -> int:
        self._need_room(path)
        file = FileNode()
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
        self._fail(self.files.trouble.read_code, path)
        return bytes(file.data)

    def pread(self, fd: int, count: int, at: int) -> bytes:
        file, path = self._file(fd)
        self._begin("pread", path)
        self._fail(self.files.trouble.read_code, path)
        return bytes(memoryview(file.data)[at : at + count])

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        return self._write(fd, bytes(data), at)

    def pwritev(self, fd: int, buffers: Sequence[memoryview], at: int) -> int:
        return self._write(fd, b"".join(buffers), at)

    def _write(self, fd: int, data: bytes, at: int) -> int:
        file, path = self._file(fd)
        self._begin("pwrite", path, data)
        trouble = self.files.trouble
        self._fail(trouble.write_code, path)
        self._process.wait_for_disk(int(len(data) * WRITE_NS_PER_BYTE))
        if trouble.is_full:
            room = max(file.reserved, len(file.data)) - at
            if room <= 0 < len(data):
                raise disk_error(trouble.full_code, path)
            data = data[:room]
        if trouble.short_writes and len(data) > 1 and self._rng.random() < trouble.short_writes:
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
        self._process.wait_for_disk(self._rng.randint(*self.files.trouble.sync_ns))
        if self.files.trouble.sync_code:
            file.pending.clear()  # the cache says clean: a second try would find nothing to write
            raise disk_error(self.files.trouble.sync_code, path)
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
        if self.files.trouble.is_full and at + size > max(file.reserved, len(file.data)):
            raise disk_error(self.files.trouble.full_code, path)
        file.reserved = max(file.reserved, at + size)

    def release(self, fd: int) -> None:
        file, path = self._file(fd)
        self._begin("release", path)
        file.reserved = len(file.data)

    def free_bytes(self, folder: Path) -> int:
        return 0 if self.files.trouble.is_full else FREE_BYTES

    def disk_bytes(self, folder: Path) -> int:
        return 2 * FREE_BYTES

    # What all calls share

    def _begin(self, operation: str, path: object, data: bytes = b"") -> None:
        process = self._process
        if process.is_dead or process.world.is_over:
            raise disk_error(errno.EIO, path)  # a task of the dead ends: nothing it does may reach the disk
        process.wait_for_disk(self._rng.randint(*CALL_NS))
        process.note("disk", f"{operation} {path}", data)
        self._fail(self.files.trouble.script(operation, str(path)), path)

    def _fail(self, code: int, path: object) -> None:
        if code:
            raise disk_error(code, path)

    def _need_room(self, path: Path) -> None:
        if self.files.trouble.is_full:
            raise disk_error(self.files.trouble.full_code, path)

    def _opened(self, file: FileNode, path: str) -> int:
        self._last += 1
        self._open[self._last] = (file, path)
        return self._last

    def _file(self, fd: int) -> tuple[FileNode, str]:
        found = self._open.get(fd)
        if found is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return found
