import ast
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.kernel.errors import InvalidArgument
from penstock_lab.bench.registry import find, questions


def test_benchmarks_are_found_without_importing_them(pond: Path) -> None:
    found = questions()
    assert found["pond"] == "How deep is a pond, next to a puddle?"
    assert "pond_helper" not in found
    assert "penstock_lab.bench.pond" not in sys.modules


def test_the_frame_around_them_is_no_benchmark() -> None:
    assert not {"report", "registry", "render", "machine", "measure", "plot"} & set(questions())


def test_every_benchmark_here_has_a_question_and_can_be_run() -> None:
    for name, question in questions().items():
        assert question.endswith("?"), f"{name} answers a question"
        spec = find_spec(f"penstock_lab.bench.{name}")
        assert spec is not None
        assert spec.origin is not None
        functions = [
            one.name for one in ast.parse(Path(spec.origin).read_text()).body if isinstance(one, ast.FunctionDef)
        ]
        assert "run" in functions


def test_a_benchmark_is_imported_when_it_is_asked_for(pond: Path) -> None:
    assert questions()["pond"] == find("pond").QUESTION


@pytest.mark.parametrize(("name", "hint"), [("pnod", "did you mean pond?"), ("zzzz", "there are ")])
def test_an_unknown_name_is_refused_with_the_nearest(pond: Path, name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        find(name)
    assert hint in caught.value.message
    assert caught.value.next_step == "penstock bench list"


def test_a_helper_is_no_benchmark(pond: Path) -> None:
    with pytest.raises(InvalidArgument):
        find("pond_helper")
