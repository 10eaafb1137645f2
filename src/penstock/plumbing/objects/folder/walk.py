"""Listings of the local folder, in the order of the keys.

A folder named `b` sorts as `b/`, for that is how its keys begin: `b.txt` comes before `b/c`, and that before `b0`.
"""

import os
import stat
from collections.abc import Iterator

from penstock.plumbing.objects.folder.disk import FolderDisk, meta_of
from penstock.plumbing.objects.keys import RESERVED, is_key
from penstock.plumbing.objects.listing import Entry
from penstock.plumbing.objects.port import ObjectMeta

__all__ = ["folder_entries", "walk"]


def walk(disk: FolderDisk, prefix: str, after: str) -> Iterator[ObjectMeta]:
    """Every object below a folder behind `after`. Holds the names of one folder per level, no more."""
    for name, is_folder in _names(disk, prefix):
        if is_folder:
            folder = name + "/"
            if folder > after or after.startswith(folder):
                yield from walk(disk, folder, after)
        elif name > after:
            meta = _meta(disk, name)
            if meta is not None:
                yield meta


def folder_entries(disk: FolderDisk, prefix: str) -> Iterator[Entry]:
    """Yield the entries directly in a folder."""
    for name, is_folder in _names(disk, prefix):
        if not is_folder:
            meta = _meta(disk, name)
            if meta is not None:
                yield name, meta
        elif any(True for _ in walk(disk, name + "/", "")):  # an empty folder is none
            yield name + "/", None


def _names(disk: FolderDisk, prefix: str) -> list[tuple[str, bool]]:
    """Keys and sub-folders, sorted as keys. Links, devices and names which are no keys are not ours."""
    folder = f"{disk.root}/{prefix}".rstrip("/")
    try:
        with os.scandir(folder) as found:
            entries = [(prefix + entry.name, entry.is_dir(follow_symlinks=False)) for entry in found if _is_ours(entry)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    disk.locks.settle(folder)
    names = [(name, is_folder) for name, is_folder in entries if name != RESERVED and is_key(name)]
    return sorted(names, key=lambda entry: entry[0] + "/" if entry[1] else entry[0])


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)


def _meta(disk: FolderDisk, key: str) -> ObjectMeta | None:
    try:
        found = os.lstat(f"{disk.root}/{key}")
    except (FileNotFoundError, NotADirectoryError):
        return None  # deleted meanwhile
    return meta_of(key, found) if stat.S_ISREG(found.st_mode) else None
