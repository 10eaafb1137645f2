"""Counts which statements of shipped code the worlds execute, and writes a table by folder.

    python -m penstock_lab.world.executed --worlds journals --seeds 0..20 --write docs/reports/world-statements.md

A line counts if it begins a statement inside a function: definitions run at import, whatever a world does.
"""

import argparse
import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import penstock
from penstock_lab.commands.sweep import parse_seeds
from penstock_lab.world.run import WORLDS, run_world

__all__ = ["Executed", "main", "statements_of"]

ROOT: Final = Path(penstock.__file__).parent
FOLDERS: Final = {
    "journals/broker": "journals",
    "journals/client": "journals",
    "journals/storage": "journals",
    "keyspace/shell": "journals",
    "plumbing/wire": "journals",
    "plumbing/wal": "quorum",
    "quorum/node": "quorum",
    "quorum/operator": "quorum",
    "quorum/client": "quorum",
    "lake/member": "lake",
    "lake/rest": "lake",
    "lake/s3": "lake",
    "lake/client": "lake",
    "consumers/worker": "consumers",
}


def statements_of(source: str) -> set[int]:
    """Return the first lines of all statements inside functions, without docstrings.

    >>> sorted(statements_of("import os\\n\\ndef f():\\n    'Do.'\\n    x = 1\\n    return x\\n"))
    [5, 6]
    """
    found: set[int] = set()
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                if isinstance(node, ast.stmt) and node is not function and not is_text:
                    found.add(node.lineno)
    return found


class Executed:
    """Notes the lines of shipped code that run. `begin` and `end` it around a world."""

    def __init__(self) -> None:
        self.lines: dict[str, set[int]] = {}
        self._prefix = str(ROOT)

    def begin(self) -> None:
        sys.settrace(self._call)

    def end(self) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(self._prefix):
            return None
        lines = self.lines.setdefault(name, set())

        def note(inner: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                lines.add(inner.f_lineno)
            return note

        return note

    def table(self, worlds: Sequence[str]) -> list[tuple[str, int, int]]:
        """Return (folder, statements, executed) for the folders of these worlds."""
        rows = []
        for folder, world in FOLDERS.items():
            if world not in worlds:
                continue
            there = ran = 0
            for path in sorted((ROOT / folder).rglob("*.py")):
                statements = statements_of(path.read_text())
                there += len(statements)
                ran += len(statements & self.lines.get(str(path), set()))
            rows.append((folder, there, ran))
        return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds and write the table."""
    parser = argparse.ArgumentParser(description="Which statements of shipped code the worlds execute.")
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--seeds", default="0..20")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args(arguments)
    worlds, executed = given.worlds.split(","), Executed()
    for world in worlds:
        for seed in range(*parse_seeds(given.seeds)):
            executed.begin()
            try:
                run_world(world, seed)
            finally:
                executed.end()
    lines = [
        "# Statements that the worlds execute",
        "",
        f"Written by `python -m penstock_lab.world.executed --worlds {given.worlds} --seeds {given.seeds}`.",
        "A statement counts if it is inside a function.",
        "",
        "| folder | statements | executed | share |",
        "|---|---:|---:|---:|",
    ]
    rows = executed.table(worlds)
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    lines += [f"| `{name}` | {there:,} | {ran:,} | {ran / max(1, there):.0%} |" for name, there, ran in rows]
    text = "\n".join([*lines, ""])
    if given.write is not None:
        given.write.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
