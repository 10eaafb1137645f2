import pytest

from penstock.consumers.core.recoverylog.fsm import RecoveryFsm
from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.recorded_op import (
    Op,
    OpReader,
    RecordedCreate,
    RecordedLink,
    RecordedWrite,
    Unlink,
)
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.kernel.ids import Offset


def recorder() -> Recorder:
    return Recorder(RecoveryFsm(Hints("log")), author=7)


def ops(frames: bytes) -> list[Op]:
    return [read.recorded.op for read in OpReader(Offset(0)).feed(Offset(0), frames)]


def test_a_rename_is_links_and_unlinks_in_an_order_which_loses_nothing() -> None:
    mine = recorder()
    mine.create("a")
    mine.create("b")
    assert ops(mine.rename("a", "b")) == [Unlink(2, "b"), RecordedLink(1, "b"), Unlink(1, "a")]
    assert mine.rename("b", "b") == b""


def test_creating_what_is_there_is_truncating_it() -> None:
    mine = recorder()
    assert ops(mine.create("a")) == [RecordedCreate("a")]
    assert ops(mine.create("a")) == [Unlink(1, "a"), RecordedCreate("a")]
    assert ops(mine.write("a", 5, b"xy")) == [RecordedWrite(3, 5, 2)]


def test_what_is_not_there_cannot_be_changed() -> None:
    mine = recorder()
    with pytest.raises(NotFound, match="a is not in the recovery log"):
        mine.write("a", 0, b"")
    with pytest.raises(NotFound, match="a is not in the recovery log"):
        mine.rename("a", "b")
    mine.create("a")
    with pytest.raises(InvalidArgument, match="exists already"):
        mine.link("a", "a")
    with pytest.raises(InvalidArgument, match="at -1"):
        mine.write("a", -1, b"")


def test_hints_are_for_barriers_only() -> None:
    mine = recorder()
    first = mine.create("a")
    with pytest.raises(AssertionError, match="settle"):
        mine.hints()
    mine.acknowledged(mine.recorded_upto, Offset(len(first)))
    (segment,) = mine.hints().segments()
    assert (segment.first_offset, segment.last_offset) == (0, len(first))
    early = mine.recorded_upto
    mine.write("a", 0, b"x")
    mine.acknowledged(early, Offset(len(first)))
    with pytest.raises(AssertionError, match="settle"):
        mine.hints()
