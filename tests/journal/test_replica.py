"""A replica as a whole: demotion, another primary's epoch, leaving and coming back, another life, strange events."""

import msgspec
import pytest

from penstock.base.effects import Event, Received, Requested
from penstock.base.errors import InvalidArgument
from penstock.base.ids import Instant, Offset, RequestId, Revision
from penstock.base.probes import recording
from penstock.journal.api import Fate
from penstock.journal.effects import TopologyChanged
from penstock.journal.epoch import PipelineEpoch
from penstock.journal.head import EpochStart
from penstock.journal.pipeline import Phase
from penstock.sim.explorer_journal.world import World, broker

B0, B1, B2 = map(broker, range(3))
NOW = Instant(0)


def test_a_primary_which_hears_of_a_later_epoch_gives_up_its_pipeline() -> None:
    world = World().start(synchronized=True)
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
    assert replica.pipeline is None or replica.pipeline.phase is not Phase.READY


def test_epochs_of_one_process_rise() -> None:
    world = World(size=2).start(synchronized=True)
    epochs = [world.sites[B0].replica.spool.epoch]
    for _ in range(3):
        world.cut(B0, B1)
        world.settle()
        world.pulse(B0)
        world.settle()
        epochs.append(world.sites[B0].replica.spool.epoch)
    assert epochs == sorted(set(epochs))


def test_who_leaves_hands_over_and_may_come_back() -> None:
    world = World().start(synchronized=True)
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


def test_a_new_route_lets_appends_in_flight_finish_first() -> None:
    world = World().start(synchronized=True)
    append = world.append(B0)
    world.add(B2)
    world.mirror(B0)
    pipeline = world.sites[B0].replica.pipeline
    assert pipeline is not None
    assert pipeline.in_flight, "the older pipeline still has its append"
    world.settle()
    assert world.fate(append) is Fate.COMMITTED
    assert world.keys.is_consistent


def test_another_life_is_another_incarnation() -> None:
    world = World(size=2).start(synchronized=True)
    before = world.sites[B0].view.incarnation
    world.keys.delete()
    world.keys.create(world.spec)
    world.mirror(B0)
    assert world.sites[B0].view.incarnation != before
    assert world.sites[B0].view.epoch.n == 0


@pytest.mark.parametrize("event", [Event(), Received(B1, "gibberish"), Requested(RequestId(1), "gibberish")])
def test_what_a_replica_does_not_know_is_a_fault_of_its_shell(event: Event) -> None:
    world = World(size=2).start(synchronized=True)
    with pytest.raises(InvalidArgument):
        world.sites[B0].replica.step(event, NOW)


def test_a_sync_which_waits_for_a_member_that_is_gone_is_begun_anew() -> None:
    """I15: b2 never promises, and is no longer in the Route."""
    world = World().start(synchronized=True)
    world.add(B2)
    world.mirror(B0)
    world.expire(B2)
    world.links.clear()
    world.mirror(B0)
    world.settle(B0, B1)
    append = world.append(B0)
    world.settle(B0, B1)
    assert world.fate(append) is Fate.COMMITTED
