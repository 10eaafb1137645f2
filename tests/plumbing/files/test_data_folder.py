import json
from pathlib import Path

import pytest

from penstock.kernel.errors import DataDamaged, FormatTooNew
from penstock.kernel.formats import KINDS
from penstock.kernel.version import LEVEL_MAX, LEVEL_MIN, VERSION, Release
from penstock.plumbing.files.data_folder import FolderRecord, check_folder, enter_folder, read_record
from penstock.plumbing.files.sealed import write_sealed

FORMATS = {kind.name: kind.version for kind in KINDS}
NEWER = Release("9.0", LEVEL_MAX, LEVEL_MAX + 1)


def test_a_new_folder_gets_a_record(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert check_folder(folder) is None
    assert not folder.exists()
    record = FolderRecord(VERSION, VERSION, LEVEL_MIN, FORMATS)
    assert enter_folder(folder) == read_record(folder) == check_folder(folder) == record


def test_the_level_never_falls(tmp_path: Path) -> None:
    assert enter_folder(tmp_path, level=LEVEL_MAX).level == LEVEL_MAX
    assert enter_folder(tmp_path).level == LEVEL_MAX
    assert enter_folder(tmp_path, level=LEVEL_MIN).level == LEVEL_MAX


def test_releases_may_alternate_until_the_level_rises(tmp_path: Path) -> None:
    enter_folder(tmp_path, level=LEVEL_MAX)
    assert enter_folder(tmp_path, release=NEWER).last_release == "9.0"
    assert enter_folder(tmp_path) == FolderRecord(VERSION, VERSION, LEVEL_MAX, FORMATS)
    enter_folder(tmp_path, level=NEWER.level_max, release=NEWER)
    before = (tmp_path / "penstock.json").read_bytes()
    with pytest.raises(FormatTooNew, match=f"is of level {NEWER.level_max}, last written by Penstock 9.0"):
        enter_folder(tmp_path)
    assert (tmp_path / "penstock.json").read_bytes() == before


def test_a_folder_of_two_levels_ago_is_refused(tmp_path: Path) -> None:
    enter_folder(tmp_path, level=LEVEL_MIN)
    with pytest.raises(FormatTooNew, match=f"speaks levels {LEVEL_MAX + 1} to"):
        check_folder(tmp_path, Release("9.0", LEVEL_MAX + 1, LEVEL_MAX + 2))


@pytest.mark.parametrize("formats", [{"WAL segment": 2}, {"a kind of the future": 1}])
def test_a_format_of_the_future_is_refused(tmp_path: Path, formats: dict[str, int]) -> None:
    from penstock.kernel.formats import DATA_FOLDER

    fields = {"first_release": "1", "last_release": "2", "level": LEVEL_MAX, "formats": {**FORMATS, **formats}}
    write_sealed(DATA_FOLDER, tmp_path / "penstock.json", fields)
    with pytest.raises(FormatTooNew, match=next(iter(formats))):
        enter_folder(tmp_path)


def test_a_record_that_somebody_edited_is_refused(tmp_path: Path) -> None:
    enter_folder(tmp_path)
    path = tmp_path / "penstock.json"
    path.write_text(path.read_text().replace(f'"level": {LEVEL_MIN}', '"level": 7'))
    with pytest.raises(DataDamaged, match="its sum is"):
        enter_folder(tmp_path)
    path.write_text(json.dumps({"version": 1, "level": "x"}))
    with pytest.raises(DataDamaged, match=str(path)):
        enter_folder(tmp_path)
