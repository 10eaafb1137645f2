"""The page of the Python API, written from docstrings, signatures and examples that run."""

import ast
import importlib
import inspect
import io
import tokenize
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import penstock
from penstock_lab.papers import api_examples

__all__ = ["PAGE", "PARTS", "example_of", "page", "write"]

PAGE: Final = Path(penstock.__file__).parents[2] / "docs/reference/api.md"
PARTS: Final = {
    "Connect": ["connect", "open", "aio", "Stock"],
    "Journals": ["Journal", "Publisher", "Message", "Appended", "JournalSpec", "FragmentSpec"],
    "The lake": ["Lake", "Repository", "Branch", "Commit"],
    "Consumers and pipelines": ["Application", "Publish", "ShardDefinition", "Pipeline"],
    "The quorum log": ["QuorumLog"],
    "Errors": [
        "PenstockError",
        "Refused",
        "NotFound",
        "PreconditionFailed",
        "InvalidArgument",
        "Unavailable",
        "Indeterminate",
    ],
}
_INTRO: Final = """\
# Python API

<!-- Written by `python -m penstock_lab.papers` from docstrings and examples. Do not edit. -->

These are all public names. `penstock.aio` has the same names for asyncio: a method below is a coroutine there, and an
iterator an asynchronous one. Every example runs in a test, in a folder where `penstock up` runs. `pip install penstock`
is enough for journals and the lake; tables need `penstock[tables]`, `open` needs `penstock[server]`, pipelines need
`penstock[spark]`.
"""
_EMPTY_LINE: Final = "\n\n"
_TYPES: Final = {
    "Mapping": "A function from a message's key to the name of its journal.",
    "StoreFactory": "A function that opens the store of a shard: it takes a `ShardContext`.",
}
_HIDDEN: Final = {"take", "spec", "chosen", "close_soon", "validate"}  # other parts of Penstock call them


def write() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the text of the page."""
    lines = [_INTRO]
    for part, names in PARTS.items():
        lines.append(f"\n## {part}\n")
        for name in names:
            lines += _section(name)
    lines += _modules()
    return "\n".join(lines).rstrip() + "\n"


def example_of(name: str) -> str:
    """Return the example of a name, as a script."""
    lines = inspect.getsource(getattr(api_examples, name)).splitlines()
    body = dedent("\n".join(lines[1:])).strip()
    return body.replace("  # noqa: A001", "")


def _section(name: str) -> list[str]:
    found = getattr(penstock, name)
    lines = [f"### penstock.{name}\n"]
    if inspect.isclass(found):
        lines.append(f"{_paragraphs(found)}\n")
        lines += _fields(found)
    elif inspect.isfunction(found):
        lines += [f"```text\n{name}{_arguments(_function(found))}\n```\n", f"{_paragraphs(found)}\n"]
    else:
        lines.append("The same names for asyncio, with `await`.\n")
    lines.append(f"```python\n{example_of(name)}\n```\n")
    if inspect.isclass(found) and (name == "PenstockError" or not issubclass(found, penstock.PenstockError)):
        lines += _methods(found)
    return lines


def _paragraphs(found: Any) -> str:
    """Return a docstring without what follows its prose."""
    text = inspect.getdoc(found) or ""
    return "\n".join(line for line in text.split("\n\n>>>")[0].splitlines())


def _fields(kind: type[Any]) -> list[str]:
    """Return the fields of a struct, with what their comments say."""
    names = getattr(kind, "__struct_fields__", ())
    rows = [row for row in _commented(kind) if row[0] in names and not row[0].startswith("_")]
    if not rows:
        return []
    lines = ["| field | type | default | |", "|---|---|---|---|"]
    return [*lines, *(f"| `{name}` | `{of}` | {default} | {comment} |" for name, of, default, comment in rows), ""]


def _commented(kind: type[Any]) -> list[tuple[str, str, str, str]]:
    source = inspect.getsource(kind)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    body = ast.parse(dedent(source)).body[0]
    assert isinstance(body, ast.ClassDef)
    return [
        (
            each.target.id,
            _type(each.annotation).replace("|", "\\|"),
            f"`{ast.unparse(each.value)}`" if each.value is not None else "",
            comments.get(each.end_lineno or 0, ""),
        )
        for each in body.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


def _methods(kind: type[Any]) -> list[str]:
    """Return the public methods of a class and of its bases in Penstock, each with its docstring's first paragraph."""
    lines: list[str] = []
    seen: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] != "penstock":
            continue
        for each in _definition(base).body:
            if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) or each.name in seen:
                continue
            if not _is_listed(each):
                continue
            seen.add(each.name)
            decorators = [one.id for one in each.decorator_list if isinstance(one, ast.Name)]
            called = each.name if "property" in decorators else f"{each.name}{_arguments(each)}"
            first = " ".join((ast.get_docstring(each) or "").split("\n\n")[0].split())
            lines.append(f"- `{called}`: {first}")
    return [*lines, ""] if lines else []


def _is_listed(found: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """True for methods that users call: they have docstrings."""
    is_public = found.name == "__call__" or not found.name.startswith("_")
    return is_public and found.name not in _HIDDEN and ast.get_docstring(found) is not None


def _arguments(found: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a signature without `self`."""
    given = found.args
    plain = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(given.defaults)), *given.defaults]
    parts = [_argument(each, value) for each, value in zip(plain, defaults, strict=True) if each.arg != "self"]
    if given.vararg is not None:
        parts.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        parts.append("*")
    parts += [_argument(each, value) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    returns = "" if found.returns is None else f" -> {_type(found.returns)}"
    return f"({', '.join(parts)}){returns}"


def _argument(found: ast.arg, default: ast.expr | None) -> str:
    typed = found.arg if found.annotation is None else f"{found.arg}: {_type(found.annotation)}"
    if default is None:
        return typed
    return f"{typed} = {ast.unparse(default)}".replace("'", '"')


def _type(found: ast.expr) -> str:
    """Return an annotation without quotes and bounds."""
    if isinstance(found, ast.Constant) and isinstance(found.value, str):
        return found.value
    if isinstance(found, ast.Subscript) and isinstance(found.value, ast.Name) and found.value.id == "Annotated":
        assert isinstance(found.slice, ast.Tuple)
        return _type(found.slice.elts[0])
    return ast.unparse(found)


def _definition(kind: type[Any]) -> ast.ClassDef:
    """Return the definition of a class: that of the stub, where a module has one."""
    path = Path(str(importlib.import_module(kind.__module__).__file__))
    stub = path.with_suffix(".pyi")
    for each in ast.parse((stub if stub.exists() else path).read_text(encoding="utf-8")).body:
        if isinstance(each, ast.ClassDef) and each.name == kind.__name__:
            return each
    raise LookupError(f"{path} has no class {kind.__name__}")


def _function(found: Any) -> ast.FunctionDef:
    made = ast.parse(dedent(inspect.getsource(found))).body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def _modules() -> list[str]:
    """Return the sections of the other public modules."""
    lines = ["## penstock.errors\n", "Every error, as a tree. [Errors](errors.md) has their codes and next steps.\n"]
    lines += _tree(penstock.errors.PenstockError, 0)
    lines += ["\n## penstock.spi\n", "Interfaces that you can implement, and their implementations.\n"]
    for name in penstock.spi.__all__:
        found = getattr(penstock.spi, name)
        text = _paragraphs(found) if inspect.isclass(found) or inspect.isfunction(found) else str(_TYPES[name])
        lines.append(f"- `{name}`: {' '.join(text.partition(_EMPTY_LINE)[0].split())}")
    lines += ["\n## penstock.spark\n", "Sources, sinks and pipelines: see [Spark](spark.md).\n"]
    return lines


def _tree(kind: type[Any], depth: int) -> list[str]:
    first = (kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    lines = [f"{'  ' * depth}- `{kind.__name__}`: {first}"]
    known = [each for each in kind.__subclasses__() if each.__name__ in penstock.errors.__all__]
    for each in sorted(known, key=lambda one: one.__name__):
        lines += _tree(each, depth + 1)
    return lines
