"""Drawn mutants: this draws statements of shells and clients by a seed, and breaks each in one way.

    python -m penstock_lab.world.drawn --world journals --seed 1 --count 10 --write docs/reports/drawn-journals.md

Each mutant lives in a copy of the sources, which a process of its own imports: first the tests of the room, then seeds
of the world. A test that runs out of time counts as caught. `survived` needs a look: it is equivalent, or a test is
missing.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

import penstock

__all__ = ["DrawnMutant", "draw", "main", "sites_of"]

ROOT: Final = Path(penstock.__file__).parent
ROOMS: Final = {
    "journals": (("journals/broker", "journals/client", "journals/storage"), ("tests/journals",)),
    "quorum": (
        ("quorum/node", "quorum/operator", "quorum/client", "plumbing/wal"),
        ("tests/quorum", "tests/plumbing/wal"),
    ),
    "lake": (("lake/member", "lake/client", "lake/rest", "lake/s3"), ("tests/lake",)),
    "consumers": (("consumers/worker", "consumers/client", "consumers/stores"), ("tests/consumers",)),
}
SEEDS: Final = """
import sys
from penstock_lab.world.run import run_world
for seed in range({first}, {end}):
    outcome = run_world({world!r}, seed)
    if outcome.failure:
        print(seed, outcome.failure.splitlines()[0])
        sys.exit(1)
"""


class DrawnMutant(msgspec.Struct, frozen=True):
    """One statement, broken in one way."""

    path: str
    line: int
    column: int
    way: str  # turned, left out, one off, swallowed
    before: str
    after: str


def sites_of(path: str, source: str) -> Iterator[DrawnMutant]:
    """Yield every way to break a statement of a function of this file.

    >>> source = "def f(x):\\n    if x:\\n        g(1)\\n    raise ValueError\\n"
    >>> sorted((each.line, each.way) for each in sites_of("f.py", source))
    [(2, 'turned'), (3, 'left out'), (3, 'one off'), (4, 'swallowed')]
    """
    lines = source.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]

    def text(node: ast.expr | ast.stmt) -> str:
        last = starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return source[starts[node.lineno - 1] + node.col_offset : last]

    def site(node: ast.expr | ast.stmt, way: str, after: str) -> DrawnMutant:
        return DrawnMutant(path, node.lineno, node.col_offset, way, text(node), after)

    if not source.isascii():
        return  # columns are counted in bytes
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            for part, way, after in _ways(node, text):
                yield site(part, way, after)


def _ways(node: ast.AST, text: Callable[[Any], str]) -> Iterator[tuple[Any, str, str]]:
    """Yield the part of a node that is broken, the way, and the other text."""
    match node:
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
            yield test, "turned", f"not ({text(test)})"
        case ast.Expr(value=ast.Call() | ast.Await()) if "log." not in text(node):
            yield node, "left out", "pass"
        case ast.Raise():
            yield node, "swallowed", "pass"
        case ast.Constant(value=value) if type(value) is int:
            yield node, "one off", str(value + 1)


def draw(world: str, seed: int, count: int) -> list[DrawnMutant]:
    """Draw mutants of a room: each file counts by its length, each way by how often it is possible."""
    sites: list[DrawnMutant] = []
    for folder in ROOMS[world][0]:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found = sites_of(str(path.relative_to(ROOT)), path.read_text())
            sites += sorted(set(found), key=lambda site: (site.line, site.column, site.way))
    return Random(f"{world}/{seed}").sample(sites, min(count, len(sites)))


def broken(mutant: DrawnMutant, source: str) -> str:
    """Return the source with the statement broken.

    >>> broken(DrawnMutant("f.py", 2, 4, "one off", "1", "2"), "x = 1\\ny = 1\\n")
    'x = 1\\ny = 2\\n'
    """
    at = sum(len(line) for line in source.splitlines(keepends=True)[: mutant.line - 1]) + mutant.column
    assert source.startswith(mutant.before, at), mutant
    return source[:at] + mutant.after + source[at + len(mutant.before) :]


def verdict(mutant: DrawnMutant, world: str, seeds: int, seconds: float) -> str:
    """Run the room's tests and seeds of the world against a mutant; return who caught it."""
    with tempfile.TemporaryDirectory(prefix="penstock-drawn-") as folder:
        copy = Path(folder, "penstock")
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("__pycache__"))
        target = copy / mutant.path
        target.write_text(broken(mutant, target.read_text()))
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"}
        tests = [name for name in ROOMS[world][1] if Path(name).exists()]
        commands = {
            "seeds": [sys.executable, "-c", SEEDS.format(world=world, first=0, end=seeds)],
            "tests": [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *tests],
        }
        for name, command in commands.items():
            if name == "seeds" and not seeds:
                continue
            try:
                done = subprocess.run(
                    command, env=environment, capture_output=True, text=True, timeout=seconds, check=False
                )
            except subprocess.TimeoutExpired:
                return f"{name}: out of time"
            if done.returncode:
                last = (done.stdout.strip() or done.stderr.strip() or "?").splitlines()[-1]
                return f"{name}: {last[:100]}"
    return "survived"


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, run, and write the list of draws and verdicts."""
    parser = argparse.ArgumentParser(description="Break drawn statements of shells and clients, one at a time.")
    parser.add_argument("--world", default="journals", choices=sorted(ROOMS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="continue with this draw")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args(arguments)
    rows, survived = [], 0
    drawn = draw(given.world, given.seed, given.first + given.count)[given.first :]
    for number, mutant in enumerate(drawn, given.first):
        found = verdict(mutant, given.world, given.seeds, given.seconds)
        survived += found == "survived"
        before = mutant.before.splitlines()[0].replace("|", "\\|")[:80]
        row = f"| {number} | `{mutant.path}:{mutant.line}` | {mutant.way} | `{before}` | {found.replace('|', '/')} |"
        rows.append(row)
        print(row, flush=True)
        if given.write is not None:
            given.write.write_text("\n".join([*_head(given, len(rows), survived), *rows, ""]))
    return 1 if survived else 0


def _head(given: argparse.Namespace, done: int, survived: int) -> list[str]:
    return [
        f"# Drawn mutants of {given.world}",
        "",
        f"Written by `python -m penstock_lab.world.drawn --world {given.world} --seed {given.seed}",
        f"--first {given.first} --count {given.count} --seeds {given.seeds}`.",
        f"{done} ran, {done - survived} were caught.",
        "",
        "| draw | place | way | statement | verdict |",
        "|---:|---|---|---|---|",
    ]


if __name__ == "__main__":
    raise SystemExit(main())
