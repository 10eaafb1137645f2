import contextlib
import struct
from pathlib import Path

import pytest
from tests.journals.broker.disks import flip, small_disk

from penstock.journals.broker.spools.state_log import StateLog, boot_id
from penstock.kernel.errors import FormatTooNew, StorageError
from penstock.plumbing.wal.checksum import crc32c


@pytest.mark.parametrize("is_synced", [True, False])
def test_the_last_state_is_the_one_that_counts(tmp_path: Path, is_synced: bool) -> None:
    log = StateLog(tmp_path / "state", is_synced=is_synced)
    assert log.load() is None
    for number in range(5):
        log.save(f"state {number}".encode())
    log.close()
    again = StateLog(tmp_path / "state", is_synced=is_synced)
    assert again.load() == b"state 4"
    again.save(b"another run")
    assert StateLog(tmp_path / "state", is_synced=is_synced).load() == b"another run"


def test_what_was_not_synced_ends_with_the_boot(tmp_path: Path) -> None:
    StateLog(tmp_path / "state", is_synced=False, boot=b"monday").save(b"x")
    assert StateLog(tmp_path / "state", is_synced=False, boot=b"monday").load() == b"x"
    assert StateLog(tmp_path / "state", is_synced=False, boot=b"tuesday").load() is None
    StateLog(tmp_path / "state", is_synced=True, boot=b"monday").save(b"y")
    assert StateLog(tmp_path / "state", is_synced=False, boot=b"tuesday").load() == b"y"


def test_a_machine_which_does_not_name_its_boots_trusts_nothing_unsynced(tmp_path: Path) -> None:
    StateLog(tmp_path / "state", is_synced=False, boot=b"").save(b"x")
    assert StateLog(tmp_path / "state", is_synced=False, boot=b"").load() is None


@pytest.mark.parametrize("lost", range(1, 20))
def test_a_torn_record_leaves_the_one_before(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "state"
    log = StateLog(path, is_synced=True)
    log.save(b"first state")
    log.save(b"other state")
    path.write_bytes(path.read_bytes()[:-lost])
    assert StateLog(path, is_synced=True).load() == (b"first state" if lost < 20 else None)


@pytest.mark.parametrize("damaged", [b"one", b"two"])
def test_damage_before_the_last_record_hides_nothing(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "state"
    log = StateLog(path, is_synced=True)
    for state in (b"one", b"two", b"three"):
        log.save(state)
    data = path.read_bytes()
    for at in range(data.index(damaged) - 8, data.index(damaged) + len(damaged)):
        path.write_bytes(data)
        flip(path, at)
        assert StateLog(path, is_synced=True).load() == b"three", "every record is a whole state"


@pytest.mark.parametrize("at", range(-11, 0))
def test_a_flipped_bit_in_the_last_record_is_no_torn_tail(tmp_path: Path, at: int) -> None:
    """The state before it would lose later acknowledged appends in silence."""
    path = tmp_path / "state"
    log = StateLog(path, is_synced=True)
    log.save(b"old")
    log.save(b"new")
    flip(path, path.stat().st_size + at)
    again = StateLog(path, is_synced=True)
    if at < -7:
        assert again.load() == b"new", "its length is damaged, and its content is whole"
    else:
        assert again.load() is None
        assert again.problem == "the last record of its state is damaged"


@pytest.mark.parametrize("sector", [0, 1, 2])
def test_a_sector_which_never_reached_the_disk_is_a_torn_tail(tmp_path: Path, sector: int) -> None:
    path = tmp_path / "state"
    log = StateLog(path, is_synced=True)
    log.save(b"first state")
    at = path.stat().st_size
    log.save(b"x" * 1_500)
    data = bytearray(path.read_bytes())
    begin, end = max(at, 512 * sector), min(len(data), 512 * (sector + 1))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)
    assert StateLog(path, is_synced=True).load() == b"first state"


def test_the_first_record_says_which_release_wrote_the_log(tmp_path: Path) -> None:
    path = tmp_path / "state"
    record = b"spool 7 synced"
    path.write_bytes(struct.pack("<II", len(record), crc32c(record)) + record)
    before = path.read_bytes()
    with pytest.raises(FormatTooNew, match="spool 7"):
        StateLog(path, is_synced=True).load()
    assert path.read_bytes() == before


def test_a_log_which_cannot_be_begun_anew_goes_on_in_the_old_one(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        log = StateLog(disk.path / "state", is_synced=True)
        state = b"s" * 100_000
        for _ in range(11):
            log.save(state)
        log.reserve()
        disk.fill()
        log.save(state + b"!")
        assert (disk.path / "state").stat().st_size > 1 << 20, "it would have been begun anew"
        log.close()
        assert StateLog(disk.path / "state", is_synced=True).load() == state + b"!"


def test_room_for_states_is_asked_for_before_it_is_needed(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        log = StateLog(disk.path / "state", is_synced=True)
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
        assert StateLog(disk.path / "state", is_synced=True).load() == b"%300d" % 6


def test_a_long_log_is_begun_anew(tmp_path: Path) -> None:
    log = StateLog(tmp_path / "state", is_synced=False)
    for number in range(40):
        log.save(bytes([number]) * 100_000)
    assert (tmp_path / "state").stat().st_size < 1_400_000
    assert StateLog(tmp_path / "state", is_synced=False).load() == bytes([39]) * 100_000


def test_removed_is_removed(tmp_path: Path) -> None:
    log = StateLog(tmp_path / "state", is_synced=True)
    log.save(b"x")
    log.remove()
    assert StateLog(tmp_path / "state", is_synced=True).load() is None
    log.save(b"y")
    assert StateLog(tmp_path / "state", is_synced=True).load() == b"y"


def test_a_folder_in_the_way_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(StorageError):
        StateLog(tmp_path / "state", is_synced=True).load()


def test_the_machine_names_its_boot() -> None:
    assert len(boot_id()) == 36
