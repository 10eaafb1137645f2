"""Disks for tests. They wrap the real one, at the boundary of the system call: the WAL above them is the real one too.

- `UnsyncedDisk`: the local disk without waiting for the platter, for tests in which no power is cut.
- `GatedDisk`: lets an fdatasync wait until the test opens the gate.
- `FaultyDisk`: fails the Nth call, once or from then on, before or after it took effect, or half way.
- `PowerCutDisk`: knows what a power cut may leave of everything that was not synced.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random
from threading import Event
from typing import Any, TypeVar, cast

from penstock.plumbing.wal.disk import Disk, LocalDisk

T = TypeVar("T")
SECTOR_BYTES = 512


class UnsyncedDisk(LocalDisk):
    def fdatasync(self, fd: int) -> None:
        pass

    def fsync_folder(self, folder: Path) -> None:
        pass


class GatedDisk(UnsyncedDisk):
    """While the gate is shut, an fdatasync waits; `arrived` is set when one does."""

    def __init__(self) -> None:
        self.gate = Event()
        self.gate.set()
        self.arrived = Event()

    def shut(self) -> None:
        self.gate.clear()
        self.arrived.clear()

    def fdatasync(self, fd: int) -> None:
        if not self.gate.is_set():
            self.arrived.set()
            assert self.gate.wait(timeout=60)


class How(Enum):
    """What a failing call has done all the same."""

    NOTHING = "nothing"
    HALF = "half"  # a write: the first half of its bytes; any other call: nothing
    ALL = "all"


class FaultyDisk:
    """Fails call number `fail_at` (from 1), and all behind it unless `once`. Keeps the names of the calls."""

    def __init__(
        self, inner: Disk, fail_at: int = 0, *, once: bool = False, how: How = How.NOTHING, code: int = errno.EIO
    ) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.fail_at = fail_at
        self._once = once
        self._how = how
        self._code = code

    @property
    def has_failed(self) -> bool:
        return 0 < self.fail_at <= len(self.calls)

    def die(self, in_calls: int = 1, how: How = How.NOTHING) -> None:
        """From so many calls on every one fails: the process is as good as dead."""
        self.fail_at, self._once, self._how = len(self.calls) + in_calls, False, how

    def _call(self, name: str, call: Callable[..., T], *args: Any) -> T:
        self.calls.append(name)
        number = len(self.calls)
        is_hit = number == self.fail_at or (0 < self.fail_at < number and not self._once)
        if not is_hit:
            return call(*args)
        if name in ("open", "create", "lock") and self._how is How.ALL:
            self.inner.close(cast("int", call(*args)))
        elif name == "close" or self._how is How.ALL:
            call(*args)
        elif name == "pwrite" and self._how is How.HALF:
            fd, data, at = args
            call(fd, bytes(data)[: len(data) // 2], at)
        elif name == "fdatasync" and isinstance(self.inner, PowerCutDisk):
            self.inner.lose(args[0])
        raise OSError(self._code, os.strerror(self._code))

    def mkdir(self, folder: Path) -> None:
        self._call("mkdir", self.inner.mkdir, folder)

    def names(self, folder: Path) -> list[str]:
        return self._call("names", self.inner.names, folder)

    def lock(self, path: Path) -> int:
        return self._call("lock", self.inner.lock, path)

    def create(self, path: Path) -> int:
        return self._call("create", self.inner.create, path)

    def open(self, path: Path) -> int:
        return self._call("open", self.inner.open, path)

    def close(self, fd: int) -> None:
        self._call("close", self.inner.close, fd)

    def pread(self, fd: int, count: int, at: int) -> bytes:
        return self._call("pread", self.inner.pread, fd, count, at)

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        return self._call("pwrite", self.inner.pwrite, fd, data, at)

    def fallocate(self, fd: int, count: int) -> bool:
        return self._call("fallocate", self.inner.fallocate, fd, count)

    def ftruncate(self, fd: int, count: int) -> None:
        self._call("ftruncate", self.inner.ftruncate, fd, count)

    def fdatasync(self, fd: int) -> None:
        self._call("fdatasync", self.inner.fdatasync, fd)

    def rename(self, source: Path, target: Path) -> None:
        self._call("rename", self.inner.rename, source, target)

    def unlink(self, path: Path) -> None:
        self._call("unlink", self.inner.unlink, path)

    def fsync_folder(self, folder: Path) -> None:
        self._call("fsync_folder", self.inner.fsync_folder, folder)


@dataclass(eq=False)
class _File:
    """An inode: what is on the platter, and what is only in the cache."""

    platter: bytearray = field(default_factory=bytearray)
    pending: list[Callable[[bytearray, Random | None], None]] = field(default_factory=list)


def _writing(data: bytes, at: int) -> Callable[[bytearray, Random | None], None]:
    """A write; by a power cut each sector of it is there or not."""

    def apply(platter: bytearray, rng: Random | None) -> None:
        start = 0
        while start < len(data):
            end = min(len(data), start + SECTOR_BYTES - (at + start) % SECTOR_BYTES)
            if rng is None or rng.getrandbits(1):
                if len(platter) < at + end:
                    platter.extend(bytes(at + end - len(platter)))
                platter[at + start : at + end] = data[start:end]
            start = end

    return apply


def _sizing(count: int, *, may_shrink: bool) -> Callable[[bytearray, Random | None], None]:
    def apply(platter: bytearray, rng: Random | None) -> None:
        if len(platter) < count:
            platter.extend(bytes(count - len(platter)))
        elif may_shrink:
            del platter[count:]

    return apply


class PowerCutDisk(UnsyncedDisk):
    """The local disk as the cache, and a platter beside it, which gets what is synced.

    At a power cut each sector and each change of a name which was not synced is on the platter or is not. What a failed
    fdatasync should have written stays in the cache and never reaches the platter, unless it is written again.
    """

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}  # by descriptor
        self._names: dict[Path, _File] = {}
        self._platter_names: dict[Path, _File] = {}
        self._pending_names: list[tuple[Path | None, Path, _File | None]] = []  # removed, set, to what

    def adopt(self, folder: Path) -> None:
        """What is in the folder is on the platter."""
        for path in folder.iterdir():
            self._names[path] = self._platter_names[path] = _File(bytearray(path.read_bytes()))

    def lock(self, path: Path) -> int:
        fd = super().lock(path)
        self._files[fd] = _File()
        return fd

    def create(self, path: Path) -> int:
        fd = super().create(path)
        self._set_name(None, path, _File())
        self._files[fd] = self._names[path]
        return fd

    def open(self, path: Path) -> int:
        fd = super().open(path)
        self._files[fd] = self._names[path]
        return fd

    def close(self, fd: int) -> None:
        del self._files[fd]
        super().close(fd)

    def pwrite(self, fd: int, data: bytes | memoryview, at: int) -> int:
        count = super().pwrite(fd, data, at)
        self._files[fd].pending.append(_writing(bytes(data[:count]), at))
        return count

    def fallocate(self, fd: int, count: int) -> bool:
        self._files[fd].pending.append(_sizing(count, may_shrink=False))
        return super().fallocate(fd, count)

    def ftruncate(self, fd: int, count: int) -> None:
        self._files[fd].pending.append(_sizing(count, may_shrink=True))
        super().ftruncate(fd, count)

    def fdatasync(self, fd: int) -> None:
        file = self._files[fd]
        for apply in file.pending:
            apply(file.platter, None)
        file.pending.clear()

    def lose(self, fd: int) -> None:
        """An fdatasync fails: the cache calls its pages clean, and forgets that they never were written."""
        self._files[fd].pending.clear()

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._set_name(source, target, self._names[source])

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._set_name(None, path, None)

    def fsync_folder(self, folder: Path) -> None:
        for change in [change for change in self._pending_names if change[1].parent == folder]:
            _change(self._platter_names, change)
            self._pending_names.remove(change)

    def cut_power(self, rng: Random, folder: Path, target: Path) -> None:
        """Make `target` what the platter holds of `folder` when the power comes back."""
        names = dict(self._platter_names)
        for change in self._pending_names:
            if rng.getrandbits(1):
                _change(names, change)
        target.mkdir()
        for path, file in names.items():
            if path.parent == folder:
                platter = bytearray(file.platter)
                for apply in rng.sample(file.pending, rng.randint(0, len(file.pending))):
                    apply(platter, rng)
                (target / path.name).write_bytes(platter)

    def _set_name(self, removed: Path | None, path: Path, file: _File | None) -> None:
        change = (removed, path, file)
        _change(self._names, change)
        self._pending_names.append(change)


def _change(names: dict[Path, _File], change: tuple[Path | None, Path, _File | None]) -> None:
    removed, path, file = change
    if removed is not None:
        names.pop(removed, None)
    if file is None:
        names.pop(path, None)
    else:
        names[path] = file
