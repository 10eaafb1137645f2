"""A data folder with one file of a newer release is refused by name, and not one byte of it changes (D23)."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.ups import UpProcess

from penstock.kernel.formats import CREDENTIALS, DATA_FOLDER, KEYSPACE, KINDS, SNAPSHOT, FileKind, VersionPlace
from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.plumbing.files.versions import files_of
from penstock.plumbing.ports.disk import LocalDisk
from penstock.quorum.node.snapshots import Snapshots

KINDS_OF_FILES = [kind for kind in KINDS if kind.header in (VersionPlace.MAGIC, VersionPlace.SQLITE, VersionPlace.JSON)]
ENVIRONMENT = {"PENSTOCK_WIRE_LISTEN": "127.0.0.1:0", "PENSTOCK_LAKE_LISTEN": "127.0.0.1:0"}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder that `penstock up` has used, with a file of each kind."""
    folder = tmp_path_factory.mktemp("used") / "data"
    os.environ["PENSTOCK_WAL_SEGMENT_BYTES"] = "1MiB"
    try:
        with UpProcess(folder) as process:
            process.signal(signal.SIGTERM)
    finally:
        del os.environ["PENSTOCK_WAL_SEGMENT_BYTES"]
    Snapshots(folder / "n1/shards/main/snapshots", LocalDisk())._take(
        EntryId(Epoch(1), Offset(1)), b"content", SNAPSHOT.version
    )
    (folder / CREDENTIALS.where).write_text('{"version": 1, "access_key_id": "A", "secret_access_key": "S"}')
    yield folder
    shutil.rmtree(folder)


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_newer(kind: FileKind, path: Path) -> None:
    """Write the next version into the header of a file, as a release of the future would."""
    with path.open("r+b") as file:
        match kind.header:
            case VersionPlace.MAGIC:
                file.seek(8)
                file.write((kind.version + 1).to_bytes(4, "little"))
            case VersionPlace.SQLITE:
                file.seek(60)
                file.write((kind.version + 1).to_bytes(4, "big"))
            case VersionPlace.JSON:
                fields = {**json.load(file), "version": kind.version + 1}
                file.seek(0)
                file.truncate()
                file.write(json.dumps(fields).encode())
            case _:
                raise AssertionError(kind)


def start(folder: Path) -> tuple[int, str]:
    """Start `penstock up` on a folder that it must refuse; return its exit status and its last words."""
    command = [sys.executable, "-m", "penstock", "up", "--set", f"data.folder={folder}"]
    ended = subprocess.run(
        command, env={**os.environ, **ENVIRONMENT}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("kind", KINDS_OF_FILES, ids=[kind.where for kind in KINDS_OF_FILES])
def test_a_newer_file_is_refused_and_no_byte_changes(used: Path, tmp_path: Path, kind: FileKind) -> None:
    folder = tmp_path / "data"
    shutil.copytree(used, folder)
    path = next(files_of(kind, folder))
    make_newer(kind, path)
    before = content_of(folder)
    status, said = start(folder)
    assert (status, f"({kind.name}) has version {kind.version + 1}" in said.replace("\n", "")) == (1, True), said
    assert "no byte was changed" in said
    assert content_of(folder) == before


def test_a_folder_of_a_later_level_is_refused(used: Path, tmp_path: Path) -> None:
    from penstock.kernel.version import LEVEL_MAX, Release
    from penstock.plumbing.files.data_folder import enter_folder

    folder = tmp_path / "data"
    shutil.copytree(used, folder)
    enter_folder(folder, level=LEVEL_MAX)
    enter_folder(folder, level=LEVEL_MAX + 1, release=Release("9.0", LEVEL_MAX, LEVEL_MAX + 1))
    before = content_of(folder)
    status, said = start(folder)
    assert (status, f"of level {LEVEL_MAX + 1}, last written by Penstock 9.0" in said) == (1, True), said
    assert content_of(folder) == before


def test_the_kinds_are_where_they_say(used: Path) -> None:
    """Each kind has a file in a folder that was used, and each file at a kind's place has its version."""
    assert [kind.name for kind in KINDS_OF_FILES if not list(files_of(kind, used))] == []
    assert {DATA_FOLDER, KEYSPACE} <= set(KINDS_OF_FILES)
