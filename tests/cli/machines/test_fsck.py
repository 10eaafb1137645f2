"""`penstock fsck`: its exit status says whether all is well, or damaged, or that it could not look."""

import json
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.plumbing.files.data_folder import enter_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    enter_folder(tmp_path / "data")
    return tmp_path / "data"


def test_it_says_what_is_damaged(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fsck", str(folder)]) == 0
    assert "1 file, clean" in capsys.readouterr().out
    assert run(["fsck", str(tmp_path / "nothing")]) == 3
    assert "could not look" in capsys.readouterr().err
    (folder / "notes.txt").write_text("of a person")
    record = folder / "penstock.json"
    record.write_bytes(record.read_bytes().replace(b'"level": 1', b'"level": 0'))
    assert run(["fsck", str(folder), "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [(each["where"], each["kind"]) for each in found["damages"]] == [("penstock.json", "data folder")]
    assert found["unknown"] == ["notes.txt"]


def test_only_a_person_removes_an_entry_of_the_quarantine(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = folder / "b1/quarantine/20261119T210000Z-spool-0badcafe"
    entry.mkdir(parents=True)
    (entry / "why.json").write_text("{}")
    assert run(["fsck", str(folder)]) == 1
    assert f"in quarantine: b1/quarantine/{entry.name}/why.json" in capsys.readouterr().out.replace("\n", "")
    assert run(["fsck", str(folder), "--forget", "another"]) == 2
    assert entry.name in capsys.readouterr().err.replace("\n", "")
    assert entry.exists()
    assert run(["fsck", str(folder), "--forget", entry.name]) == 0
    assert run(["fsck", str(folder)]) == 0


def test_the_doctor_needs_a_patient(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--set", f"data.folder={tmp_path}"]) == 3
    assert "penstock fsck" in capsys.readouterr().err
