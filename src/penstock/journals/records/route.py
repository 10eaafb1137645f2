"""Route and topology: who serves a journal, as one revision of the KeySpace says it. Design: transactional-appends.rst.

`Topology` is all that the append core ever learns from the KeySpace: the shell cuts it out of its mirror. Everything in
one value is of the same revision.
"""

from collections.abc import Iterable

import msgspec

from penstock.journals.records.head import HeadRecord
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.mirror import Decoder, Mirror
from penstock.keyspace.core.records import NO_LEASE, NO_REVISION, LeaseId

__all__ = ["Assignment", "Route", "Topology", "decoders", "topology_of"]


class Route(msgspec.Struct, frozen=True, array_like=True):
    """The brokers of a journal, sorted, and which of them is the primary. Two are equivalent when they are equal."""

    members: tuple[NodeId, ...] = ()
    primary: NodeId | None = None

    def encode(self) -> bytes:
        """Return the form in the value of an assignment."""
        return msgspec.msgpack.encode(self)

    def __str__(self) -> str:
        return " ".join(f"{member}*" if member == self.primary else member for member in self.members) or "nobody"


class Assignment(msgspec.Struct, frozen=True, gc=False):
    """One key which says that a broker serves the journal; slot 0 is the primary's."""

    key: str
    broker: NodeId
    slot: int
    create_revision: Revision
    mod_revision: Revision
    lease: LeaseId = NO_LEASE
    value: bytes = b""  # the Route its journal was last synchronized on; empty when it is new


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """A journal at one revision of the KeySpace."""

    revision: Revision  # how far the mirror has come, whatever it was that changed
    create_revision: Revision = NO_REVISION  # of the journal's item; NO_REVISION: there is no such journal
    spec: JournalSpec | None = None
    assignments: tuple[Assignment, ...] = ()
    head: HeadRecord | None = None
    head_revision: Revision = NO_REVISION  # the head record's mod revision
    route: Route = Route()
    lives: tuple[tuple[str, Revision], ...] = ()  # the assignments as they were created: one given again is another

    @classmethod
    def of(
        cls,
        revision: Revision,
        create_revision: Revision,
        spec: JournalSpec | None,
        assignments: Iterable[Assignment],
        head: HeadRecord | None,
        head_revision: Revision,
    ) -> "Topology":
        """A topology with the Route which its assignments imply.

        A broker may be assigned twice: by a transaction of the allocator which came late, after another had been made
        in its place. It serves the journal once, and no other member waits for its second assignment.
        """
        kept = tuple(sorted(assignments, key=lambda each: each.broker)) if spec is not None else ()
        primary = next((each.broker for each in kept if each.slot == 0), None)
        return cls(
            revision=revision,
            create_revision=create_revision if spec is not None else NO_REVISION,
            spec=spec,
            assignments=kept,
            head=head,
            head_revision=head_revision,
            route=Route(tuple(dict.fromkeys(each.broker for each in kept)), primary),
            lives=tuple((each.key, each.create_revision) for each in kept),
        )

    @property
    def begin(self) -> Offset:
        """Return where this life of the journal begins, or will begin: content below is of a former life."""
        if self.head is None:
            return Offset(0)
        return self.head.begin if self.head.create_revision == self.create_revision else self.head.limit

    @property
    def is_advertised(self) -> bool:
        """Return whether every assignment says that the journal is synchronized on this very Route."""
        value = self.route.encode()
        return all(each.value == value for each in self.assignments)


def decoders(root: str) -> dict[str, Decoder]:
    """Return decoders for a mirror of the cluster's keys: for the values of items and head records."""
    return {
        f"{root}/items/": lambda _, value: msgspec.msgpack.decode(value, type=JournalSpec),
        f"{root}/heads/": lambda _, value: msgspec.msgpack.decode(value, type=HeadRecord),
    }


def topology_of(mirror: Mirror, layout: Layout, journal: str) -> Topology:
    """A journal as the mirror has it now. A spec which does not decode is none."""
    item, head = mirror.get(f"{layout.root}/items/{journal}"), mirror.get(f"{layout.root}/heads/{journal}")
    assignments: list[Assignment] = []
    prefix = f"{layout.assignments}{journal}#"
    for entry in mirror.range(prefix):
        broker, _, slot = entry.key[len(prefix) :].rpartition("#")
        stored = entry.stored
        assignments.append(
            Assignment(
                entry.key,
                NodeId(broker),
                int(slot),
                stored.create_revision,
                stored.mod_revision,
                stored.lease,
                stored.value,
            )
        )
    has_spec = item is not None and isinstance(item.value, JournalSpec)
    return Topology.of(
        mirror.revision,
        item.stored.create_revision if item is not None else NO_REVISION,
        item.value if item is not None and has_spec else None,
        assignments,
        head.value if head is not None and isinstance(head.value, HeadRecord) else None,
        head.stored.mod_revision if head is not None else NO_REVISION,
    )
