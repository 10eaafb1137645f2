"""How journals are allocated to brokers: what the allocator must know about specs, brokers and head records.

Design: journals.md J14, J5. A journal is consistent when its head record names the very brokers which are assigned, and
every assignment says that it was synchronized on this Route. A broker is taken away only then, and only under that head
record. A journal whose head is lost prefers brokers which hold its last bytes.

    {root}/loads/{journal}      bytes per second, as its primary measured them; without it only the number counts
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from penstock.journals.records.head import HeadRecord
from penstock.journals.records.route import Route
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import NodeId
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.allocator.policy import Capacity, Demand
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.records import NO_REVISION
from penstock.keyspace.core.transaction import Compare, is_at

__all__ = ["BrokerSpec", "JournalPolicy", "decode_load", "encode_load"]

_RATE: Final = 1 << 20  # bytes per second which cost a broker as much as having the journal at all


class BrokerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, as its member key says it."""

    endpoint: str  # where peers and clients reach it
    limit: int = 1_024  # journals
    is_exiting: bool = False

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, value: bytes) -> "BrokerSpec":
        try:
            return msgspec.msgpack.decode(value, type=cls)
        except msgspec.MsgspecError as error:
            raise InvalidArgument(f"not the value of a broker: {error}") from None


def encode_load(bytes_per_s: float) -> bytes:
    """The value of a load key."""
    return msgspec.msgpack.encode(float(bytes_per_s))


def decode_load(value: bytes) -> float:
    """Return the rate in a load key; 0 for a malformed one."""
    try:
        rate = msgspec.msgpack.decode(value, type=float)
    except msgspec.MsgspecError:
        return 0.0
    return rate if 0 <= rate < 1e15 else 0.0


class JournalPolicy:
    """Reads the values of one cluster's keys; `get` is its mirror's, which decodes specs and head records."""

    def __init__(self, layout: Layout, get: Callable[[str], MirrorEntry | None]) -> None:
        self._layout = layout
        self._get = get
        self._heads = f"{layout.root}/heads/"
        self._loads = f"{layout.root}/loads/"

    def demand(self, item: MirrorEntry) -> Demand | None:
        if not isinstance(item.value, JournalSpec):
            return None
        return Demand(item.value.replication, 1 + self._rate(item.value.name) / _RATE)

    def _rate(self, journal: str) -> float:
        entry = self._get(self._loads + journal)
        return 0.0 if entry is None else decode_load(entry.stored.value)

    def capacity(self, member: MirrorEntry) -> Capacity:
        broker = BrokerSpec.decode(member.stored.value)
        return Capacity(broker.limit, broker.is_exiting)

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        """Return all of them as consistent, or none: a journal is synchronized as a whole."""
        places = [self._layout.parse_assignment(entry.key) for entry in assignments]
        members = tuple(sorted({NodeId(place.member) for place in places if place is not None}))
        primary = next((NodeId(place.member) for place in places if place is not None and place.slot == 0), None)
        value = Route(members, primary).encode()
        head = self._head(item)
        is_synchronized = (
            head is not None
            and head.create_revision == item.stored.create_revision
            and tuple(sorted(member.broker for member in head.members)) == members
            and all(entry.stored.value == value for entry in assignments)
        )
        return [is_synchronized] * len(assignments)

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        key = self._heads + self._name(item)
        entry = self._get(key)
        return [is_at(key, NO_REVISION if entry is None else entry.stored.mod_revision)]

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        head = self._head(item)
        if head is None or head.create_revision != item.stored.create_revision:
            return ()
        return [str(member.broker) for member in head.members]

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        """J14: enough brokers remain, and among them one that was named by the last certification, in this run."""
        spec, head = item.value, self._head(item)
        if not isinstance(spec, JournalSpec):
            return False
        if head is None or head.create_revision != item.stored.create_revision:
            return len(rest) + coming >= spec.replication
        had = {str(member.broker) for member in head.members}
        places = [(entry, self._layout.parse_assignment(entry.key)) for entry in rest]
        takes_part = any(entry.stored.value and place is not None and place.member in had for entry, place in places)
        return takes_part and len(rest) + coming >= spec.fewest

    def item_of(self, key: str) -> str | None:
        for prefix in (self._heads, self._loads):
            if key.startswith(prefix):
                return key[len(prefix) :]
        return None

    def _head(self, item: MirrorEntry) -> HeadRecord | None:
        entry = self._get(self._heads + self._name(item))
        return entry.value if entry is not None and isinstance(entry.value, HeadRecord) else None

    def _name(self, item: MirrorEntry) -> str:
        return item.key.removeprefix(self._layout.items)
