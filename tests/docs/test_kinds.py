"""Four kinds of pages, pages made from data, and a page from the five design documents."""

import re
import runpy
from pathlib import Path

import pytest

from penstock_lab.papers import reliability

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KINDS = {"tutorials", "how-to", "reference", "explanation", "contributing", "decisions", "reports"}
SEEDS = DOCS / "explanation/design/seeds.md"
DOCUMENTS = ("log-replication", "qsync", "transactional-appends", "exactly-once", "queue-based-staging")


def test_every_page_has_a_kind() -> None:
    found = {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")}
    assert found - KINDS == {"index.md"}


def test_the_reliability_page_has_the_table_of_its_data() -> None:
    page = (DOCS / "explanation/reliability.md").read_text(encoding="utf-8")
    assert reliability.with_table(page) == page, "run `python -m penstock_lab.papers`"
    assert page.count("\n| ") == 1 + len(list((DOCS / "data/reliability").glob("*.json")))


def test_an_attack_that_does_not_fit_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"protocol": "lake"}')
    with pytest.raises(ValueError, match=r"a\.json.*attack"):
        reliability.table(tmp_path)


def test_benchmarks_are_tables() -> None:
    lines = (DOCS / "explanation/benchmarks.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 120
    sections = re.findall(r"^## .*`penstock bench (\w+)`$", "\n".join(lines), re.MULTILINE)
    assert sections == ["wire", "wal", "quorum", "journal", "allocator", "lake", "messages", "spark"]


def test_each_design_document_has_a_table_of_statements_whose_files_exist() -> None:
    text = SEEDS.read_text(encoding="utf-8")
    assert re.findall(r"^## ([\w-]+):", text, re.MULTILINE) == list(DOCUMENTS)
    rows = re.findall(r"^\| (?!statement|---)(.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
    assert len(rows) > 40
    for statement, places, difference in rows:
        assert difference, statement
        files = re.findall(r"`([^`]+)`", places)
        assert files, statement
        assert [each for each in files if not (ROOT / "src/penstock" / each).exists()] == []


def test_old_places_of_pages_lead_to_new_ones() -> None:
    moved = runpy.run_path(str(ROOT / "scripts/moved_pages.py"))
    for old, new in moved["MOVED"].items():
        assert not (DOCS / f"{old}.md").exists(), old
        assert (DOCS / f"{new}.md").exists(), new
    assert 'url=../tutorials/pipeline.html"' in moved["line"]("guides/pipeline", "tutorials/pipeline")
