import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock import __version__
from penstock_lab.bench import machine
from penstock_lab.bench.machine import describe_commit, describe_machine, filesystem_type


def test_the_machine_is_described_from_what_is_there() -> None:
    described = describe_machine()
    assert list(described) == ["cpu", "cores", "memory_bytes", "kernel", "python", "filesystem", "load"]
    assert described["cores"] == len(os.sched_getaffinity(0))
    assert int(described["memory_bytes"]) > 1 << 28
    assert str(described["python"]).endswith(".".join(map(str, sys.version_info[:3])))
    assert described["filesystem"] != "unknown"


def test_the_file_system_is_the_one_of_the_path() -> None:
    assert filesystem_type(Path("/proc")) == "proc"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "report.py").write_text("one = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "report.py")
    git(tmp_path, "commit", "-qm", "one")
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "machine.py"))
    return tmp_path


def test_the_commit_is_marked_when_files_differ_from_it(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "--short=12", "HEAD")
    assert describe_commit() == commit
    (checkout / "note.txt").write_text("an untracked file changes no code")
    assert describe_commit() == commit
    (checkout / "report.py").write_text("one = 2\n")
    assert describe_commit() == f"{commit}-dirty"


def test_outside_a_checkout_it_is_the_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "machine.py"))
    assert describe_commit() == __version__
    monkeypatch.setenv("PATH", "")
    assert describe_commit() == __version__


def test_inside_the_checkout_of_another_project_it_is_the_version(checkout: Path) -> None:
    git(checkout, "rm", "-q", "--cached", "report.py")
    git(checkout, "commit", "-qm", "none of ours")
    assert describe_commit() == __version__
