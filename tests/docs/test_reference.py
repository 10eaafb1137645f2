from pathlib import Path

import pytest

import penstock
from penstock.cli import reference
from penstock.cli.main import NOUNS
from penstock.kernel import errors as tree
from penstock.kernel.errors import PenstockError
from penstock.plumbing.config import known_keys
from penstock.plumbing.process.metrics import declared
from penstock.server.error_guide import error_kinds
from penstock_lab.papers import api_page, stubs

PAGES = reference.pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_says_what_the_code_declares(name: str) -> None:
    path = reference.FOLDER / name
    assert path.is_file(), f"docs/reference/{name} is missing. Write it: {reference.REGENERATE}"
    assert path.read_text(encoding="utf-8") == PAGES[name], (
        f"docs/reference/{name} is not what the code declares. Write it anew: {reference.REGENERATE}"
    )


@pytest.mark.parametrize("module", stubs.MODULES)
def test_the_stub_of_blocking_classes_is_that_of_the_code(module: str) -> None:
    path, text = stubs.stub_of(module)
    assert path.read_text(encoding="utf-8") == text, "write it anew: make golden, or python -m penstock_lab.papers"


def test_the_page_of_the_api_is_that_of_the_code() -> None:
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.page(), (
        "docs/reference/api.md is not what the docstrings say. Write it anew: make golden"
    )


def test_penstock_errors_is_the_whole_tree() -> None:
    assert set(penstock.errors.__all__) == set(tree.__all__) - {"ErrorRecord", "error_from_record"}
    assert all(getattr(penstock.errors, name) is getattr(tree, name) for name in penstock.errors.__all__)


def test_every_command_key_error_and_metric_has_its_place() -> None:
    assert all(f"\n## penstock {noun}\n" in PAGES["cli.md"] for noun in NOUNS)
    assert all(f"`{name}`" in PAGES["config.md"] for name in known_keys())
    assert all(f"\n## {kind.code}\n" in PAGES["errors.md"] for kind in error_kinds())
    assert all(f"`{metric.name}`" in PAGES["metrics.md"] for metric in declared())
    assert set(PenstockError._by_code) <= {kind.code for kind in error_kinds()}


def test_pages_are_written_and_found_outdated_when_they_differ(tmp_path: Path) -> None:
    reference.write(tmp_path)
    assert not reference.outdated(tmp_path)
    (tmp_path / "config.md").write_text("something else")
    (tmp_path / "cli.md").unlink()
    assert set(reference.outdated(tmp_path)) == {"config.md", "cli.md"}
