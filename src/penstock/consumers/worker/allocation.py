"""How shards are allocated to consumers: what the allocator must know of definitions, processes and statuses.

Design: gazette.md 1.5. An assignment is consistent when its process stands by or consumes: only then may another one
go. A process which failed counts if the primary failed too: then it is not the process's fault, and moving the shard
about would not help.
"""

from collections.abc import Sequence

from penstock.consumers.client.definition import ConsumerSpec, ShardDefinition
from penstock.consumers.client.status import ShardCode, ShardStatus
from penstock.keyspace.core.allocator.layout import PRIMARY_SLOT, Layout
from penstock.keyspace.core.allocator.policy import Capacity, Demand
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.transaction import Compare

__all__ = ["ShardPolicy"]


class ShardPolicy:
    """Reads the values of one group's keys."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def demand(self, item: MirrorEntry) -> Demand | None:
        definition = item.value
        if not isinstance(definition, ShardDefinition):
            return None
        return Demand(0 if definition.is_disabled else 1 + definition.standbys)

    def capacity(self, member: MirrorEntry) -> Capacity:
        consumer = ConsumerSpec.decode(member.stored.value)
        return Capacity(consumer.limit, consumer.is_exiting)

    def consistent(self, item: MirrorEntry, assignments: Sequence[MirrorEntry]) -> Sequence[bool]:
        statuses = [ShardStatus.decode(entry.stored.value) for entry in assignments]
        has_failed = any(
            status.code is ShardCode.FAILED and self._is_primary(entry)
            for entry, status in zip(assignments, statuses, strict=True)
        )
        return [status.is_ready or (has_failed and status.code is ShardCode.FAILED) for status in statuses]

    def _is_primary(self, entry: MirrorEntry) -> bool:
        place = self._layout.parse_assignment(entry.key)
        return place is not None and place.slot == PRIMARY_SLOT

    def guards(self, item: MirrorEntry) -> Sequence[Compare]:
        return ()

    def preferred(self, item: MirrorEntry) -> Sequence[str]:
        return ()

    def may_pass_over(self, item: MirrorEntry, rest: Sequence[MirrorEntry], coming: int) -> bool:
        return False  # no consumer suspects another

    def item_of(self, key: str) -> str | None:
        return None
