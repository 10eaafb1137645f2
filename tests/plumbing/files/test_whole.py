import errno
import os
from pathlib import Path

import pytest

from penstock.plumbing.files.whole import create_whole, write_whole


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"one", b"", b"three" * 100_000):
        write_whole(path, data)
        assert path.read_bytes() == data
    write_whole(path, b"secret", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert [create_whole(path, b"first"), create_whole(path, b"second")] == [True, False]
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["write", "fdatasync", "rename"])
def test_a_failure_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Path if call == "rename" else os, call, fail)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_short_write_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    write_whole(tmp_path / "file", b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"
