"""The files of one machine: a page cache over durable bytes and names. See `disk` for the faults.

What always holds: synced bytes and names survive every loss of power.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock_lab.world.world import World

__all__ = ["DiskTrouble", "FileNode", "Files", "FolderNode", "NameChange", "disk_error"]

SYNC_NS: Final = (50_000, 2_000_000)


class FileNode:
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


class FolderNode:
    """A folder: its names now, and what became of the durable ones since."""

    def __init__(self) -> None:
        self.names: dict[str, FileNode | FolderNode] = {}
        self.durable: dict[str, FileNode | FolderNode] = {}
        self.pending: list[tuple[NameChange, str, FileNode | FolderNode | None]] = []

    def set(self, name: str, node: "FileNode | FolderNode | None", step: "NameChange | None" = None) -> None:
        if node is None:
            del self.names[name]
        else:
            self.names[name] = node
        self.pending.append((step or NameChange(), name, node))

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

    def _settle(self, name: str, node: "FileNode | FolderNode | None") -> None:
        if node is None:
            self.durable.pop(name, None)
        else:
            self.durable[name] = node


class NameChange:
    """One change of names, which may be in two folders. It is durable as a whole."""

    def __init__(self) -> None:
        self.is_durable: bool | None = None


class DiskTrouble:
    """The faults of a disk now. Each can end again."""

    def __init__(self) -> None:
        self.heal()
        # schedules: called before each call with its name and its path; may return an errno
        self.script: Callable[[str, str], int] = lambda _operation, _path: 0

    def heal(self) -> None:
        self.is_full = False
        self.full_code = errno.ENOSPC
        self.write_code = 0  # an errno for every write
        self.sync_code = 0  # likewise for syncs; the writes stay in the cache, and are never written
        self.read_code = 0
        self.sync_ns = SYNC_NS
        self.short_writes = 0.0  # the chance that a write takes only a part


class Files:
    """The files of one machine."""

    def __init__(self, world: "World", name: str, rng: Random) -> None:
        self.world = world
        self.name = name
        self.trouble = DiskTrouble()
        self.root = FolderNode()
        self._rng = rng

    def install(self, folder: Path) -> None:
        """Make a durable folder, as an installation does."""
        self.root.set(folder.name, FolderNode())
        self.root.sync()

    def lose_power(self) -> None:
        self.root.lose_power(self._rng)

    def folder(self, path: Path) -> FolderNode:
        node = self.find(path)
        if isinstance(node, FolderNode):
            return node
        raise disk_error(errno.ENOENT if node is None else errno.ENOTDIR, path)

    def file(self, path: Path) -> FileNode:
        node = self.find(path)
        if isinstance(node, FileNode):
            return node
        raise disk_error(errno.ENOENT if node is None else errno.EISDIR, path)

    def find(self, path: Path) -> FileNode | FolderNode | None:
        node: FileNode | FolderNode | None = self.root
        for name in path.parts[1:]:
            node = node.names.get(name) if isinstance(node, FolderNode) else None
        return node

    def walk(self, folder: Path) -> list[Path]:
        found: list[Path] = []
        node = self.find(folder)
        if isinstance(node, FolderNode):
            for name, below in node.names.items():
                found += self.walk(folder / name) if isinstance(below, FolderNode) else [folder / name]
        return sorted(found)

    def flip(self, path: Path, at: int, mask: int = 1) -> None:
        """Damage one byte where it lies, in the cache too: what a bad cell or a bad controller gives back."""
        file = self.file(path)
        for content in (file.data, file.durable):
            if at < len(content):
                content[at] ^= mask
        self.world.note(self.name, "disk", f"flips {path} at {at}")


def disk_error(code: int, path: object) -> OSError:
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
