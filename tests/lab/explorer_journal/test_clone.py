"""Machines as values: a copy goes its own way, and equal states have equal keys."""

from penstock.journals.records.registers import NO_REGISTERS
from penstock.kernel.ids import Offset
from penstock_lab.explorer_journal.clone import cloned, key_of
from penstock_lab.explorer_journal.world import JournalWorld, broker

B0, B1 = broker(0), broker(1)


def test_a_copy_goes_its_own_way() -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    site = world.sites[B0]
    before = key_of(site)
    world.sites[B0] = cloned(site)
    assert key_of(world.sites[B0]) == before
    world.append(B0)
    assert key_of(site) == before, "the original has not moved"
    assert key_of(world.sites[B0]) != before


def test_what_belongs_together_stays_together() -> None:
    world = JournalWorld(size=2).start(synchronized=True)
    world.append(B0)
    replica = cloned(world.sites[B0]).replica
    assert replica.spool.out is replica.out
    assert replica.pipeline is not None
    assert replica.pipeline.in_flight[0].append is next(iter(replica.appends.values()))
    assert next(iter(replica.appends.values())).replica is replica


def test_two_ways_to_one_state_have_one_key() -> None:
    keys = []
    for order in ((B0, B1), (B1, B0)):
        world = JournalWorld(size=2).start()
        for name in order:
            world.mirror(name)
        world.settle()
        keys.append([key_of(world.sites[name]) for name in (B0, B1)])
    assert keys[0] == keys[1]


def test_a_key_has_what_only_the_replica_knows() -> None:
    """Content which no proposal covers yet is in the file like any other: only the core knows the difference."""
    keys = []
    for is_adopted in (False, True):
        world = JournalWorld(size=2).start(synchronized=True)
        site = world.sites[B1]
        if is_adopted:
            site.replica.spool.points.append(site.replica.spool.head.extended(Offset(1), b"s" * 20, NO_REGISTERS))
        else:
            site.replica.spool.pending = 1
        keys.append(key_of(site))
    assert keys[0] != keys[1]
