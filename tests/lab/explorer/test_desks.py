"""Operators with the metadata they read and write, as one step."""

from penstock.kernel.ids import NodeId, Revision
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import Operator
from penstock.quorum.records.messages import ChangeOp
from penstock.quorum.records.metadata import Metadata, Status
from penstock_lab.explorer.desk import Cell, Desk
from penstock_lab.explorer.desks import DeskMove, Desks, member
from penstock_lab.explorer.happenings import AnswerHappened, Asked, Happening, Restarted, Ticked
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.letters import Letter, Standing
from penstock_lab.explorer.setup import Setup


def desks(setup: Setup, metadata: Metadata) -> tuple[Desks, int, int]:
    """A table with one operator which has just read this metadata."""
    table = Desks(setup, Operator, Interned[Happening](), Interned[Letter](), Interned[Standing]())
    opened = Desk.open(NodeId("op1"), Operator, OperatorConfig())
    move = table.settle(opened, Cell(metadata, Revision(1)))
    assert move is not None
    return table, move.desk, move.cell


STEADY = Metadata(tuple(map(member, "ABC")), Metadata(()).epoch, Status.STEADY_STATE, member("A"), is_formed=True)


def happen(table: Desks, desk: int, cell: int, happening: Happening) -> DeskMove | None:
    move = table.move(desk, cell, table.happenings.id_of(happening))
    assert move is None or isinstance(move, DeskMove)
    return move


def test_an_election_is_written_and_fenced_in_one_step() -> None:
    table, desk, cell = desks(Setup("one election", epochs=1), STEADY)
    move = happen(table, desk, cell, Ticked(is_late=True))
    assert move is not None
    assert table.cells[move.cell].metadata.status is Status.ELECTION
    assert len(move.letters) == 3


def test_beyond_the_last_epoch_nothing_happens() -> None:
    table, desk, cell = desks(Setup("no election", epochs=0), STEADY)
    assert happen(table, desk, cell, Ticked(is_late=True)) is None


def test_with_a_slow_keyspace_the_write_is_a_step_of_its_own() -> None:
    table, desk, cell = desks(Setup("one election", epochs=1, has_slow_keyspace=True), STEADY)
    move = happen(table, desk, cell, Ticked(is_late=True))
    assert move is not None
    assert (move.cell, move.letters) == (cell, ())
    assert table.views[move.desk].is_writing
    answered = happen(table, move.desk, move.cell, AnswerHappened())
    assert answered is not None
    assert len(answered.letters) == 3


def test_a_change_is_asked_for_and_prepared() -> None:
    table, desk, cell = desks(Setup("a contraction", epochs=1), STEADY)
    assert table.views[desk].is_watching
    move = happen(table, desk, cell, Asked(ChangeOp.CONTRACT, "B", ""))
    assert move is not None
    assert table.cells[move.cell].metadata.status is Status.RECONFIGURATION
    assert [table.letters[letter].to for letter in move.letters] == ["A"]


def test_a_restarted_operator_is_a_new_one() -> None:
    table, desk, cell = desks(Setup("one election", epochs=2), STEADY)
    electing = happen(table, desk, cell, Ticked(is_late=True))
    assert electing is not None
    restarted = happen(table, electing.desk, electing.cell, Restarted())
    assert restarted is not None
    assert table.cells[restarted.cell].metadata.epoch == 2, "an epoch found in the metadata is never resumed"
