"""The primary's side: epochs rise, a sync that cannot end is started again, only its own pipeline's answers count."""

from penstock.journals.records.api import Fate
from penstock.journals.records.messages import ProposeResponse, Refusal, RefuseResponse
from penstock.kernel.effects import Received
from penstock.kernel.ids import Instant
from penstock.kernel.probes import recording
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = map(broker, range(3))


def test_epochs_of_one_process_rise() -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    epochs = [world.sites[B0].replica.spool.epoch]
    for _ in range(3):
        world.cut(B0, B1)
        world.settle()
        world.pulse(B0)
        world.settle()
        epochs.append(world.sites[B0].replica.spool.epoch)
    assert epochs == sorted(set(epochs))


def test_a_new_route_lets_appends_in_flight_finish_first() -> None:
    world = JournalWorld().start(synchronized=True)
    append = world.append(B0)
    world.add(B2)
    world.mirror(B0)
    pipeline = world.sites[B0].replica.pipeline
    assert pipeline is not None
    assert pipeline.in_flight, "the older pipeline still has its append"
    world.settle()
    assert world.fate(append) is Fate.COMMITTED
    assert world.keys.is_consistent


def test_a_sync_which_waits_for_a_member_that_is_gone_is_begun_anew() -> None:
    """I15: b2 never promises, and is no longer in the Route."""
    world = JournalWorld().start(synchronized=True)
    world.add(B2)
    world.mirror(B0)
    world.expire(B2)
    world.links.clear()
    world.mirror(B0)
    world.settle(B0, B1)
    append = world.append(B0)
    world.settle(B0, B1)
    assert world.fate(append) is Fate.COMMITTED


def test_an_acknowledgement_of_no_member_or_another_epoch_counts_for_nothing() -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    append = world.append(B0)
    replica = world.sites[B0].replica
    pipeline = replica.pipeline
    assert pipeline is not None
    before = dict(pipeline.acked)
    reached: list[str] = []
    with recording(reached.append):
        for sender, n in ((B2, pipeline.epoch.n), (B1, pipeline.epoch.n + 1)):
            epoch = type(pipeline.epoch)(pipeline.epoch.revision, n)
            replica.step(Received(sender, ProposeResponse(replica.topology.create_revision, epoch, 9)), Instant(0))
    assert reached.count("journal.late_ack") == 2
    assert pipeline.acked == before
    world.settle()
    assert world.fate(append) is Fate.COMMITTED


def test_a_peer_which_refuses_breaks_a_pipeline_in_use() -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    replica = world.sites[B0].replica
    pipeline = replica.pipeline
    assert pipeline is not None
    promised = replica.spool.promised
    refusal = RefuseResponse(
        replica.topology.create_revision, pipeline.epoch, Refusal.PROPOSAL_MISMATCH, replica.topology.revision, promised
    )
    world.step(B0, Received(B1, refusal))
    assert replica.pipeline is None
    world.pulse(B0)
    world.settle()
    assert replica.pipeline is not None
    assert replica.pipeline.epoch > pipeline.epoch
