import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import DataDamaged, FormatTooNew, StorageError
from penstock.kernel.formats import CREDENTIALS
from penstock.plumbing.files.sealed import create_sealed, read_sealed, write_sealed


def test_fields_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file.json"
    assert read_sealed(CREDENTIALS, path) is None
    write_sealed(CREDENTIALS, path, {"key": "ä", "more": {"b": 1, "a": [1, 2]}})
    assert read_sealed(CREDENTIALS, path) == {"key": "ä", "more": {"b": 1, "a": [1, 2]}}
    assert not create_sealed(CREDENTIALS, path, {"key": "other"})
    assert read_sealed(CREDENTIALS, path) == {"key": "ä", "more": {"b": 1, "a": [1, 2]}}


def test_a_changed_letter_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(CREDENTIALS, path, {"key": "value"})
    path.write_text(path.read_text().replace("value", "velue"))
    with pytest.raises(DataDamaged, match=str(path)):
        read_sealed(CREDENTIALS, path)


@given(st.data())
def test_any_changed_byte_is_noticed_or_harmless(data: st.DataObject) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "file.json"
        write_sealed(CREDENTIALS, path, {"key": "value"})
        text = bytearray(path.read_bytes())
        text[data.draw(st.integers(0, len(text) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(text)
        try:
            found = read_sealed(CREDENTIALS, path)
        except (DataDamaged, FormatTooNew):
            return
        # Only the name of the sum itself can be lost: then the file counts as one without a sum.
        assert found is not None
        assert found["key"] == "value"


def test_spaces_and_order_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_sealed(CREDENTIALS, path, {"a": 1, "b": 2})
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(dict(reversed(fields.items()))))
    assert read_sealed(CREDENTIALS, path) == {"a": 1, "b": 2}


def test_a_file_without_a_sum_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"access_key_id": "A", "secret_access_key": "S"}')
    assert read_sealed(CREDENTIALS, path) == {"access_key_id": "A", "secret_access_key": "S"}


def test_a_newer_version_is_refused_before_its_sum_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_text('{"version": 2, "crc32c": "whatever"}')
    with pytest.raises(FormatTooNew, match="version 2"):
        read_sealed(CREDENTIALS, path)


@pytest.mark.parametrize("text", ["", "[]", "{", "3", '{"version": "1"}', "\xff"])
def test_something_else_is_damage(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataDamaged, match=str(path)):
        read_sealed(CREDENTIALS, path)


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=str(tmp_path)):
        read_sealed(CREDENTIALS, tmp_path)
