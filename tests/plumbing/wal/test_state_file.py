import errno
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plumbing.wal.disks import FaultyDisk, How, UnsyncedDisk

from penstock.kernel.errors import DiskFull, FormatTooNew, LimitExceeded, StorageError, WalCorrupt, Written
from penstock.plumbing.wal import StateFile
from penstock.plumbing.wal.checksum import crc32c
from penstock.plumbing.wal.state_file import STATE_BYTES_MAX


def test_there_is_none_before_the_first(tmp_path: Path) -> None:
    assert StateFile(tmp_path / "state").load() is None
    assert StateFile(tmp_path / "no folder" / "state").load() is None


def test_the_last_one_saved_is_loaded(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "new folder" / "state")
    for state in (b"one", b"", b"three" * 1000):
        file.save(state)
        assert file.load() == StateFile(file.path).load() == state
    assert [path.name for path in file.path.parent.iterdir()] == ["state"]


def test_the_bytes_are_as_documented(tmp_path: Path) -> None:
    StateFile(tmp_path / "state", UnsyncedDisk()).save(b"abc")
    head = b"PENSTATE" + (1).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    assert (tmp_path / "state").read_bytes() == head + crc32c(head).to_bytes(4, "little")


def test_any_cut_and_any_changed_bit_is_damage(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state", UnsyncedDisk())
    file.save(b"epoch 7")
    data = file.path.read_bytes()
    for end in range(len(data)):
        file.path.write_bytes(data[:end])
        with pytest.raises(WalCorrupt, match=str(file.path)):
            file.load()
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        file.path.write_bytes(changed)
        with pytest.raises(WalCorrupt):
            file.load()


@given(st.binary(max_size=60))
def test_bytes_of_something_else_are_damage(data: bytes) -> None:
    with pytest.raises(WalCorrupt):
        StateFile(Path("state"))._decode(data)


def test_a_state_of_another_version_is_refused(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state", UnsyncedDisk())
    head = b"PENSTATE" + (2).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    file.path.write_bytes(head + crc32c(head).to_bytes(4, "little"))
    with pytest.raises(FormatTooNew, match="has version 2"):
        file.load()


def test_one_too_large_is_refused(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state", UnsyncedDisk())
    with pytest.raises(LimitExceeded):
        file.save(bytes(STATE_BYTES_MAX + 1))
    file.save(bytes(STATE_BYTES_MAX))
    assert file.load() == bytes(STATE_BYTES_MAX)


SAVING = ["mkdir", "create", "pwrite", "fdatasync", "close", "rename", "fsync_folder"]


@pytest.mark.parametrize("how", How)
@pytest.mark.parametrize("number", range(2, len(SAVING) + 1))
def test_whichever_call_fails_the_old_or_the_new_is_there(tmp_path: Path, number: int, how: How) -> None:
    StateFile(tmp_path / "state", UnsyncedDisk()).save(b"old")
    disk = FaultyDisk(UnsyncedDisk(), number, once=True, how=how, code=errno.ENOSPC)
    with pytest.raises(DiskFull) as caught:
        StateFile(tmp_path / "state", disk).save(b"new")
    found = StateFile(tmp_path / "state").load()
    assert found == b"old" or (found == b"new" and caught.value.written is Written.UNKNOWN)
    StateFile(tmp_path / "state", UnsyncedDisk()).save(b"newer")
    assert StateFile(tmp_path / "state").load() == b"newer"


def test_a_state_is_durable_before_it_gets_its_name(tmp_path: Path) -> None:
    disk = FaultyDisk(UnsyncedDisk())
    StateFile(tmp_path / "state", disk).save(b"new")
    assert disk.calls == SAVING


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_state_which_cannot_be_read_is_an_error(tmp_path: Path, number: int) -> None:
    StateFile(tmp_path / "state", UnsyncedDisk()).save(b"abc")
    disk = FaultyDisk(UnsyncedDisk(), number, once=True)
    with pytest.raises(StorageError, match="reading"):
        StateFile(tmp_path / "state", disk).load()
    assert disk.calls[-1] == ("open" if number == 1 else "close")
