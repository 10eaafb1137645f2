"""A KeySpace of one journal, small enough to be copied in every step of a search: real transactions, real revisions."""

from collections.abc import Iterable

import msgspec

from penstock.journals.core.certify import head_key
from penstock.journals.records.head import HeadRecord
from penstock.journals.records.route import Assignment, Topology
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import NodeId, Revision
from penstock.keyspace.core.records import NO_REVISION, KeyValue, LeaseId
from penstock.keyspace.core.transaction import DeleteKey, Operation, PutKey, Transaction, execute

__all__ = ["JOURNAL", "ROOT", "Keys"]

ROOT = "/sim"
JOURNAL = "a/journal"
ITEM = f"{ROOT}/items/{JOURNAL}"
HEAD = head_key(ROOT, JOURNAL)
ASSIGN = f"{ROOT}/assign/{JOURNAL}#"


class Keys:
    """Keys, and their values at every revision: a mirror is a place in that history."""

    def __init__(self) -> None:
        self.revision = Revision(1)
        self.entries: dict[str, KeyValue] = {}
        self.history: tuple[Topology, ...] = (Topology(revision=Revision(0)), Topology(revision=Revision(1)))
        self.places: dict[tuple[int, Topology], int] = {}  # shared by all copies: one number for each history
        self.place = 0

    def copy(self) -> "Keys":
        other = Keys.__new__(Keys)
        other.__dict__.update(self.__dict__)
        other.entries = dict(self.entries)
        return other

    # as a transaction sees it

    def get(self, key: str) -> KeyValue | None:
        return self.entries.get(key)

    def range(self, prefix: str) -> Iterable[KeyValue]:
        return [entry for key, entry in self.entries.items() if key.startswith(prefix)]

    def has_lease(self, lease: LeaseId) -> bool:
        return lease > 0  # a key whose lease ended is gone, and every compare with it fails

    def transact(self, transaction: Transaction) -> bool:
        """Run it; whether its compares held."""
        done = execute(transaction, self, Revision(self.revision + 1))
        if done.writes:
            self.revision = Revision(self.revision + 1)
            for key, entry in done.writes.items():
                if entry is None:
                    self.entries.pop(key, None)
                else:
                    self.entries[key] = entry
            topology = self._topology()
            self.history = (*self.history, topology)
            self.place = self.places.setdefault((self.place, topology), len(self.places) + 1)
        return done.succeeded

    def change(self, *operations: Operation) -> None:
        assert self.transact(Transaction((), operations))

    # its content

    @property
    def now(self) -> Topology:
        return self.history[-1]

    @property
    def head(self) -> HeadRecord | None:
        return self.now.head

    def create(self, spec: JournalSpec) -> None:
        self.change(PutKey(ITEM, msgspec.msgpack.encode(spec)))

    def delete(self) -> None:
        """The journal goes, with its assignments; its head record stays, as a tombstone."""
        self.change(DeleteKey(ITEM), DeleteKey(ASSIGN, is_prefix=True))

    def assign(self, broker: NodeId, lease: LeaseId) -> None:
        """Give the journal to a broker, in the first free slot."""
        taken = {each.slot for each in self.now.assignments}
        slot = next(slot for slot in range(10) if slot not in taken)
        self.change(PutKey(f"{ASSIGN}{broker}#{slot}", b"", lease))

    def unassign(self, broker: NodeId) -> None:
        self.change(*(DeleteKey(each.key) for each in self.now.assignments if each.broker == broker))

    def promote(self, broker: NodeId) -> None:
        mine = next(each for each in self.now.assignments if each.broker == broker)
        self.change(DeleteKey(mine.key), PutKey(f"{ASSIGN}{broker}#0", b"", mine.lease))

    def expire(self, lease: LeaseId) -> None:
        gone = [key for key, entry in self.entries.items() if entry.lease == lease]
        if gone:
            self.change(*map(DeleteKey, gone))

    @property
    def is_consistent(self) -> bool:
        """J14: the head names the assigned members, and every assignment the Route."""
        topology, head = self.now, self.head
        return (
            head is not None
            and head.create_revision == topology.create_revision
            and tuple(member.broker for member in head.members) == topology.route.members
            and topology.is_advertised
        )

    def _topology(self) -> Topology:
        item, head = self.entries.get(ITEM), self.entries.get(HEAD)
        spec = None if item is None else msgspec.msgpack.decode(item.value, type=JournalSpec)
        return Topology.of(
            self.revision,
            NO_REVISION if item is None else item.create_revision,
            spec,
            [_assignment(entry) for key, entry in sorted(self.entries.items()) if key.startswith(ASSIGN)],
            None if head is None else msgspec.msgpack.decode(head.value, type=HeadRecord),
            NO_REVISION if head is None else head.mod_revision,
        )


def _assignment(entry: KeyValue) -> Assignment:
    broker, slot = entry.key.removeprefix(ASSIGN).split("#")
    return Assignment(
        entry.key, NodeId(broker), int(slot), entry.create_revision, entry.mod_revision, entry.lease, entry.value
    )
