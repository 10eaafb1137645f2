"""The KeySpace of the explorer: revisions, slots, leases, and what J14 calls consistent."""

from penstock.keyspace.core.records import LeaseId
from penstock_lab.explorer_journal.keys import Keys
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1, B2 = map(broker, range(3))


def test_every_change_is_a_revision_with_its_own_topology() -> None:
    keys = Keys()
    keys.create(JournalWorld().spec)
    keys.assign(B0, LeaseId(1))
    keys.assign(B1, LeaseId(2))
    assert [topology.revision for topology in keys.history] == [0, 1, 2, 3, 4]
    assert str(keys.now.route) == "b0* b1"
    keys.expire(LeaseId(1))
    assert (str(keys.now.route), keys.now.route.primary) == ("b1", None)
    keys.promote(B1)
    assert str(keys.now.route) == "b1*"


def test_a_copy_goes_its_own_way() -> None:
    keys = Keys()
    keys.create(JournalWorld().spec)
    other = keys.copy()
    other.assign(B0, LeaseId(1))
    assert (len(keys.history), len(other.history)) == (3, 4)
    assert keys.place != other.place
    keys.assign(B0, LeaseId(1))
    assert keys.place == other.place, "the same history has the same number"


def test_consistent_is_what_the_head_and_every_assignment_say() -> None:
    world = JournalWorld().start()
    assert not world.keys.is_consistent
    world.settle()
    assert world.keys.is_consistent
    world.add(B2)
    assert not world.keys.is_consistent
    world.settle()
    assert world.keys.is_consistent
    assert world.may_remove(B0)
    world.remove(B0)
    assert not world.keys.is_consistent
