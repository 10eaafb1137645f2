"""Drawn mutants: a seed draws the same ones again, each breaks one statement, and the source stays Python."""

import ast

from penstock_lab.world.drawn import ROOMS, ROOT, broken, draw
from penstock_lab.world.executed import Executed, statements_of


def test_draws_are_the_same_again_and_break_one_statement() -> None:
    drawn = draw("journals", 1, 40)
    assert drawn == draw("journals", 1, 40)
    assert len({each.path for each in drawn}) > 5
    for mutant in drawn:
        source = (ROOT / mutant.path).read_text()
        other = broken(mutant, source)
        assert other != source
        ast.parse(other)


def test_every_room_has_something_to_break() -> None:
    assert all(draw(room, 1, 3) for room in ROOMS)


def test_lines_that_ran_are_counted_by_folder() -> None:
    executed = Executed()
    path = ROOT / "journals" / "client" / "named_journal.py"
    executed.lines[str(path)] = set(list(statements_of(path.read_text()))[:5])
    [row] = [row for row in executed.table(["journals"]) if row[0] == "journals/client"]
    assert (row[2], row[1] > 500) == (5, True)
