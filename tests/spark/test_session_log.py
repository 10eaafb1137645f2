"""What a Java process writes is in a file of bounded size, and not on the terminal. No Spark runs."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.spark import session_log
from penstock.spark.session_log import captured, reason_in


def copied() -> None:
    """Wait until the file has everything that was written."""
    for thread in threading.enumerate():
        if thread.name == "penstock-spark-log":
            thread.join(30)
            assert not thread.is_alive()


def child(code: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", code])


def test_processes_that_start_inside_write_to_the_file_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "of" / "spark.log"
    with captured(log):
        process = child("import sys; sys.stdin.read(); print('late'); print('JAVA_HOME is not set', file=sys.stderr)")
    print("ours")
    assert process.wait() == 0
    copied()
    assert capfd.readouterr() == ("ours\n", "")
    assert sorted(log.read_text().splitlines()) == ["JAVA_HOME is not set", "late"]
    assert reason_in(log) == "JAVA_HOME is not set"


def test_the_file_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "LOG_BYTES", 1000)
    monkeypatch.setattr(session_log, "READ_BYTES", 500)
    with captured(tmp_path / "spark.log"):
        process = child("import os\nfor n in range(60): os.write(1, b'%099d\\n' % n)")
    assert process.wait() == 0
    copied()
    assert reason_in(tmp_path / "spark.log") == f"{59:099d}"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["spark.log", "spark.log.1", "spark.log.2"]


def test_a_log_without_words_of_failure_gives_its_last_line(tmp_path: Path) -> None:
    assert reason_in(tmp_path / "none.log") == ""
    (tmp_path / "spark.log").write_text("one\ntwo\n")
    assert reason_in(tmp_path / "spark.log") == "two"
