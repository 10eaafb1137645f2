"""Completion is tried as a shell would: bash sources the script and asks for candidates."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.terminal import Penstock

CANDIDATES = {
    "": {"bench", "config", "errors", "completion", "version"},
    "err": {"errors"},
    "errors ": {"list", "explain"},
    "errors explain wal-": {"wal-corrupt", "wal-poisoned"},
    "config show --out": {"--output"},
    "config show --output ": {"text", "json"},
    "--output json config ": {"show", "keys", "check"},
    "bench li": {"list"},
    "bench wire --": {"--repeats", "--quick", "--output", "--set"},
    "completion ": {"bash", "zsh", "fish"},
}

ASK = """
source penstock.bash
ask() {
  COMP_WORDS=(penstock "$@"); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=(); _penstock
  printf '%s\\n' "${COMPREPLY[*]}"
}
"""


def test_bash_completes(penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "penstock.bash").write_text(penstock("completion", "bash").stdout)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    asked = "".join(f"ask {shlex.join(line.split(' '))}\n" for line in CANDIDATES)
    done = subprocess.run(
        ["bash", "-c", ASK + asked], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stderr == ""
    for (line, expected), answer in zip(CANDIDATES.items(), done.stdout.splitlines(), strict=True):
        candidates = set(answer.split())
        assert expected <= candidates, line
        assert all(candidate.startswith(line.rpartition(" ")[2]) for candidate in candidates), line


@pytest.mark.parametrize(("shell", "sign"), [("zsh", "#compdef penstock"), ("fish", "complete -c penstock")])
def test_other_shells_have_a_script_too(penstock: Penstock, shell: str, sign: str) -> None:
    outcome = penstock("completion", shell)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert sign in outcome.stdout
    assert "explain" in outcome.stdout
