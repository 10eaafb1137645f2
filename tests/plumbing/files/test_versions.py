import sqlite3
from pathlib import Path

import pytest

from penstock.kernel.errors import FormatTooNew, StorageError
from penstock.kernel.formats import CREDENTIALS, KEYSPACE, NODE_STATE, SNAPSHOT, SPOOL_STATE, WAL_SEGMENT, FileKind
from penstock.plumbing.files.versions import check_versions, files_of, version_of


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def magic(kind: FileKind, version: int) -> bytes:
    return kind.magic + version.to_bytes(4, "little") + bytes(100)


@pytest.mark.parametrize("kind", [NODE_STATE, WAL_SEGMENT, SNAPSHOT])
def test_the_version_follows_the_magic(tmp_path: Path, kind: FileKind) -> None:
    assert version_of(kind, put(tmp_path, "a", magic(kind, 7))) == 7
    assert version_of(kind, put(tmp_path, "b", b"something else")) is None
    assert version_of(kind, put(tmp_path, "c", kind.magic)) is None
    assert version_of(kind, tmp_path / "missing") is None


def test_the_version_of_a_database_is_in_its_first_page(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA application_id = {int.from_bytes(KEYSPACE.magic, 'big')}")
        database.execute("PRAGMA user_version = 9")
        database.execute("CREATE TABLE t (x)")
    database.close()
    assert version_of(KEYSPACE, path) == 9
    assert version_of(KEYSPACE, put(tmp_path, "empty", b"")) is None


def test_the_version_of_json_is_a_field(tmp_path: Path) -> None:
    texts = {b'{"version": 3}': 3, b"{}": 1, b"[]": None, b"{": None, b'{"version": "x"}': None}
    assert {text: version_of(CREDENTIALS, put(tmp_path, "x", text)) for text in texts} == texts


def test_versions_that_only_their_owner_reads_are_left_to_it(tmp_path: Path) -> None:
    assert version_of(SPOOL_STATE, put(tmp_path, "state", b"anything")) is None


def test_a_newer_file_of_any_role_is_named(tmp_path: Path) -> None:
    put(tmp_path, "n1/shards/main/state", magic(NODE_STATE, 1))
    put(tmp_path, "n1/shards/main/log/00000000000000000001.wal", magic(WAL_SEGMENT, 1))
    put(tmp_path, "n1/shards/main/snapshots/0.snapshot", b"crc and content of level 0")
    check_versions(tmp_path)
    newer = put(tmp_path, "n1/shards/other/log/00000000000000000009.wal", magic(WAL_SEGMENT, 2))
    for folder in (tmp_path, tmp_path / "n1"):
        with pytest.raises(FormatTooNew, match=f"{newer} \\(WAL segment\\) has version 2"):
            check_versions(folder)


def test_folders_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()
    assert list(files_of(NODE_STATE, tmp_path)) == []
    check_versions(tmp_path)
    with pytest.raises(StorageError, match="cannot be read"):
        version_of(NODE_STATE, tmp_path)
