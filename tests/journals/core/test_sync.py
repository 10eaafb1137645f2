"""Where a journal continues: the smallest end of the participants, with the registers there."""

from penstock.journals.core.sync import SyncDecision, decide, decide_reset
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import HeadRecord, HeadTable
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.messages import PromiseResponse
from penstock.journals.records.point import Point
from penstock.journals.records.registers import LOST_REGISTERS, NO_REGISTERS, Origin, Registers
from penstock.kernel.ids import Incarnation, NodeId, Offset, Revision

LIFE = Revision(2)
OLD, HEAD = PipelineEpoch(Revision(4), 1), PipelineEpoch(Revision(7), 1)


def point(begin: int, end: int, mark: str = "x") -> Point:
    registers = Registers(LabelSet.of(last=f"{mark}{end}"), Origin.WRITTEN)
    return Point(Offset(begin), Offset(end), mark.encode() * 20 if end > begin else bytes(20), registers)


def promise(epoch: PipelineEpoch, *points: Point) -> PromiseResponse:
    return PromiseResponse(LIFE, PipelineEpoch(Revision(9), 1), Incarnation("i"), epoch, Offset(0), points)


def head(limit: int = 1_000, life: Revision = LIFE) -> HeadRecord:
    return HeadRecord(
        create_revision=life,
        epoch=HEAD,
        start=Offset(0),
        members=(),
        primary=NodeId("a"),
        registers=NO_REGISTERS,
        limit=Offset(limit),
        table=HeadTable(),
    )


def members(*promises: PromiseResponse) -> dict[NodeId, PromiseResponse]:
    return {NodeId(f"b{number}"): each for number, each in enumerate(promises)}


def test_all_equal_members_go_on_with_their_fragment() -> None:
    same = promise(HEAD, point(0, 3))
    assert decide(head(), LIFE, members(same, same)) == SyncDecision(point(0, 3))


def test_the_smallest_end_counts_with_its_registers() -> None:
    longer = promise(HEAD, point(0, 3), point(0, 4))
    assert decide(head(), LIFE, members(longer, promise(HEAD, point(0, 3)))) == SyncDecision(point(0, 3))


def test_a_new_member_makes_everybody_roll() -> None:
    new = promise(PipelineEpoch(Revision(0), 0), Point(Offset(0), Offset(0)))
    assert decide(head(), LIFE, members(promise(HEAD, point(0, 3)), new)) == SyncDecision(point(0, 3).rolled())


def test_a_spool_of_an_older_epoch_has_no_say_however_long_it_is() -> None:
    stale = promise(OLD, point(0, 9, "y"))
    assert decide(head(), LIFE, members(promise(HEAD, point(0, 3)), stale)) == SyncDecision(point(0, 3).rolled())


def test_without_participants_the_head_is_lost() -> None:
    assert decide(head(), LIFE, members(promise(OLD, point(0, 9)))) is None


def test_a_virgin_journal_begins_at_nothing() -> None:
    empty = promise(PipelineEpoch(Revision(0), 0), Point(Offset(0), Offset(0)))
    assert decide(None, LIFE, members(empty, empty)) == SyncDecision(Point(Offset(0), Offset(0)))


def test_another_life_begins_above_all_the_old_one_ever_wrote() -> None:
    empty = promise(PipelineEpoch(Revision(0), 0), Point(Offset(0), Offset(0)))
    decision = decide(head(limit=500), Revision(30), members(empty))
    assert decision == SyncDecision(Point(Offset(500), Offset(500)), is_reset=True)


def test_a_reset_begins_at_the_limit_with_registers_nobody_knows() -> None:
    decision = decide_reset(Offset(500))
    assert decision == SyncDecision(Point(Offset(500), Offset(500), registers=LOST_REGISTERS), is_reset=True)
