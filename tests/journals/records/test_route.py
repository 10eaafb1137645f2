"""Route and topology: what a mirror says about one journal."""

import msgspec

from penstock.journals.records.route import Route, decoders, topology_of
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import NodeId, Revision
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.mirror import Mirror
from penstock.keyspace.core.records import KeySnapshot, KeyValue, LeaseId

SPEC = JournalSpec(name="a/journal", replication=2)


def entry(key: str, value: bytes = b"", revision: int = 3, lease: int = 0) -> KeyValue:
    return KeyValue(f"/r/{key}", value, Revision(revision), Revision(revision), 1, LeaseId(lease))


def mirror(*entries: KeyValue) -> Mirror:
    made = Mirror("/r/", decoders("/r"))
    made.load(KeySnapshot(Revision(20), tuple(sorted(entries, key=lambda one: one.key))))
    return made


ITEM = entry("items/a/journal", msgspec.msgpack.encode(SPEC), 2)
MEMBERS = (entry("assign/a/journal#eu#two#0", lease=7), entry("assign/a/journal#eu#one#1"))
OTHER = entry("assign/a/journal2#eu#one#0")


def test_the_route_is_what_the_assignments_imply() -> None:
    topology = topology_of(mirror(ITEM, *MEMBERS, OTHER), Layout("/r"), "a/journal")
    assert topology.route == Route((NodeId("eu#one"), NodeId("eu#two")), NodeId("eu#two"))
    assert (topology.revision, topology.create_revision, topology.spec) == (20, 2, SPEC)
    assert [each.lease for each in topology.assignments] == [0, 7]
    assert str(topology.route) == "eu#one eu#two*"


def test_a_broker_which_is_assigned_twice_serves_once() -> None:
    """Two transactions of the allocator, one of them late. No member can wait for the promise of its second
    assignment.
    """
    twice = entry("assign/a/journal#eu#two#2", lease=7)
    topology = topology_of(mirror(ITEM, *MEMBERS, twice), Layout("/r"), "a/journal")
    assert topology.route == Route((NodeId("eu#one"), NodeId("eu#two")), NodeId("eu#two"))
    assert len(topology.assignments) == 3


def test_a_journal_is_advertised_when_every_assignment_has_the_route() -> None:
    value = Route((NodeId("eu#one"), NodeId("eu#two")), NodeId("eu#two")).encode()
    advertised = [entry(each.key[3:], value) for each in MEMBERS]
    assert topology_of(mirror(ITEM, *advertised), Layout("/r"), "a/journal").is_advertised
    assert not topology_of(mirror(ITEM, advertised[0], MEMBERS[1]), Layout("/r"), "a/journal").is_advertised


def test_a_journal_which_is_gone_or_unreadable_has_no_members() -> None:
    for entries in (MEMBERS, (entry("items/a/journal", b"\xc1"), *MEMBERS)):
        topology = topology_of(mirror(*entries), Layout("/r"), "a/journal")
        assert (topology.spec, topology.create_revision, topology.route) == (None, 0, Route())


def test_an_assignment_given_again_is_another() -> None:
    before = topology_of(mirror(ITEM, *MEMBERS), Layout("/r"), "a/journal")
    again = topology_of(
        mirror(ITEM, MEMBERS[0], entry("assign/a/journal#eu#one#1", revision=9)), Layout("/r"), "a/journal"
    )
    assert again.route == before.route
    assert again.lives != before.lives
