"""The house: small folders, and one name for one thing. The lists of exceptions only shrink.

import-linter holds what a room may import (pyproject.toml); these tests hold the rest.
"""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src/penstock", ROOT / "lab/src/penstock_lab")
MODULES_MAX = 14

# folders with more modules than a reader keeps in mind: each waits to be divided
LARGE = {
    "penstock/journals/core": 18,
    "penstock/plumbing/wal": 16,
    "penstock/plumbing/wire": 20,
    "penstock_lab/bench": 32,
    "penstock_lab/explorer": 19,
    "penstock_lab/sim/checkers": 19,
    "penstock_lab/sim/workloads": 36,
}
DOUBLE_NAMES_MAX = 40  # public classes that share their name with another one


def modules() -> list[Path]:
    return [path for source in SOURCES for path in sorted(source.rglob("*.py"))]


def test_no_folder_grows_beyond_fourteen_modules() -> None:
    counted = Counter(str(path.parent.relative_to(ROOT)) for path in modules() if path.name != "__init__.py")
    large = {
        folder.removeprefix("lab/").removeprefix("src/"): count
        for folder, count in counted.items()
        if count > MODULES_MAX
    }
    assert large == LARGE


def test_names_of_public_classes_are_not_doubled_further() -> None:
    places: dict[str, set[Path]] = {}
    for path in modules():
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
                places.setdefault(statement.name, set()).add(path)
    doubled = {name: found for name, found in places.items() if len(found) > 1}
    assert len(doubled) <= DOUBLE_NAMES_MAX, sorted(doubled)


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in modules() if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None]
    assert silent == []
