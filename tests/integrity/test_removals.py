"""Each call that removes or cuts a file has a reason in `removals.py`, and each reason has a call."""

import ast
from pathlib import Path

from tests.integrity.removals import REMOVALS

import penstock

ROOT = Path(penstock.__file__).parent
CALLS = {"rmtree", "unlink", "ftruncate", "truncate", "remove_tree"}
DISKS = {"os", "disk", "self._disk"}


def removes(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr == "O_TRUNC"
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute):
        is_removal = node.func.attr == "remove" and ast.unparse(node.func.value) in DISKS
        return is_removal or node.func.attr in CALLS
    return isinstance(node.func, ast.Name) and node.func.id in CALLS


def removals(path: Path) -> set[str]:
    found: set[str] = set()

    def walk(node: ast.AST, names: list[str]) -> None:
        for each in ast.iter_child_nodes(node):
            is_named = isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            below = [*names, each.name] if is_named else names  # type: ignore[attr-defined]
            if removes(each):
                found.add(f"{path.relative_to(ROOT)}:{'.'.join(below)}")
            walk(each, below)

    walk(ast.parse(path.read_text()), [])
    return found


def test_each_removal_has_a_reason() -> None:
    found = set[str]().union(*(removals(path) for path in ROOT.rglob("*.py")))
    assert found - set(REMOVALS) == set(), "say why no acknowledged byte is lost there"
    assert set(REMOVALS) - found == set(), "these calls are gone"
