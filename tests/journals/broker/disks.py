"""Disks for tests of brokers: a small file system that can be filled, and damage to files."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["SmallDisk", "flip", "small_disk"]

SIZE_MIB = 48


class SmallDisk:
    """A file system of 48 MiB, on which the data folders of brokers lie."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def hold(self, folder: Path, *names: str) -> None:
        """Put the data folders of these brokers on this disk."""
        for name in names:
            (self.path / name).mkdir()
            (folder / name).symlink_to(self.path / name)

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Take all room but `leave` bytes."""
        block = bytes(1 << 16)
        with self._ballast.open("ab", buffering=0) as ballast:
            while self.free_bytes > leave:
                try:
                    ballast.write(block[: min(len(block), self.free_bytes - leave)])
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount a small file system. Skip the test where mounting is not permitted."""
    path = folder / "disk"
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MIB}m", "tmpfs", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("this machine has no `mount`")
    if done.returncode:
        pytest.skip(f"nobody may mount a tmpfs here: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def flip(path: Path, at: int = 0) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
