from pathlib import Path

import pytest

from penstock.journals.broker.spools.state_log import StateLog, boot_id
from penstock.kernel.errors import StorageError


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


def test_a_damaged_record_ends_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    log = StateLog(path, is_synced=True)
    for state in (b"one", b"two", b"three"):
        log.save(state)
    data = bytearray(path.read_bytes())
    data[data.index(b"two")] ^= 1
    path.write_bytes(data)
    assert StateLog(path, is_synced=True).load() == b"one"


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
