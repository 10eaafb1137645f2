"""What a replica says about itself, and in words why an append is waiting."""

from typing import TYPE_CHECKING

from penstock.kernel.ids import MILLISECOND, Offset
from penstock.quorum.core.leader import Leader
from penstock.quorum.records.api import CursorStatus, LimboStatus, ShardStatus
from penstock.quorum.records.member import majority

if TYPE_CHECKING:
    from penstock.quorum.node.host import ReplicaHost

__all__ = ["explain", "limbo_of", "status_of"]


def status_of(host: "ReplicaHost") -> ShardStatus:
    """A replica, as it is right now."""
    node = host.node
    replica, log, leader = node.replica, node.log, node.leader
    return ShardStatus(
        host.shard,
        replica.member,
        node.role,
        node.epoch,
        log.head,
        log.durable,
        replica.commit,
        log.confirmed,
        replica.applied,
        log.first,
        leader=host.leader,
        ensemble=leader.ensemble if leader is not None else (),
        cursors=_cursors(leader) if leader is not None else (),
        limbo=limbo_of(leader, host.clock.monotonic_ns()) if leader is not None else None,
        change=_change(leader) if leader is not None else "",
        failed=host.failed,
        diverged=str(node.divergence) if node.divergence is not None else "",
        suspected=str(replica.agreement.suspicion) if replica.agreement.suspicion is not None else "",
        checksum=replica.checksum,
        lost_transactions=host.storage.lost.transactions,
        snapshot=replica.snapshot.head,
    )


def _cursors(leader: Leader) -> tuple[CursorStatus, ...]:
    cursors = leader.replication.cursors
    return tuple(
        CursorStatus(
            each.member, each.last_pushed, each.last_confirmed, each.is_attached, cursors.has_vote(each.member)
        )
        for each in cursors
    )


def limbo_of(leader: Leader, now_ns: int) -> LimboStatus:
    """Return the transactions that wait in a leader's limbo."""
    queue = leader.limbo.queue
    oldest = queue.oldest
    age_ns = 0
    if oldest is not None and oldest.body is not None:
        timeout_ns = oldest.body.timeout_ns or leader.replica.config.append_timeout_ns
        age_ns = max(0, now_ns - (oldest.deadline - timeout_ns))
    return LimboStatus(
        len(queue),
        queue.size,
        queue.volatile_length,
        oldest.offset if oldest is not None else Offset(0),
        age_ns // MILLISECOND,
    )


def _change(leader: Leader) -> str:
    change = leader.change
    if change is None:
        return ""
    parts = [change.op.value]
    if change.old is not None:
        parts.append(f"without {change.old}")
    if change.new is not None:
        parts.append(f"with {change.new}")
    return " ".join(parts)


def explain(status: ShardStatus) -> str:
    """In words: is an append answered now, and if not, what does it wait for?"""
    if status.failed:
        return f"This replica does not run: {status.failed}"
    if status.diverged:
        return f"The state of this replica is wrong ({status.diverged}): it follows, and never leads or answers a read."
    if status.limbo is None:
        follows = f"follows {status.leader}" if status.leader else "waits for an operator"
        return f"This node is {status.role.value} and {follows}: it takes no appends."
    if not status.limbo.length and not status.limbo.volatile_length:
        return "Nothing waits: appends are answered in one round trip."
    needed = majority(len(status.ensemble))
    holders = 1 + sum(each.is_voter and each.is_attached for each in status.cursors)
    oldest = status.limbo.oldest_offset
    if holders < needed:
        missing = [str(member.node) for member in status.ensemble if not _follows(status, member.node)]
        return (
            f"Appends wait for a quorum: {needed} of {len(status.ensemble)} nodes must hold them, {holders} follow. "
            f"Missing: {', '.join(missing)}."
        )
    behind = [str(each.member.node) for each in status.cursors if each.is_voter and each.last_confirmed < oldest]
    if status.durable < oldest:
        return f"Entry {oldest} waits for this leader's own disk ({status.limbo.oldest_age_ms} ms)."
    if behind:
        return f"Entry {oldest} waits for {' and '.join(behind)} ({status.limbo.oldest_age_ms} ms)."
    if status.limbo.volatile_length:
        return f"The limbo is full: {status.limbo.volatile_length} appends wait for room behind {status.limbo.length}."
    return f"{status.limbo.length} appends are on their way."


def _follows(status: ShardStatus, node: str) -> bool:
    return node == status.member.node or any(each.member.node == node and each.is_attached for each in status.cursors)
