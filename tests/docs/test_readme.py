"""The README does what it says: its targets exist, its commands run, its Python runs."""

import re
import shlex
import subprocess
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.guides import shell

from penstock.cli.main import command_tree, run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def shell_lines(text: str) -> Iterator[list[str]]:
    for block in blocks(text, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words:
                yield words


SHELL = blocks(README, "sh")
CLUSTER = next(block for block in SHELL if "cluster up" in block)
COMMANDS = sorted({" ".join(words) for words in shell_lines(README.replace(CLUSTER, "")) if words[0] == "penstock"})


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_shell_lines_of_the_readme_are_make_targets_or_our_own_commands() -> None:
    lines = list(shell_lines(README))
    assert ["make", "demo"] in lines
    assert ["make", "test"] in lines
    for first, *rest in lines:
        assert first in ("make", "penstock", "echo")
        assert first != "make" or set(rest) <= targets(), rest


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_readme_run(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    few = re.sub(r"--seeds \d+\.\.\d+", "--seeds 0..2", command)  # that it runs is enough here
    arguments = few.split()[1:]
    if "--mutant" in arguments:  # two seeds would not catch it; tests/sim does
        command_tree().parse_args(arguments)
    else:
        assert run(arguments) == 0
        assert capfd.readouterr().out


@pytest.mark.timeout(300)
def test_the_cluster_of_the_readme_survives_its_leader(empty_folder: Path) -> None:
    ran = shell(CLUSTER, empty_folder)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.index("'hello'") < ran.stdout.index("'again'")


@pytest.mark.timeout(300)
def test_the_guide_to_the_quorum_log_runs_as_printed(empty_folder: Path) -> None:
    guide = (ROOT / "docs/guides/quorum.md").read_text(encoding="utf-8")
    ran = shell("\n".join(blocks(guide, "sh")), empty_folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.index("'first'") < ran.stdout.index("'second'") < ran.stdout.index("'third'")
    assert "limbo: 0 appends" in ran.stdout
    assert "\ncommitted\n" in ran.stdout
    assert "ensemble n1 n2 n4" in ran.stdout


# Parts of programs, which need servers or Spark: what runs them is said beside each.
PARTS = {
    Path("docs/guides/consumers.md"),  # tests/docs/test_consumer_guide.py
    Path("docs/guides/lake.md"),  # tests/docs/test_lake_guide.py
    Path("docs/guides/pipeline.md"),  # tests/spark/slow_pipeline_guide.py
    Path("docs/guides/spark.md"),  # nothing does, but for what tests/spark has of the same
    Path("docs/reference/consumers.md"),
    Path("docs/reference/stores.md"),
}
ALL = [(page.relative_to(ROOT), block) for page in PAGES for block in blocks(page.read_text("utf-8"), "python")]
PYTHON = [(page, block) for page, block in ALL if page not in PARTS]


@pytest.mark.parametrize("page", sorted({page for page, _ in ALL if page in PARTS}), ids=str)
def test_parts_of_programs_in_the_papers_are_python(page: Path) -> None:
    for each, block in ALL:
        if each == page:
            compile(block, str(page), "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[str(page) for page, _ in PYTHON])
def test_python_in_the_papers_runs(page: Path, block: str, tmp_path: Path) -> None:
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert ran.returncode == 0, f"{page}:\n{ran.stderr}"
    assert ran.stdout


def test_the_readme_has_python_to_run() -> None:
    assert any(page == Path("README.md") for page, _ in PYTHON)
