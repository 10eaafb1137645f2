"""Step three of a sync: one KeySpace transaction which makes an epoch the journal's. Design: journals.md J4, J13.

Both compares are needed: on the head record, because it may have moved since it was read; on every assignment, because
the head may only change under the current Route.
"""

from collections.abc import Sequence

import msgspec

from penstock.journals.core.config import JournalConfig
from penstock.journals.core.sync import SyncDecision
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, EpochStart, HeadRecord, Member
from penstock.journals.records.route import Assignment, Route
from penstock.kernel.ids import NodeId, Offset, Revision
from penstock.keyspace.core.transaction import PutKey, Transaction, is_at

__all__ = ["certify", "head_key", "next_head", "raise_limit"]


def head_key(root: str, journal: str) -> str:
    return f"{root}/heads/{journal}"


def next_head(
    head: HeadRecord | None,
    create_revision: Revision,
    epoch: PipelineEpoch,
    decision: SyncDecision,
    members: Sequence[Member],
    primary: NodeId,
    config: JournalConfig,
) -> HeadRecord:
    """Return the record after a certification."""
    start = decision.point.end
    limit = Offset(start + config.limit_step)
    if head is not None and not decision.is_reset:
        limit = max(limit, head.limit)
    begin = Offset(0)
    if head is not None:
        begin = head.begin if head.create_revision == create_revision else start
    here = {member.broker for member in members}
    before = head.members if head is not None and head.create_revision == create_revision else ()
    left = tuple(member.broker for member in before if member.broker not in here)
    entry = EpochStart(epoch, start, decision.is_reset, left=left, sure=decision.sure)
    return HeadRecord(
        create_revision=create_revision,
        epoch=epoch,
        start=start,
        members=tuple(sorted(members)),
        primary=primary,
        registers=decision.point.registers,
        limit=limit,
        table=(head.table if head is not None else EMPTY_TABLE).with_entry(entry, here, config.table_max),
        begin=begin,
    )


def certify(
    key: str, head: HeadRecord, head_revision: Revision, assignments: Sequence[Assignment], route: Route
) -> Transaction:
    """Put the head, and the Route into every assignment, if nothing of it moved."""
    compares = (is_at(key, head_revision), *(is_at(each.key, each.mod_revision) for each in assignments))
    value = route.encode()
    puts = [PutKey(each.key, value, each.lease) for each in assignments]
    return Transaction(compares, (PutKey(key, msgspec.msgpack.encode(head)), *puts))


def raise_limit(key: str, head: HeadRecord, head_revision: Revision, limit_step: int) -> tuple[HeadRecord, Transaction]:
    """Allow more offsets in the same epoch."""
    raised = msgspec.structs.replace(head, limit=Offset(head.limit + limit_step))
    return raised, Transaction((is_at(key, head_revision),), (PutKey(key, msgspec.msgpack.encode(raised)),))
