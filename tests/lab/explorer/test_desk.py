"""An operator and the metadata, step by step."""

import pytest

from penstock.kernel.ids import Epoch, NodeId, Revision
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import Activity, Operator
from penstock.quorum.records.messages import FenceRequest
from penstock.quorum.records.metadata import Metadata, Status, WriteMetadata
from penstock_lab.explorer.desk import Cell, Desk, DeskStep
from penstock_lab.explorer.desks import member

BLANK = Cell(Metadata(tuple(map(member, "ABC"))), Revision(1))


def opened() -> DeskStep:
    return Desk.open(NodeId("op1"), Operator, OperatorConfig())


def test_an_operator_reads_writes_and_fences() -> None:
    step = opened()
    assert step.reads
    step = step.desk.read(BLANK)
    (write,) = step.desk.writes
    cell, written = BLANK.write(write)
    assert (cell.metadata.epoch, cell.metadata.status, cell.revision) == (1, Status.ELECTION, 2)
    step = step.desk.written(written)
    assert [(to, type(message)) for to, message in step.sent] == [(name, FenceRequest) for name in "ABC"]
    assert step.desk.operator.activity is Activity.ELECTING
    assert step.desk.epoch == 1


def test_a_late_tick_starts_another_election_and_an_early_one_asks_again() -> None:
    step = opened().desk.read(BLANK)
    _, written = BLANK.write(step.desk.writes[0])
    electing = step.desk.written(written).desk
    again = electing.tick(is_late=False)
    assert {to for to, _ in again.sent} == set("ABC")
    assert again.desk.fingerprint() == electing.fingerprint()
    assert [write.metadata.epoch for write in electing.tick(is_late=True).desk.writes] == [2]


def test_a_race_is_lost_by_who_has_read_too_early() -> None:
    write = opened().desk.read(BLANK).desk.writes[0]
    newer = Cell(BLANK.metadata, Revision(7))
    cell, written = newer.write(write)
    assert cell == newer
    assert not written.is_written


def test_the_epoch_never_falls() -> None:
    cell = Cell(Metadata(BLANK.metadata.ensemble, Epoch(3)), Revision(5))
    with pytest.raises(AssertionError, match="I27"):
        cell.write(WriteMetadata(Metadata(BLANK.metadata.ensemble, Epoch(2)), Revision(5)))


def test_a_step_leaves_the_desk_it_started_from_as_it_was() -> None:
    desk = opened().desk
    before = desk.fingerprint()
    desk.read(BLANK)
    assert desk.fingerprint() == before
