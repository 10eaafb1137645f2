"""The pipeline's receive side: acknowledgements are cumulative, every member counts, the mark goes out when it must."""

from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import CloseStream
from penstock.journals.core.pipeline import Pipeline, PipelinePhase
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import MarkRequest, ProposeRequest
from penstock.journals.records.point import Point
from penstock.journals.records.route import Assignment, Topology
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.effects import Effect, Send
from penstock.kernel.ids import NodeId, Offset, Revision

ME, ONE, TWO = NodeId("b0"), NodeId("b1"), NodeId("b2")


def pipeline() -> tuple[Pipeline, list[Effect]]:
    out: list[Effect] = []
    assignments = [
        Assignment(f"k{slot}", broker, slot, Revision(3), Revision(3)) for slot, broker in enumerate((ME, ONE, TWO))
    ]
    topology = Topology.of(Revision(4), Revision(2), JournalSpec(name="a/journal"), assignments, None, Revision(0))
    made = Pipeline(ME, PipelineEpoch(Revision(4), 1), topology, None, Revision(0), out)
    made.phase = PipelinePhase.READY
    return made, out


def propose(made: Pipeline, end: int) -> int:
    return made.propose(Point(Offset(0), Offset(end)), Offset(0), None)


def test_a_proposal_is_done_when_every_member_has_acknowledged_it() -> None:
    made, out = pipeline()
    first, second = propose(made, 1), propose(made, 2)
    assert [effect.to for effect in out if isinstance(effect, Send)] == [ONE, TWO, ONE, TWO]
    assert made.acknowledge(ME, second) == []
    assert made.acknowledge(ONE, second) == [], "cumulative: the first is acknowledged with it"
    assert [entry.seq for entry in made.acknowledge(TWO, first)] == [first]
    assert [entry.end for entry in made.acknowledge(TWO, second)] == [2]
    assert made.acknowledge(TWO, first) == [], "an older one changes nothing"


def test_a_bare_mark_goes_out_only_if_no_proposal_told_it() -> None:
    made, out = pipeline()
    made.tell(Point(Offset(5), Offset(5)), Offset(5))
    assert all(isinstance(effect.message, ProposeRequest) for effect in out if isinstance(effect, Send))
    out.clear()
    made.send_mark(Offset(5))
    assert out == []
    made.send_mark(Offset(6))
    assert [type(effect.message) for effect in out if isinstance(effect, Send)] == [MarkRequest, MarkRequest]


def test_it_is_current_as_long_as_the_same_assignments_live() -> None:
    made, _ = pipeline()
    again = [
        Assignment(f"k{slot}", each.broker, slot, Revision(9), Revision(9))
        for slot, each in enumerate(made.topology.assignments)
    ]
    other = Topology.of(Revision(9), Revision(2), JournalSpec(name="a/journal"), again, None, Revision(0))
    assert made.is_current(made.topology)
    assert other.route == made.topology.route
    assert not made.is_current(other), "taken away and given again in between"


def test_the_limit_is_raised_ahead_of_need() -> None:
    made, _ = pipeline()
    assert made.needs_raise(Offset(0), JournalConfig(limit_step=10)), "there is no head yet"


def test_closing_ends_every_stream() -> None:
    made, out = pipeline()
    made.close()
    assert out == [CloseStream(ONE, made.epoch), CloseStream(TWO, made.epoch)]
