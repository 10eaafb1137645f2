"""Every next step in the sources that begins with `penstock` is a command line that parses (E5)."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import CycloptsError
from tests.cli.failures import check_command, check_failure

from penstock.cli.main import command_tree
from penstock.cli.reference import commands
from penstock.cli.writing import READS

ROOT = Path(__file__).parents[2]
MISSING = {"penstock fsck x"}  # commands that the sources name and that do not exist; only shrinks


def next_steps(path: Path) -> Iterator[str]:
    """Yield the texts that a file gives as `next_step`, with `x` for each value of an f-string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.keyword(arg="next_step", value=ast.Constant(value=str(text))):
                yield text
            case ast.keyword(arg="next_step", value=ast.JoinedStr(values=parts)):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
            case _:
                pass


def test_every_command_in_a_next_step_parses() -> None:
    found = {
        text
        for path in (ROOT / "src").rglob("*.py")
        for text in next_steps(path)
        if text.startswith("penstock ") and text != "penstock x"
    }
    assert len(found) > 20
    wrong = set()
    for text in found:
        try:
            check_command(text)
        except CycloptsError:
            wrong.add(text)
    assert wrong <= MISSING


def test_commands_that_only_read_exist() -> None:
    existing = {tuple(command) for command in commands()} | {()}
    leaves = {
        (*chain,)
        for chain in READS
        if len(chain) == 3  # subcommands below a verb are not on the reference page
    }
    assert READS - leaves <= existing
    for chain in leaves:
        assert command_tree()[chain[0]][chain[1]][chain[2]] is not None


@pytest.mark.parametrize(
    "text",
    [
        "unknown: it may be there\nNext: penstock journals list\n",
        "error: x; nothing was written\nNothing was written.\n",
        "refused: x\nNothing was written.\nNext: penstock quorum add-node\n",
    ],
)
def test_the_check_of_failures_finds_mistakes(text: str) -> None:
    with pytest.raises((AssertionError, CycloptsError)):
        check_failure(text)
