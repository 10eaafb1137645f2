"""A Spool that was saved comes back whole, through every loss of power: `recover(save(x)) == x`."""

import errno

import pytest
from tests.journals.broker.spools.test_spool_files import content_at, fragment_of, point_of, state_of
from tests.lab.world.inside import new_process

from penstock.journals.broker.spools.spool_files import Keeps, SpoolFiles
from penstock.journals.core.spool import SpoolState
from penstock.kernel.errors import DiskFull, StorageError
from penstock.kernel.ids import Offset
from penstock_lab.world.process import FOLDER, Life

JOURNAL = "shop/orders"
SPOOLS = FOLDER / "spools"


def opened(life: Life) -> tuple[SpoolFiles, SpoolState | None]:
    life.disk.make_folders(SPOOLS)
    life.disk.fsync_folder(FOLDER)  # as a broker does at its start
    files, recovered = SpoolFiles.open(life.ports, SPOOLS, JOURNAL, Keeps.ALWAYS)
    return files, recovered.state if recovered is not None else None


def saved(files: SpoolFiles, state: SpoolState) -> None:
    work = files.prepare_save(state)
    work.run()
    work.end()


def again(life: Life) -> Life:
    life.machine.lose_power()
    life.machine.lives += 1
    life.machine.process = Life(life.machine, lambda _: None)
    return life.machine.process


@pytest.mark.parametrize("seed", range(8))
def test_a_saved_spool_survives_every_loss_of_power(seed: int) -> None:
    life = new_process(seed)
    files, _ = opened(life)
    empty = state_of(point_of(0, b""))
    saved(files, empty)
    life = again(life)
    files, found = opened(life)
    assert found == empty, "a state without content is a state, too"

    files.reserve(5)  # as a broker does before it takes content
    files.write(b"first")
    saved(files, state_of(point_of(0, b"first")))
    life = again(life)
    files, found = opened(life)
    assert found == state_of(point_of(0, b"first"))
    assert content_at(files, 0) == b"first"

    files.roll(point_of(5, b""))
    files.reserve(6)
    files.write(b"second")
    state = state_of(point_of(0, b"first"), point_of(5, b"second"))
    saved(files, state)
    files, found = opened(again(life))
    assert found == state
    assert (content_at(files, 0), content_at(files, 5)) == (b"first", b"second")


@pytest.mark.parametrize(("code", "error"), [(errno.EIO, StorageError), (errno.ENOSPC, DiskFull)])
def test_names_that_cannot_be_synced_are_an_error_of_the_disk(code: int, error: type[StorageError]) -> None:
    life = new_process()
    files, _ = opened(life)

    def script(operation: str, path: str) -> int:
        return code if operation == "fsync_folder" and path.endswith("#spool") else 0

    life.disk.files.trouble.script = script
    with pytest.raises(error, match="syncing names"):
        saved(files, state_of(point_of(0, b"")))


@pytest.mark.parametrize("postfix", ["", "date=2026-11-19"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_fragment_is_finished_on_a_full_disk(postfix: str, code: int) -> None:
    """Seen by a mutant of the world: no room for the folder `final` ended the replica with a raw error."""
    life = new_process()
    files, _ = opened(life)
    files.reserve(100)
    files.write(b"first")
    saved(files, state_of(point_of(0, b"first")))
    life.machine.files.trouble.is_full, life.machine.files.trouble.full_code = True, code
    fragment = fragment_of(0, b"first", postfix)
    files.finish(fragment).release()
    assert files.fragments() == [fragment]
    life.machine.files.trouble.heal()
    saved(files, state_of(point_of(5, b"")))
    files, _ = opened(again(life))
    assert [(each.begin, each.end, each.sum) for each in files.fragments()] == [(0, 5, fragment.sum)]


def test_content_that_cannot_be_set_aside_is_an_error_of_the_disk() -> None:
    life = new_process()
    files, _ = opened(life)
    files.reserve(100)
    files.write(b"first")
    life.machine.files.trouble.is_full = True
    with pytest.raises(DiskFull, match="setting aside"):
        files.set_aside(fragment_of(0, b"first"), Offset(2))
