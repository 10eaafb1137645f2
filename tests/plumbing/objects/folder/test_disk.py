"""How a folder's objects survive: failing calls one by one, power cuts after any of them, and odd files."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernel.errors import (
    DiskFull,
    InvalidArgument,
    NotFound,
    ObjectStoreFailed,
    PenstockError,
    PreconditionFailed,
    StorageError,
    Written,
)
from penstock.plumbing.objects.folder.disk import FolderDisk
from penstock.plumbing.objects.folder.syscalls import Syscalls

LOCK_MS_MAX = 10_000


def content(disk: FolderDisk, key: str) -> bytes | None:
    try:
        file, meta = disk.open(key)
    except NotFound:
        return None
    try:
        return os.pread(file, meta.size + 1, 0)
    finally:
        os.close(file)


def left_in_staging(root: Path) -> list[str]:
    return [path.name for path in (root / ".penstock/staging").glob("*/*")]


@contextmanager
def opened(root: Path, syscalls: Syscalls | None = None) -> Iterator[FolderDisk]:
    with closing(FolderDisk(str(root), LOCK_MS_MAX, syscalls)) as disk:
        yield disk


def test_a_put_is_synced_before_it_has_a_name_and_its_name_before_the_answer(tmp_path: Path, watched: Syscalls) -> None:
    with opened(tmp_path, watched) as disk:
        disk.put("a/b", memoryview(b"x"))
        first, watched.calls[:] = watched.calls[:], []  # type: ignore[attr-defined]
        disk.put("a/b", memoryview(b"y"), if_match=disk.open("a/b")[1].etag)
        disk.put("a/c", memoryview(b"z"), if_absent=True)
    write = ["create", "write", "set_modified", "fsync"]
    # The folder is found missing, is made and synced in its parent, and then the file has its name.
    assert first == [*write, "rename", "mkdir", "fsync_folder", "rename", "fsync_folder", "unlink"]
    assert watched.calls == [  # type: ignore[attr-defined]
        *write, "rename", "fsync_folder", "unlink", *write, "link", "fsync_folder", "unlink",
    ]  # fmt: skip


def test_many_are_written_before_the_first_is_synced_and_named_before_their_folder_is(
    tmp_path: Path, watched: Syscalls
) -> None:
    with opened(tmp_path, watched) as disk:
        disk.put("a/b", memoryview(b""))
        watched.calls.clear()  # type: ignore[attr-defined]
        disk.put_many({"a/b": memoryview(b"1"), "a/c": memoryview(b"22"), "d": memoryview(b"")})
        assert [content(disk, key) for key in ("a/b", "a/c", "d")] == [b"1", b"22", b""]
    written = [*["write", "start_writing"] * 2, "start_writing"]
    assert watched.calls == [  # type: ignore[attr-defined]
        *["create"] * 3, *written, *["set_modified", "fsync"] * 3,
        *["rename"] * 2, "fsync_folder", "rename", "fsync_folder", *["unlink"] * 3,
    ]  # fmt: skip


def test_whichever_call_fails_of_many_objects_each_is_old_or_new(
    tmp_path: Path, failing: Callable[[int, int], Syscalls]
) -> None:
    new = {"a/b": b"new", "a/c/d": b"more", "e": b"last"}
    for number in range(1, 100):
        root = tmp_path / str(number)
        with opened(root) as disk:
            disk.put("a/b", memoryview(b"old"))
        syscalls = failing(number, errno.EIO)
        with opened(root, syscalls) as disk:
            try:
                disk.put_many({key: memoryview(data) for key, data in new.items()})
            except ObjectStoreFailed as error:
                failed: ObjectStoreFailed | None = error
            else:
                failed = None
            with opened(root) as other:
                found = {key: content(other, key) for key in new}
        assert left_in_staging(root) == []
        if failed is None:
            assert found == new
            if len(syscalls.calls) < number:  # type: ignore[attr-defined]
                assert number > 20
                return
        elif failed.written is Written.NO:
            assert found == {"a/b": b"old", "a/c/d": None, "e": None}
        else:
            assert all(each in (data, b"old", None) for each, data in zip(found.values(), new.values(), strict=True))
    raise AssertionError("three puts take more calls than they should")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@pytest.mark.parametrize("if_absent", [True, False])
def test_whichever_call_fails_the_object_is_old_or_new_and_the_error_says_which(
    tmp_path: Path, failing: Callable[[int, int], Syscalls], code: int, if_absent: bool
) -> None:
    key, data = "a/b/c", b"new"
    for number in range(1, 100):
        root = tmp_path / str(number)
        before = None if if_absent else b"old"
        if before:
            with opened(root) as disk:
                disk.put(key, memoryview(before))
        syscalls = failing(number, code)
        with opened(root, syscalls) as disk:
            try:
                disk.put(key, memoryview(data), if_absent=if_absent)
            except PenstockError as error:
                failed: PenstockError | None = error
            else:
                failed = None
            with opened(root) as other:
                found = content(other, key)
        assert left_in_staging(root) == []
        if len(syscalls.calls) < number:  # type: ignore[attr-defined]
            assert failed is None
            assert found == data
            assert number > 7
            return
        check_failure(failed, code, found, before, data)
    raise AssertionError("a put takes more calls than it should")


def check_failure(
    failed: PenstockError | None, code: int, found: bytes | None, before: bytes | None, new: bytes
) -> None:
    match failed:
        case None:
            assert found == new  # only the removal of the staging name failed
        case StorageError(written=Written.NO):
            assert found == before
        case StorageError(written=Written.UNKNOWN):
            assert found == new  # it stands, but nobody knows whether it would survive a power cut
        case _:
            raise AssertionError(failed)
    if failed:
        assert isinstance(failed, DiskFull if code == errno.ENOSPC else ObjectStoreFailed)
        assert failed.retryable is (code == errno.EIO)


def test_after_a_folder_could_not_be_synced_nothing_more_is_written(
    tmp_path: Path, failing: Callable[[int, int], Syscalls]
) -> None:
    with opened(tmp_path) as disk:
        disk.put("a", memoryview(b"old"))
    with opened(tmp_path, failing(6, errno.EIO)) as disk:
        with pytest.raises(ObjectStoreFailed) as caught:
            disk.put("a", memoryview(b"new"))
        assert caught.value.written is Written.UNKNOWN
        with pytest.raises(ObjectStoreFailed, match="closed for writing") as caught:
            disk.put("b", memoryview(b"more"))
        assert (caught.value.written, caught.value.retryable) == (Written.NO, False)


class PowerCut(Syscalls):
    """Remembers what would be left if the power failed now: synced content under synced names, and nothing else."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._contents: dict[int, bytes] = {}
        self._names: dict[str, dict[str, int]] = {}

    def fsync(self, file: int) -> None:
        super().fsync(file)
        self._contents[os.fstat(file).st_ino] = Path(f"/proc/self/fd/{file}").read_bytes()

    def fsync_folder(self, path: str) -> None:
        super().fsync_folder(path)
        with os.scandir(path) as found:
            self._names[path] = {entry.name: entry.inode() for entry in found}

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        self._names.pop(path, None)

    def survivors(self, folder: str | None = None) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name, inode in self._names.get(folder or self._root, {}).items():
            path = f"{folder or self._root}/{name}"
            if path in self._names:
                found |= self.survivors(path)
            elif inode in self._contents:
                found[path[len(self._root) + 1 :]] = self._contents[inode]
        return found


KEYS = st.sampled_from(["a", "b/c", "b/d/e", "b/d/f/g", "h/i/j"])
DOINGS = st.sampled_from(["put", "many", "absent", "delete"])
STEPS = st.lists(st.tuples(DOINGS, KEYS, st.binary(max_size=3)), max_size=12)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS)
def test_whatever_was_answered_survives_a_power_cut(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:  # type: ignore[type-arg]
    root = tmp_path_factory.mktemp("power")
    power = PowerCut(root)
    model: dict[str, bytes] = {}
    with opened(root, power) as disk:
        for what, key, data in steps:
            if what == "delete":
                disk.delete([key])
                model.pop(key, None)
            elif what == "many":
                disk.put_many({key: memoryview(data), "b/many": memoryview(data)})
                model |= {key: data, "b/many": data}
            else:
                try:
                    disk.put(key, memoryview(data), if_absent=what == "absent")
                    model[key] = data
                except PreconditionFailed:
                    assert what == "absent"
                    assert key in model
            assert power.survivors() == model


def test_a_version_is_never_taken_for_another_however_fast_they_follow(tmp_path: Path) -> None:
    with opened(tmp_path) as disk:
        etags = [disk.put("a", memoryview(b"same")) for _ in range(50)]
    assert len(set(etags)) == 50


def test_one_key_cannot_be_the_folder_of_another(tmp_path: Path) -> None:
    with opened(tmp_path) as disk:
        disk.put("a/b", memoryview(b""))
        for key in ["a", "a/b/c", "a/b/c/d"]:
            for if_absent in [True, False]:
                with pytest.raises(InvalidArgument, match="folder of another"):
                    disk.put(key, memoryview(b""), if_absent=if_absent)
        disk.delete(["a/b"])
        disk.put("a", memoryview(b"now it can"), if_absent=True)
        assert content(disk, "a") == b"now it can"


def test_deleting_the_last_object_removes_its_folders_but_not_the_root(tmp_path: Path) -> None:
    with opened(tmp_path) as disk:
        disk.put("a/b/c", memoryview(b""))
        disk.put("a/d", memoryview(b""))
        disk.delete(["a/b/c"])
        assert sorted(path.name for path in tmp_path.rglob("*") if ".penstock" not in str(path)) == ["a", "d"]
        disk.delete(["a/d", "a/d", "never/was"])
        assert [path.name for path in tmp_path.iterdir()] == [".penstock"]


@pytest.mark.parametrize("if_absent", [True, False])
def test_empty_folders_left_by_a_crash_are_in_nobody_s_way(tmp_path: Path, if_absent: bool) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    with opened(tmp_path) as disk:
        disk.put("a", memoryview(b"x"), if_absent=if_absent)
        assert content(disk, "a") == b"x"


def test_links_pipes_and_folders_are_no_objects(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(root / "pipe")
    with opened(root) as disk:
        assert [content(disk, key) for key in ["link", "pipe", "folder"]] == [None, None, None]
        disk.delete(["link", "pipe", "folder"])
    assert len(list(root.iterdir())) == 4


def test_a_missing_root_is_an_empty_store_until_the_first_put(tmp_path: Path) -> None:
    root = tmp_path / "not/yet/there"
    with opened(root) as disk:
        assert content(disk, "a") is None
        disk.delete(["a"])
        assert not (tmp_path / "not").exists()
        disk.put("a", memoryview(b"x"))
        assert content(disk, "a") == b"x"


def test_a_root_which_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with opened(tmp_path / "file") as disk, pytest.raises(ObjectStoreFailed) as caught:
        disk.put("a", memoryview(b"x"))
    assert caught.value.written is Written.NO


def test_a_reader_waits_for_a_name_which_is_not_durable_yet(tmp_path: Path) -> None:
    with opened(tmp_path) as disk:
        disk.put("a/b", memoryview(b"x"))
        with (
            closing(FolderDisk(str(tmp_path), 20)) as impatient,
            disk.locks.changing(str(tmp_path / "a")),
            pytest.raises(ObjectStoreFailed, match="kept a lock"),
        ):
            impatient.open("a/b")
        assert content(disk, "a/b") == b"x"
