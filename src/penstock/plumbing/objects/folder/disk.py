"""The local folder, the blocking half: how objects become files, and how that survives a crash.

An object is the file of the same name below the root, so that Spark and every other tool can read it. Changes:

    put, writer   write a file in the staging folder and fsync it; then, holding the folder's lock, give it its name
                  (link where it must be absent, else rename) and fsync the folder; then free the lock, and answer;
                  threads which wait for the same folder do that together (`turns.py`)
    put_many      the same for many: all are written before the first is synced, and named before a folder is
    delete        holding the lock, unlink and fsync the folder; then remove folders which are empty
    read          open, then wait until the folder's lock is free: the opened version is then durable

So a crash at any point leaves the old object or the new one, and readers see neither half an object nor one that a
power cut can take back. What a killed process left in staging is removed by the next one (`staging.py`).
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial
from itertools import groupby

from penstock.kernel.errors import ObjectStoreFailed, PreconditionFailed, Written
from penstock.plumbing.objects.folder.errors import absent, disk_errors, in_the_way
from penstock.plumbing.objects.folder.locks import FolderLocks
from penstock.plumbing.objects.folder.staging import FolderStaging, StagedFile
from penstock.plumbing.objects.folder.syscalls import Syscalls
from penstock.plumbing.objects.folder.turns import FolderTurns
from penstock.plumbing.objects.keys import RESERVED
from penstock.plumbing.objects.port import ETag, ObjectMeta

__all__ = ["FolderDisk", "meta_of"]

_TRIES_MAX = 100  # others may remove our folder as empty each time we have made it
_NO_OBJECT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class FolderDisk:
    """One folder of objects. Blocking; safe to use from several threads, and from several processes at once."""

    def __init__(self, root: str, lock_ms_max: int, syscalls: Syscalls | None = None) -> None:
        self.root = root
        self._calls = syscalls or Syscalls()
        self.locks = FolderLocks(root, lock_ms_max, self._sync_folder)
        self._staging = FolderStaging(f"{root}/{RESERVED}/staging", self.locks, self._calls)
        self._turns = FolderTurns(self.locks.changing, self._sync_folder)
        self._is_prepared = False
        self._failed = False  # a folder's fsync failed: its names may be lost, and another fsync would not report it

    def open(self, key: str) -> tuple[int, ObjectMeta]:
        """The object's file, and its metadata. The file stays that version, whatever happens to the key."""
        file, meta = self.open_early(key)
        try:
            self.settle([key])
        except BaseException:
            os.close(file)
            raise
        return file, meta

    def open_early(self, key: str) -> tuple[int, ObjectMeta]:
        """Open an object that may not be durable yet. To open several objects, call `settle` once at the end."""
        with disk_errors("get", key):
            try:
                file = os.open(self._path(key), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise absent(key) if error.errno in _NO_OBJECT else error from None
            found = os.fstat(file)
            if stat.S_ISREG(found.st_mode):
                return file, meta_of(key, found)
            os.close(file)
            raise absent(key)

    def settle(self, keys: Iterable[str]) -> None:
        """Wait until objects which were opened are durable."""
        for folder, key in {os.path.dirname(self._path(key)): key for key in keys}.items():
            with disk_errors("get", key):
                self.locks.settle(folder)

    def put(self, key: str, data: memoryview, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        """Store an object whole."""
        with closing(self.stage(key)) as staged:
            with disk_errors("put", key):
                staged.write(data)
            return self.publish(staged, key, if_absent=if_absent, if_match=if_match)

    def put_many(self, objects: Mapping[str, memoryview]) -> None:
        """Store objects whole, for a fraction of the syncs. If this fails, some of them may be stored."""
        with ExitStack() as stack:
            staged = {key: stack.enter_context(closing(self.stage(key))) for key in objects}
            for key, data in objects.items():
                with disk_errors("put", key):
                    staged[key].write(data)
                    staged[key].start_writing()
            folders: dict[str, dict[str, Callable[[], bool]]] = {}
            for key, one in staged.items():
                with disk_errors("put", key):
                    one.sync()
                path = self._path(key)
                folders.setdefault(os.path.dirname(path), {})[key] = partial(self._give_name, one.path, path, key)
            written = Written.NO
            for folder, gives in folders.items():
                self._give_names(folder, gives, written)
                written = Written.UNKNOWN

    def copy(self, source: str, target: str) -> None:
        """Store an object under another key too."""
        file, meta = self.open(source)
        try:
            with closing(self.stage(target)) as staged:
                with disk_errors("copy", source):
                    staged.copy_from(file, meta.size)
                self.publish(staged, target)
        finally:
            os.close(file)

    def stage(self, key: str) -> StagedFile:
        """A file to write the object into."""
        self._check_writable()
        with disk_errors("put", key):
            self._prepare()
            return self._staging.new()

    def publish(self, staged: StagedFile, key: str, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        """Make a staged file the object of the key. On return it is durable, and cannot be half there before."""
        with disk_errors("put", key):
            etag = _etag(staged.sync())
        path = self._path(key)
        give = partial(self._give_name, staged.path, path, key, if_absent=if_absent, if_match=if_match)
        self._give_names(os.path.dirname(path), {key: give})
        return etag

    def _give_names(self, folder: str, gives: Mapping[str, Callable[[], bool]], written: Written = Written.NO) -> None:
        """Give synced files their names in one folder, which is made if it is missing. `written` is of those before."""
        for _ in range(_TRIES_MAX):
            answers = dict(zip(gives, self._turns.give(folder, gives.values()), strict=True))
            if any(is_given for is_given, _ in answers.values()):
                written = Written.UNKNOWN
            for key, (_, error) in answers.items():
                with disk_errors("put", key, written=written):
                    if error is not None:
                        raise error
            gives = {key: give for key, give in gives.items() if not answers[key][0]}
            if not gives:
                return
            with disk_errors("put", next(iter(gives)), written=written):
                self._make_folder(folder, next(iter(gives)))
        key = next(iter(gives))
        raise ObjectStoreFailed(
            f"put {key!r}: its folder was removed {_TRIES_MAX} times meanwhile", written=written, key=key
        )

    def _give_name(
        self, staged: str, path: str, key: str, *, if_absent: bool = False, if_match: ETag | None = None
    ) -> bool:
        """Under the folder's lock: whether the object has its name now. Not if the folder is missing."""
        try:
            if if_absent:
                self._calls.link(staged, path)
            else:
                if if_match is not None and self._current_etag(path) != if_match:
                    raise PreconditionFailed(f"put {key!r}: its content is not {if_match}", key=key)
                self._calls.rename(staged, path)
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise in_the_way(key) from None
        except (FileExistsError, IsADirectoryError):
            if not os.path.isdir(path):
                raise PreconditionFailed(f"put {key!r}: there is an object already", key=key) from None
            self._remove_empty(path, key)
            return False
        return True

    def _remove_empty(self, folder: str, key: str) -> None:
        """Remove folders in which there is nothing but folders: a crash during a delete can leave them."""
        try:
            for path, _, _ in os.walk(folder, topdown=False):
                self._calls.rmdir(path)
        except OSError:
            raise in_the_way(key) from None

    def _current_etag(self, path: str) -> ETag | None:
        try:
            found = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return _etag(found) if stat.S_ISREG(found.st_mode) else None

    def _sync_folder(self, folder: str) -> None:
        """Make the names in a folder durable. Until this returns, they may not survive a power cut."""
        try:
            self._calls.fsync_folder(folder)
        except OSError:
            self._failed = True
            raise

    def _check_writable(self) -> None:
        if self._failed:
            raise ObjectStoreFailed(
                f"{self.root} is closed for writing since an fsync failed",
                retryable=False,
                next_step="look at the kernel's log and the disk, then start again",
            )

    def _make_folder(self, folder: str, key: str) -> None:
        """Make a folder and those above it, each durable before anything is put into it."""
        path = self.root
        for segment in folder[len(self.root) + 1 :].split("/") if folder != self.root else ():
            parent, path = path, f"{path}/{segment}"
            if os.path.isdir(path):
                continue
            with self.locks.changing(parent, path):
                try:
                    self._calls.mkdir(path)
                except FileExistsError:
                    if not os.path.isdir(path):
                        raise in_the_way(key) from None
                except NotADirectoryError:
                    raise in_the_way(key) from None
                except FileNotFoundError:
                    return  # another process removed the parent as empty: begin again
                self._sync_folder(parent)

    def _prepare(self) -> None:
        """Make the root, and what we keep in it."""
        if self._is_prepared:
            return
        missing = []
        path = self.root
        while not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for path in reversed(missing):
            os.makedirs(path, exist_ok=True)
            self._sync_folder(os.path.dirname(path))
        self.locks.create()
        self._is_prepared = True

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; a missing one is no error."""
        if not os.path.isdir(self.root):
            return
        self._check_writable()
        with disk_errors("delete", self.root):
            self._prepare()
        for folder, paths in groupby(sorted(map(self._path, keys), key=_folder_first), key=os.path.dirname):
            first, *others = paths
            with disk_errors("delete", first[len(self.root) + 1 :], written=Written.UNKNOWN):
                self._delete_in(folder, [first, *others])
                self._prune(folder)

    def _delete_in(self, folder: str, paths: Iterable[str]) -> None:
        with self.locks.changing(folder):
            found = [path for path in paths if self._unlink(path)]
            if found:
                self._sync_folder(folder)

    def _unlink(self, path: str) -> bool:
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                self._calls.unlink(path)
                return True
        except (FileNotFoundError, NotADirectoryError):
            pass
        return False

    def _prune(self, folder: str) -> None:
        """Remove folders which are empty. The lock keeps a folder while another thread or process puts a name
        into it.
        """
        while folder != self.root:
            with self.locks.changing(folder):
                try:
                    self._calls.rmdir(folder)
                except OSError:
                    return  # not empty, or gone, or no folder
            folder = os.path.dirname(folder)

    def close(self) -> None:
        self._staging.close()

    def _path(self, key: str) -> str:
        return f"{self.root}/{key}"


def meta_of(key: str, found: os.stat_result) -> ObjectMeta:
    modified = datetime.fromtimestamp(found.st_mtime_ns // 1_000 / 1_000_000, UTC)
    return ObjectMeta(key, found.st_size, _etag(found), modified)


def _etag(found: os.stat_result) -> ETag:
    return ETag(f'"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"')


def _folder_first(path: str) -> tuple[str, str]:
    return os.path.dirname(path), path
