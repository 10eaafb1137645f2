"""Stubs of the modules with blocking classes, for type checkers: `python -m penstock_lab.papers` writes them.

At run time a decorator makes the methods of a blocking class (`plumbing/process/blocking.py`), where no type checker
looks. A stub has them in full: signatures and docstrings are those of the asynchronous class.
"""

import ast
import importlib
import inspect
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from penstock.plumbing.process.blocking import blocking_names, made_methods

__all__ = ["MODULES", "stub_of", "write"]

MODULES: Final = (
    "penstock.journals.client.journal_blocking",
    "penstock.journals.client.named_blocking",
    "penstock.journals.client.transactions.transaction_blocking",
    "penstock.lake.client.lake_blocking",
    "penstock.quorum.client.blocking",
)
_ENDED: Final = {"AsyncIterator": "Iterator", "AsyncGenerator": "Iterator"}
_ENTER: Final = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
_KEPT: Final = {"property", "classmethod", "staticmethod", "contextmanager"}
Imports = dict[str, ast.stmt]


def write() -> None:
    """Write the stub of every module."""
    for name in MODULES:
        path, text = stub_of(name)
        path.write_text(text, encoding="utf-8")


def stub_of(name: str) -> tuple[Path, str]:
    """Return the place and the text of a module's stub."""
    for each in MODULES:
        importlib.import_module(each)
    module = importlib.import_module(name)
    text = _formatted(ast.unparse(ast.fix_missing_locations(_Stub(module).tree())))
    return Path(str(module.__file__)).with_suffix(".pyi"), text


class _Stub:
    """The stub of one module."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._imports = _imports_of(module)

    def tree(self) -> ast.Module:
        source = _parsed(str(self._module.__file__))
        classes = [self._class(each) for each in source.body if isinstance(each, ast.ClassDef)]
        used = {each.id for one in classes for each in ast.walk(one) if isinstance(each, ast.Name)}
        defined = {each.name for each in classes}
        imports = [self._imports[name] for name in sorted(used - defined) if name in self._imports]
        listed = [each for each in source.body if isinstance(each, ast.Assign) and _is_all(each)]
        return ast.Module([source.body[0], *imports, *listed, *classes], [])

    def _class(self, found: ast.ClassDef) -> ast.ClassDef:
        target = getattr(self._module, found.name)
        body: list[ast.stmt] = [ast.Expr(ast.Constant(ast.get_docstring(found)))]
        body += [_signature(each) for each in found.body if isinstance(each, ast.FunctionDef) and _is_public(each.name)]
        for name, member in made_methods().get(target, {}).items():
            body.append(self._made(name, member))
        return ast.ClassDef(found.name, found.bases, found.keywords, body, [])

    def _made(self, name: str, member: Any) -> ast.stmt:
        """Return the blocking signature of an asynchronous member."""
        code: Any = member.fget if isinstance(member, property) else inspect.unwrap(member)
        module = importlib.import_module(code.__module__)
        for each, statement in _imports_of(module).items():
            self._imports.setdefault(each, statement)
        kind, _, _ = code.__qualname__.partition(".")
        found = _method(str(module.__file__), kind, code.__name__)
        made = _signature(found)
        made.name = _ENTER.get(name, name)
        is_block = any(isinstance(each, ast.Name) and each.id == "asynccontextmanager" for each in found.decorator_list)
        if made.returns is not None:
            made.returns = _returned(made.returns, is_block=is_block)
        if is_block:
            self._imports["AbstractContextManager"] = _import("contextlib", "AbstractContextManager")
        self._imports["Iterator"] = _import("collections.abc", "Iterator")
        return made


def _signature(found: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.FunctionDef:
    """Return a function with its signature and docstring only."""
    documented = ast.get_docstring(found)
    body: list[ast.stmt] = [ast.Expr(ast.Constant(documented if documented is not None else ...))]
    kept: list[ast.expr] = [each for each in found.decorator_list if isinstance(each, ast.Name) and each.id in _KEPT]
    arguments = _Renamed().visit(_copied(found.args))
    arguments.defaults = [_default(each) for each in arguments.defaults]
    arguments.kw_defaults = [each if each is None else _default(each) for each in arguments.kw_defaults]
    returns = None if found.returns is None else _Renamed().visit(_copied(found.returns))
    return ast.FunctionDef(found.name, arguments, body, kept, returns)


class _Renamed(ast.NodeTransformer):
    """Takes annotations out of their quotes, and names blocking classes for asynchronous ones."""

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        several = [each for each in (node.vararg, node.kwarg) if each is not None]
        for each in (*node.posonlyargs, *node.args, *node.kwonlyargs, *several):
            if each.annotation is not None:
                each.annotation = self.visit(each.annotation)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        is_literal = isinstance(node.value, ast.Name) and node.value.id == "Literal"
        return node if is_literal else cast("ast.expr", self.generic_visit(node))

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            return cast("ast.expr", self.visit(ast.parse(node.value, mode="eval").body))
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(blocking_names().get(node.id, node.id))


def _returned(found: ast.expr, *, is_block: bool) -> ast.expr:
    """Return the type of a call that waits."""
    if isinstance(found, ast.Subscript) and isinstance(found.value, ast.Name) and found.value.id in _ENDED:
        inner = found.slice
        name = "AbstractContextManager" if is_block else _ENDED[found.value.id]
        first = inner.elts[0] if isinstance(inner, ast.Tuple) else inner
        return ast.Subscript(ast.Name(name), first)
    return found


def _default(found: ast.expr) -> ast.expr:
    return found if isinstance(found, ast.Constant) or ast.unparse(found) == "()" else ast.Constant(...)


def _imports_of(module: ModuleType) -> Imports:
    """Return how each name of a module is imported; its own classes and types from itself."""
    found: Imports = {}
    for each in ast.walk(_parsed(str(module.__file__))):
        if isinstance(each, ast.ImportFrom) and each.module is not None:
            for name in each.names:
                found[name.asname or name.name] = ast.ImportFrom(each.module, [name], 0)
        elif isinstance(each, ast.Import):
            for name in each.names:
                found[name.asname or name.name] = ast.Import([name])
    for each in _parsed(str(module.__file__)).body:
        names = [each.name] if isinstance(each, ast.ClassDef) else []
        if isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        for one in names:
            found.setdefault(one, _import(module.__name__, one))
    return found


def _import(module: str, name: str) -> ast.ImportFrom:
    return ast.ImportFrom(module, [ast.alias(name)], 0)


@cache
def _parsed(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def _method(path: str, kind: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    for each in _parsed(path).body:
        if isinstance(each, ast.ClassDef) and each.name == kind:
            for one in each.body:
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == name:
                    return one
    raise LookupError(f"{path} has no {kind}.{name}")


def _copied(node: Any) -> Any:
    wrapped = ast.unparse(node)
    if isinstance(node, ast.arguments):
        made = ast.parse(f"def copied({wrapped}): ...").body[0]
        assert isinstance(made, ast.FunctionDef)
        return made.args
    return ast.parse(wrapped, mode="eval").body


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name.endswith("__")


def _is_all(found: ast.Assign) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in found.targets)


def _formatted(text: str) -> str:
    """Return code as `make format` leaves it."""
    for arguments in (["check", "--select", "I,UP", "--fix", "--quiet"], ["format", "--quiet"]):
        text = _ruff(text, arguments)
    return text


def _ruff(text: str, arguments: list[str]) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", "stub.pyi", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
