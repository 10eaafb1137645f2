"""R7: the public names are those of the golden file, and users need no other import."""

import ast
import importlib
import re
from pathlib import Path

import pytest
from tests.api.golden import NAMES

import penstock

ROOT = Path(__file__).parents[2]
USERS_PAGES = [
    ROOT / "README.md",
    ROOT / "docs/index.md",
    *sorted((ROOT / "docs/tutorials").glob("*.md")),
    *sorted((ROOT / "docs/how-to").glob("*.md")),
]
USERS_PAGES += [ROOT / f"docs/reference/{name}.md" for name in ("api", "consumers", "spark", "stores")]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
PUBLIC = {"penstock", "penstock.aio", "penstock.errors", "penstock.spark", "penstock.spi"}


@pytest.mark.parametrize("module", sorted(NAMES))
def test_the_names_are_those_of_the_golden_file(module: str) -> None:
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(NAMES[module])
    assert sorted(dir(found)) == sorted(NAMES[module])
    for name in NAMES[module]:
        assert getattr(found, name) is not None, name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        found.nothing  # noqa: B018


def test_both_modules_have_the_same_names() -> None:
    assert set(penstock.__all__) - {"aio"} == set(penstock.aio.__all__)


def test_users_see_no_prefix() -> None:
    for name in ("Journal", "Lake", "Repository", "Branch", "Stock"):
        assert getattr(penstock, name).__name__ == name
    assert repr(penstock.aio.Journal(None, "shop/orders")) == "journal shop/orders"  # type: ignore[arg-type]


def imports_in(code: str) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(ast.parse(code)):
        if isinstance(each, ast.ImportFrom) and each.module is not None:
            found.add(each.module)
        elif isinstance(each, ast.Import):
            found |= {name.name for name in each.names}
    return {name for name in found if name.partition(".")[0] == "penstock"}


@pytest.mark.parametrize("path", [*USERS_PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_for_users_import_public_modules_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        assert imports_in(text) <= PUBLIC
        return
    assert set(re.findall(r"^\s*(?:from|import) (penstock[\w.]*)", text, re.MULTILINE)) <= PUBLIC
    assert not re.search(r"`penstock\.(?!aio|errors|spark|spi)[a-z_]+\.[a-z_.]+`", text), "a deep module's name"
