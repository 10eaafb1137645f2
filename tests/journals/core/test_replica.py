"""A replica as a whole: demotion, another primary's epoch, leaving and coming back, another life, strange events."""

import msgspec
import pytest

from penstock.journals.core.effects import TopologyChanged
from penstock.journals.core.pipeline import PipelinePhase
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EpochStart
from penstock.kernel.effects import Event, Received, Requested
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Instant, Offset, RequestId, Revision
from penstock.kernel.probes import recording
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = map(broker, range(3))
NOW = Instant(0)


def test_a_primary_which_hears_of_a_later_epoch_gives_up_its_pipeline() -> None:
    world = JournalWorld().start(synchronized=True)
    replica = world.sites[B0].replica
    topology, head = replica.topology, replica.head
    assert head is not None
    later = PipelineEpoch(Revision(topology.revision + 1), 1)
    moved = msgspec.structs.replace(head, epoch=later, table=head.table.with_entry(EpochStart(later, Offset(0))))
    reached: list[str] = []
    with recording(reached.append):
        revision = Revision(topology.revision + 1)
        world.step(
            B0,
            TopologyChanged(msgspec.structs.replace(topology, revision=revision, head=moved, head_revision=revision)),
        )
    assert "journal.superseded" in reached
    assert replica.pipeline is None or replica.pipeline.phase is not PipelinePhase.READY


def test_who_leaves_hands_over_and_may_come_back() -> None:
    world = JournalWorld().start(synchronized=True)
    first = world.append(B0)
    world.settle()
    world.add(B2)
    world.settle()
    world.remove(B1)
    world.settle()
    assert [(each.begin, each.end) for each in world.sites[B1].uploads] == [(0, 1)]
    world.add(B1)
    world.settle()
    world.remove(B2)
    world.settle()
    second = world.append(B0)
    world.settle()
    assert world.checks.truth == {0: first, 1: second}


def test_another_life_is_another_incarnation() -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    before = world.sites[B0].view.incarnation
    world.keys.delete()
    world.keys.create(world.spec)
    world.mirror(B0)
    assert world.sites[B0].view.incarnation != before
    assert world.sites[B0].view.epoch.n == 0


@pytest.mark.parametrize("event", [Event(), Received(B1, "gibberish"), Requested(RequestId(1), "gibberish")])
def test_what_a_replica_does_not_know_is_a_fault_of_its_shell(event: Event) -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    with pytest.raises(InvalidArgument):
        world.sites[B0].replica.step(event, NOW)
