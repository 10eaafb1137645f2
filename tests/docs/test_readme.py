"""The README is true: its targets exist, its commands run, its Python runs."""

import re
import shlex
import subprocess
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET

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


LINES = [line for block in blocks(README, "sh") for line in block.splitlines() if "penstock " in line]
COMPARED = re.search(r"^\| what \|.*?\n\n", README, re.DOTALL | re.MULTILINE)


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_shell_lines_of_the_readme_are_make_targets_or_our_own_commands() -> None:
    lines = list(shell_lines(README))
    assert ["make", "demo"] in lines
    assert ["make", "test"] in lines
    for first, *rest in lines:
        assert first in ("make", "penstock", "echo", "pip")
        assert first != "make" or set(rest) <= targets(), rest


def test_commands_of_the_readme_run_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    assert LINES[0].startswith("penstock up ")
    with UpProcess(tmp_path / "penstock-data"):
        ran = shell("\n".join(LINES[1:]), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert '"sku":"cup"' in ran.stdout.replace(" ", "")


def figures(text: str) -> set[float]:
    return {float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def test_every_measured_figure_of_the_readme_has_its_source() -> None:
    assert COMPARED is not None
    rows = [line.split("|") for line in COMPARED[0].splitlines()[2:] if line.startswith("|")]
    assert len(rows) > 5
    known = figures((ROOT / "docs/explanation/benchmarks.md").read_text("utf-8"))
    known |= {each / unit for each in known for unit in (1e3, 1e6)}  # µs as ms, rows as M rows
    for _, what, ours, peer, ratio, _ in rows:
        for figure in figures(ours + peer.replace("2.9", "")) | figures(ratio):
            digits = len(str(figure).partition(".")[2]) if figure != int(figure) else 0
            assert any(abs(each - figure) <= 0.51 / 10**digits for each in known), f"{what}: {figure}"


@pytest.mark.timeout(300)
def test_the_guide_to_the_quorum_log_runs_as_printed(empty_folder: Path) -> None:
    guide = (ROOT / "docs/how-to/drills.md").read_text(encoding="utf-8")
    ran = shell("\n".join(blocks(guide, "sh")), empty_folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.index("'first'") < ran.stdout.index("'second'") < ran.stdout.index("'third'")
    assert "limbo: 0 appends" in ran.stdout
    assert "\ncommitted\n" in ran.stdout
    assert "ensemble n1 n2 n4" in ran.stdout


# Parts of programs, which need servers or Spark: each names the test that runs it.
PARTS = {
    Path("docs/tutorials/consumer.md"),  # tests/docs/test_consumer_guide.py
    Path("docs/how-to/lake.md"),  # tests/docs/test_lake_guide.py
    Path("docs/tutorials/pipeline.md"),  # tests/spark/slow_pipeline_guide.py
    Path("docs/how-to/spark.md"),  # tests/spark/slow_spark_guide.py
    Path("docs/how-to/works-with.md"),  # tests/matrix/slow_s3_clients.py runs these clients
    Path("docs/reference/api.md"),  # tests/api/test_api_page.py
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
@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[f"{page}-{number}" for number, (page, _) in enumerate(PYTHON)])
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
