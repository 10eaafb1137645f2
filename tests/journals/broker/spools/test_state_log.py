import contextlib
import struct
from pathlib import Path

import pytest
from tests.journals.broker.disks import flip, small_disk

from penstock.journals.broker.spools.state_log import StateLog
from penstock.kernel.errors import FormatTooNew, StorageError
from penstock.plumbing.ports.ports import system_ports
from penstock.plumbing.wal.checksum import crc32c

DISK = system_ports().disk


@pytest.mark.parametrize("is_synced", [True, False])
def test_the_last_state_is_the_one_that_counts(tmp_path: Path, is_synced: bool) -> None:
    log = StateLog(DISK, tmp_path / "state", is_synced=is_synced, boot=b"monday")
    assert log.load() is None
    for number in range(5):
        log.save(f"state {number}".encode())
    log.close()
    again = StateLog(DISK, tmp_path / "state", is_synced=is_synced, boot=b"monday")
    assert again.load() == b"state 4"
    again.save(b"another run")
    assert StateLog(DISK, tmp_path / "state", is_synced=is_synced, boot=b"monday").load() == b"another run"


def test_what_was_not_synced_ends_with_the_boot(tmp_path: Path) -> None:
    StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"monday").save(b"x")
    assert StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"monday").load() == b"x"
    assert StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"tuesday").load() is None
    StateLog(DISK, tmp_path / "state", is_synced=True, boot=b"monday").save(b"y")
    assert StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"tuesday").load() == b"y"


def test_a_machine_which_does_not_name_its_boots_trusts_nothing_unsynced(tmp_path: Path) -> None:
    StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"").save(b"x")
    assert StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"").load() is None


@pytest.mark.parametrize("lost", range(1, 20))
def test_a_torn_record_leaves_the_one_before(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "state"
    log = StateLog(DISK, path, is_synced=True, boot=b"monday")
    log.save(b"first state")
    log.save(b"other state")
    path.write_bytes(path.read_bytes()[:-lost])
    assert StateLog(DISK, path, is_synced=True, boot=b"monday").load() == (b"first state" if lost < 20 else None)


@pytest.mark.parametrize("damaged", [b"one", b"two"])
def test_damage_before_the_last_record_hides_nothing(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "state"
    log = StateLog(DISK, path, is_synced=True, boot=b"monday")
    for state in (b"one", b"two", b"three"):
        log.save(state)
    data = path.read_bytes()
    for at in range(data.index(damaged) - 8, data.index(damaged) + len(damaged)):
        path.write_bytes(data)
        flip(path, at)
        assert StateLog(DISK, path, is_synced=True, boot=b"monday").load() == b"three", "every record is a whole state"


@pytest.mark.parametrize("at", range(-11, 0))
def test_a_flipped_bit_in_the_last_record_is_no_torn_tail(tmp_path: Path, at: int) -> None:
    """The state before it would lose later acknowledged appends in silence."""
    path = tmp_path / "state"
    log = StateLog(DISK, path, is_synced=True, boot=b"monday")
    log.save(b"old")
    log.save(b"new")
    flip(path, path.stat().st_size + at)
    again = StateLog(DISK, path, is_synced=True, boot=b"monday")
    if at < -7:
        assert again.load() == b"new", "its length is damaged, and its content is whole"
    else:
        assert again.load() is None
        assert again.problem == "the last record of its state is damaged"


@pytest.mark.parametrize("sector", [0, 1, 2])
def test_a_sector_which_never_reached_the_disk_is_a_torn_tail(tmp_path: Path, sector: int) -> None:
    path = tmp_path / "state"
    log = StateLog(DISK, path, is_synced=True, boot=b"monday")
    log.save(b"first state")
    at = path.stat().st_size
    log.save(b"x" * 1_500)
    data = bytearray(path.read_bytes())
    begin, end = max(at, 512 * sector), min(len(data), 512 * (sector + 1))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    assert StateLog(DISK, path, is_synced=True, boot=b"monday").load() == b"first state"


def test_the_first_record_says_which_release_wrote_the_log(tmp_path: Path) -> None:
    path = tmp_path / "state"
    record = b"spool 7 synced"
    path.write_bytes(struct.pack("<II", len(record), crc32c(record)) + record)
    before = path.read_bytes()
    with pytest.raises(FormatTooNew, match="spool 7"):
        StateLog(DISK, path, is_synced=True, boot=b"monday").load()
    assert path.read_bytes() == before


def test_a_log_which_cannot_be_begun_anew_goes_on_in_the_old_one(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        log = StateLog(DISK, disk.path / "state", is_synced=True, boot=b"monday")
        state = b"s" * 100_000
        for _ in range(11):
            log.save(state)
        log.reserve()
        disk.fill()
        log.save(state + b"!")
        assert (disk.path / "state").stat().st_size > 1 << 20, "it would have been begun anew"
        log.close()
        assert StateLog(DISK, disk.path / "state", is_synced=True, boot=b"monday").load() == state + b"!"


def test_room_for_states_is_asked_for_before_it_is_needed(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        log = StateLog(DISK, disk.path / "state", is_synced=True, boot=b"monday")
        log.save(b"first")
        log.reserve()
        disk.fill()
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                log.reserve()
                log.save(b"s" * 300)
        with pytest.raises(OSError, match="No space"):
            log.reserve()
        for number in range(7):
            log.save(b"%300d" % number)
        log.close()
        assert StateLog(DISK, disk.path / "state", is_synced=True, boot=b"monday").load() == b"%300d" % 6


def test_a_long_log_is_begun_anew(tmp_path: Path) -> None:
    log = StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"monday")
    for number in range(40):
        log.save(bytes([number]) * 100_000)
    assert (tmp_path / "state").stat().st_size < 1_400_000
    assert StateLog(DISK, tmp_path / "state", is_synced=False, boot=b"monday").load() == bytes([39]) * 100_000


def test_removed_is_removed(tmp_path: Path) -> None:
    log = StateLog(DISK, tmp_path / "state", is_synced=True, boot=b"monday")
    log.save(b"x")
    log.remove()
    assert StateLog(DISK, tmp_path / "state", is_synced=True, boot=b"monday").load() is None
    log.save(b"y")
    assert StateLog(DISK, tmp_path / "state", is_synced=True, boot=b"monday").load() == b"y"


def test_a_folder_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(StorageError):
        StateLog(DISK, tmp_path / "state", is_synced=True, boot=b"monday").load()


def test_the_machine_names_its_boot() -> None:
    assert len(system_ports().clock.boot()) == 36
