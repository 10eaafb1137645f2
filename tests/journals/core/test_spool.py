"""The Spool: commits, roll-backs, rolls, marks, trims; the Fragments it hands over, and those it sets aside."""

import pytest

from penstock.journals.core.effects import CutSpool, DropSpool, RollSpool, SetAside, ShowMark, Upload, WriteContent
from penstock.journals.core.spool import Spool, SpoolState, length_of
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, EpochStart, HeadTable
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.point import Point
from penstock.journals.records.registers import NO_REGISTERS, Origin, Registers
from penstock.kernel.effects import Effect, SaveState
from penstock.kernel.ids import Incarnation, Offset, Revision


def epoch(revision: int) -> PipelineEpoch:
    return PipelineEpoch(Revision(revision), 1)


def registers(number: int) -> Registers:
    return Registers(LabelSet.of(last=str(number)), Origin.WRITTEN)


def sum_of(number: int) -> bytes:
    return bytes([number]) * 20


def point(begin: int, end: int) -> Point:
    """Every append has length one and leaves its end in the registers."""
    if begin == end:
        return Point(Offset(begin), Offset(end), registers=registers(end) if end else NO_REGISTERS)
    return Point(Offset(begin), Offset(end), sum_of(end), registers(end))


class Stage:
    def __init__(self, *, is_kept: bool = False) -> None:
        self.out: list[Effect] = []
        self.spool = Spool("a/journal", Incarnation("one"), self.out, is_kept=is_kept)
        self.spool.epoch = self.spool.promised = epoch(5)

    def taken(self) -> list[Effect]:
        effects = self.out[:]
        self.out.clear()
        self.spool.check()
        return effects

    def commit(self, count: int) -> None:
        for _ in range(count):
            head = self.spool.head
            end = head.end + 1
            self.spool.write(b"x")
            made = point(head.begin, end)
            assert self.spool.adopts(made, sum_of(end))
            self.spool.adopt(made)

    def synchronize(self, to: int, at: Point, table: HeadTable = EMPTY_TABLE, head: PipelineEpoch = NO_EPOCH) -> None:
        self.spool.promised = epoch(to)
        self.spool.synchronize(epoch(to), at, table, head)

    def uploads(self) -> list[tuple[int, int]]:
        return [(one.fragment.begin, one.fragment.end) for one in self.taken() if isinstance(one, Upload)]


def test_a_commit_covers_exactly_what_was_written() -> None:
    stage = Stage()
    stage.spool.write(memoryview(b"ab"))
    assert stage.taken() == [WriteContent(memoryview(b"ab"))]
    good = Point(Offset(0), Offset(2), sum_of(1), registers(1))
    assert not stage.spool.adopts(good, sum_of(2)), "another sum"
    assert not stage.spool.adopts(Point(Offset(0), Offset(3), sum_of(1), registers(1)), sum_of(1)), "another end"
    assert not stage.spool.adopts(Point(Offset(1), Offset(2), sum_of(1), registers(1)), sum_of(1)), "another begin"
    assert stage.spool.adopts(good, sum_of(1))
    stage.spool.adopt(good)
    assert (stage.spool.end, stage.spool.registers, stage.spool.pending) == (2, registers(1), 0)
    assert stage.taken() == [], "what is adopted is not yet seen"


def test_the_same_proposal_again_rolls_back() -> None:
    stage = Stage()
    stage.commit(1)
    stage.spool.write(b"more")
    stage.taken()
    assert stage.spool.adopts(point(0, 1), b"whatever")
    stage.spool.adopt(point(0, 1))
    assert stage.taken() == [CutSpool(point(0, 1))]


def test_a_fragment_is_handed_over_when_the_mark_has_passed_its_roll() -> None:
    stage = Stage()
    stage.commit(2)
    stage.taken()
    stage.spool.advance_mark(Offset(2))
    assert stage.taken() == [ShowMark(Offset(2), stage.spool.epoch)]
    stage.spool.adopt(stage.spool.head.rolled())
    rolled, upload = stage.taken()
    assert isinstance(rolled, RollSpool)
    assert isinstance(upload, Upload)
    assert (upload.fragment.begin, upload.fragment.end, upload.fragment.sum) == (0, 2, sum_of(2))
    stage.commit(1)
    assert stage.uploads() == []


def test_a_trim_goes_back_to_a_point_with_its_registers_and_sum() -> None:
    stage = Stage()
    stage.commit(3)
    stage.spool.advance_mark(Offset(1))
    stage.taken()
    stage.spool.trim(Offset(2))
    assert stage.taken() == [CutSpool(point(0, 2))]
    assert stage.spool.registers == registers(2)
    with pytest.raises(AssertionError):
        stage.spool.trim(Offset(0))


def test_a_sync_which_is_not_certified_can_be_taken_back_over_its_roll() -> None:
    """304: the Fragment before the roll is not final until the mark passes it."""
    stage = Stage()
    stage.commit(3)
    stage.synchronize(6, point(0, 3).rolled())
    assert stage.uploads() == []
    stage.synchronize(7, point(0, 2).rolled())
    assert stage.uploads() == []
    stage.spool.advance_mark(Offset(2))
    assert stage.uploads() == [(0, 2)]


def test_who_is_no_participant_keeps_what_the_first_later_epoch_allows() -> None:
    stage = Stage()
    stage.commit(3)
    table = HeadTable((EpochStart(epoch(6), Offset(1)), EpochStart(epoch(8), Offset(3))))
    stage.synchronize(9, point(3, 3), table, epoch(8))
    assert stage.uploads() == [(0, 1)]
    assert (stage.spool.end, stage.spool.epoch, stage.spool.mark) == (3, epoch(9), 0)


def test_a_tail_whose_entry_was_dropped_is_set_aside() -> None:
    stage = Stage()
    stage.commit(2)
    stage.spool.advance_mark(Offset(1))
    stage.taken()
    table = HeadTable((EpochStart(epoch(9), Offset(5)),), is_cut=True)
    stage.spool.close(table)
    effects = stage.taken()
    assert [effect for effect in effects if isinstance(effect, SetAside)]
    assert [(one.fragment.end) for one in effects if isinstance(one, Upload)] == [1], "what was marked is certain"


def test_a_fit_is_asked_before_anything_is_changed() -> None:
    stage = Stage()
    stage.commit(1)
    assert stage.spool.fits(point(0, 1), NO_EPOCH)
    assert not stage.spool.fits(Point(Offset(0), Offset(1), sum_of(9), registers(1)), NO_EPOCH)
    assert stage.spool.fits(point(7, 7), epoch(9)), "who is no participant begins anew anywhere"


def test_another_life_drops_everything() -> None:
    stage = Stage()
    stage.commit(2)
    stage.taken()
    stage.spool.discard(Incarnation("two"), Revision(40))
    assert stage.taken() == [DropSpool()]
    assert (stage.spool.end, stage.spool.epoch, stage.spool.promised) == (0, NO_EPOCH, NO_EPOCH)


def test_a_kept_spool_comes_back_as_it_was_saved() -> None:
    stage = Stage(is_kept=True)
    stage.commit(2)
    stage.spool.advance_mark(Offset(1))
    stage.spool.save()
    saved = stage.taken()[-1]
    assert isinstance(saved, SaveState)
    assert isinstance(saved.state, SpoolState)
    again = Spool.recover("a/journal", saved.state, [])
    assert (again.points, again.mark, again.epoch) == (stage.spool.points, 1, epoch(5))
    assert again.is_kept


def test_lengths_are_bytes() -> None:
    assert length_of(b"abc") == 3
    assert length_of(memoryview(bytearray(8)).cast("I")) == 8
