"""The connection is set up so that the store never forgets."""

from pathlib import Path

import pytest

from penstock.kernel.errors import KeySpaceForgot, StorageError
from penstock.keyspace.shell.embedded.database import Database


def opened(folder: Path, *, is_reader: bool = False) -> Database:
    return Database(folder / "store.sqlite", store_id="test", bytes_max=1 << 30, is_reader=is_reader)


def test_every_commit_waits_for_the_disk(tmp_path: Path) -> None:
    """kill -9 cannot show this, since the page cache survives it: only a power cut could."""
    database = opened(tmp_path)
    asked = {
        name: database.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode")
    }
    assert asked == {"synchronous": 2, "journal_mode": "wal"}  # 2 is FULL
    assert database.connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,), "only under the lock"
    database.close()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    writer, reader = opened(tmp_path), opened(tmp_path, is_reader=True)
    with pytest.raises(Exception, match="readonly"):
        reader.connection.execute("UPDATE state SET revision = 7")
    reader.close()
    writer.close()


def test_the_data_version_moves_with_the_commits_of_others(tmp_path: Path) -> None:
    writer, reader = opened(tmp_path), opened(tmp_path, is_reader=True)
    before = reader.data_version()
    assert reader.data_version() == before
    writer.connection.execute("UPDATE state SET revision = revision + 1")
    assert reader.data_version() != before
    reader.close()
    writer.close()


def test_another_file_under_the_same_name_is_noticed(tmp_path: Path) -> None:
    database = opened(tmp_path)
    database.check_file()
    database.path.rename(tmp_path / "elsewhere")
    with pytest.raises(KeySpaceForgot, match="removed"):
        database.check_file()
    database.path.write_bytes(b"")
    with pytest.raises(KeySpaceForgot, match="replaced"):
        database.check_file()
    database.close()


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").mkdir()
    with pytest.raises(StorageError, match="unable to open"):
        opened(tmp_path)
