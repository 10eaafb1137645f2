import io

import pytest
from rich.console import Console
from tests.cli.terminal import Golden, Penstock

from penstock.cli.main import command_tree
from penstock.cli.reference import commands

PAGES = [[], *commands()]


def test_the_first_page(penstock: Penstock, golden: Golden) -> None:
    outcome = penstock("--help")
    assert outcome.stderr == ""
    golden("help", outcome.stdout)


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=["none", "long", "short"])
def test_without_a_command_the_first_page_is_shown(penstock: Penstock, arguments: list[str]) -> None:
    assert penstock(*arguments).stdout == penstock("--help").stdout


def test_a_noun_without_a_verb_shows_its_page(penstock: Penstock, golden: Golden) -> None:
    outcome = penstock("config")
    assert outcome.status == 0
    assert outcome.stdout == penstock("config", "--help").stdout
    golden("help-config", outcome.stdout)


def test_a_command_with_arguments_and_flags(penstock: Penstock, golden: Golden) -> None:
    golden("help-bench", penstock("bench", "--help").stdout)


@pytest.mark.parametrize("arguments", PAGES, ids=lambda arguments: " ".join(["penstock", *arguments]))
@pytest.mark.parametrize("width", [80, 120])
def test_every_page_fits_the_terminal_and_has_examples_to_try(arguments: list[str], width: int) -> None:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    command_tree().help_print(arguments, console=console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert not [line for line in lines if line != line.rstrip()], "blanks at the end of a line, or one was folded"
    examples = lines[lines.index("Examples") + 1 :]
    assert examples
    assert all(line.startswith("  ") and "penstock" in line for line in examples)
    assert any("penstock " + " ".join(arguments) in line for line in examples)
