"""Which benchmarks there are: modules of this package with a `QUESTION` and a `run(recorder, options)`.

They are found by reading their source, not by importing it: a benchmark may need a peer that is not installed, and
listing questions must not load what answers them.
"""

import ast
import difflib
import importlib
import pkgutil
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol, cast

import penstock_lab.bench
from penstock.kernel.errors import InvalidArgument
from penstock_lab.bench.report import Options, RowRecorder

__all__ = ["Benchmark", "find", "questions"]


class Benchmark(Protocol):
    """What a benchmark's module offers."""

    QUESTION: str

    def run(self, recorder: RowRecorder, options: Options) -> None: ...


def questions() -> dict[str, str]:
    """Every benchmark's name, and the question it answers."""
    names = sorted(module.name for module in pkgutil.iter_modules(penstock_lab.bench.__path__))
    found = {name: _question(f"penstock_lab.bench.{name}") for name in names}
    return {name: question for name, question in found.items() if question is not None}


def find(name: str) -> Benchmark:
    """The benchmark of that name, imported."""
    known = questions()
    if name not in known:
        raise InvalidArgument(_unknown(name, list(known)), next_step="penstock bench list")
    module: ModuleType = importlib.import_module(f"penstock_lab.bench.{name}")
    assert callable(getattr(module, "run", None)), f"{module.__name__} has a QUESTION but no run(recorder, options)"
    return cast("Benchmark", module)


def _unknown(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    there = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
    return f"no benchmark is named {name}; {there}"


def _question(module: str) -> str | None:
    """The value of the module's QUESTION, if it has one."""
    spec = find_spec(module)
    loader: Any = None if spec is None else spec.loader
    source = loader.get_source(module) if hasattr(loader, "get_source") else None
    for statement in ast.parse(source or "").body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id="QUESTION")], value=value)
                | ast.AnnAssign(target=ast.Name(id="QUESTION"), value=ast.expr() as value)
            ):
                return str(ast.literal_eval(value))
            case _:
                pass
    return None
