"""The runner: what it says when TLC cannot run, and when a specification is broken."""

from pathlib import Path

import pytest
from tests.specs.tlc import Tlc, TlcError

COUNTER = """\
---- MODULE Counter ----
EXTENDS Naturals
VARIABLE n
Init == n = 0
Next == n < 3 /\\ n' = n + 1
Small == n < 2
Rises == [][n' > n]_n
====
"""


def check(tlc: Tlc, folder: Path, config: str, **options: float) -> object:
    (folder / "Counter.tla").write_text(COUNTER)
    (folder / "Counter.cfg").write_text(config)
    outcome = tlc.check("Counter", folder / "Counter.cfg", folder=folder, **options)  # type: ignore[arg-type]
    return outcome.violated, outcome.distinct, outcome.left, outcome.depth, len(outcome.behaviour)


def test_what_holds(tlc: Tlc, tmp_path: Path) -> None:
    assert check(tlc, tmp_path, "INIT Init\nNEXT Next\nPROPERTY Rises\n") == (None, 4, 0, 4, 0)


def test_what_does_not(tlc: Tlc, tmp_path: Path) -> None:
    assert check(tlc, tmp_path, "INIT Init\nNEXT Next\nINVARIANT Small\n") == ("Small", 3, 0, 3, 3)


def test_a_broken_specification_is_an_error(tlc: Tlc, tmp_path: Path) -> None:
    with pytest.raises(TlcError, match="Missing"):
        check(tlc, tmp_path, "INIT Init\nNEXT Missing\n")


def test_no_answer_in_time_is_an_error(tlc: Tlc, tmp_path: Path) -> None:
    with pytest.raises(TlcError, match="no answer within"):
        check(tlc, tmp_path, "INIT Init\nNEXT Next\n", timeout_s=0.01)


def test_without_java_a_test_fails_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pytest.fail.Exception, match=r"^TLC.* needs Java .*default-jre-headless\)$"):
        Tlc.find()
