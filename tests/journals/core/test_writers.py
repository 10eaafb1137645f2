"""Writers as the primary sees them: dropped when they were idle for a day, known as long as they are not."""

import pytest

from penstock.journals.core import append_fsm
from penstock.journals.records.api import Fate, Status
from penstock.journals.records.registers import IDLE_NS, LOOK_NS, TIMES_FROM, Floor, Txn, floor_of, writers_of
from penstock.kernel.ids import SECOND, Instant, NodeId
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = (broker(number) for number in range(3))


def world_of(replication: int = 2) -> JournalWorld:
    return JournalWorld(replication=replication, size=3).start(synchronized=True)


def append(world: JournalWorld, writer: str, seq: int, primary: NodeId = B0) -> int:
    number = world.append(primary, txn=Txn(writer, seq), deadline=Instant(world.now + 60 * SECOND))
    world.settle()
    return number


def known(world: JournalWorld, primary: NodeId = B0) -> list[str]:
    return [label.name for label in writers_of(world.sites[primary].replica.spool.registers.labels)]


def pass_hours(world: JournalWorld, hours: int) -> None:
    world.now = Instant(world.now + hours * LOOK_NS)


def test_an_idle_writer_is_forgotten_after_a_day_and_its_repeat_refused() -> None:
    world = world_of()
    append(world, "early", 7)
    for hour in range(25):
        pass_hours(world, 1)
        append(world, "busy", hour + 1)
        assert ("txn.early" in known(world)) == (hour < 23), hour
    assert floor_of(world.sites[B0].replica.spool.registers) == Floor(counter=7)
    late, later = append(world, "early", 7), append(world, "early", 8)
    assert (world.answers[late].fate, world.answers[late].status) == (Fate.ABORTED, Status.WRITER_EXPIRED)
    assert world.answers[later].fate is Fate.COMMITTED
    assert IDLE_NS == 24 * LOOK_NS


def test_a_forgotten_writer_that_is_taken_for_new_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_fsm, "may_be_repeat", lambda *_: False)
    with pytest.raises(AssertionError):
        test_an_idle_writer_is_forgotten_after_a_day_and_its_repeat_refused()


def test_another_primary_keeps_writers_longer_not_shorter() -> None:
    world = world_of()
    append(world, "early", TIMES_FROM)
    pass_hours(world, 23)
    world.crash(B0)
    world.links.clear()
    world.fail_over(B1, B2)
    world.settle()
    for hour in range(25):
        append(world, "busy", hour + 1, B1)
        assert ("txn.early" in known(world, B1)) == (hour < 24), hour
        pass_hours(world, 1)
