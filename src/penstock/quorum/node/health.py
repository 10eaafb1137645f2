"""A node's checks: do its replicas run, and do they follow or lead? Design: operating.md O19."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.kernel.ids import SECOND, Instant
from penstock.plumbing.process.health import Finding, Health, HealthState

if TYPE_CHECKING:
    from penstock.quorum.node.host import ReplicaHost
    from penstock.quorum.node.node_server import NodeServer

__all__ = ["NODE_CHECKS", "add_node_checks"]

ROLE: Final = "node"
NODE_CHECKS: Final = ("log.leader", "log.replicas", "log.states")
CONTACT_NS: Final = 2 * SECOND  # a leader speaks every 50 ms


def add_node_checks(health: Health, server: "NodeServer") -> Callable[[], None]:
    """Register the checks of a node; return a call that removes them."""
    looks = (_leader, _replicas, _states)
    removes = [health.add(name, ROLE, partial(look, server)) for name, look in zip(NODE_CHECKS, looks, strict=True)]

    def remove() -> None:
        for each in removes:
            each()

    return remove


def _leader(server: "NodeServer") -> Finding | None:
    """Has each replica a leader that a majority follows?"""
    for host in server.hosts:
        age_ns = _silence_ns(host)
        if not host.failed and age_ns > CONTACT_NS:
            leads = host.node.leader is not None
            who = "no majority has answered this leader" if leads else "no leader has spoken to this node"
            why = f"shard {host.shard}: {who} for {age_ns / SECOND:.1f} s"
            return Finding(why, "penstock quorum shards", HealthState.FAILED)
    return None


def _silence_ns(host: "ReplicaHost") -> int:
    now = Instant(host.clock.monotonic_ns())
    leader = host.node.leader
    if leader is not None:
        return leader.quorum_age_ns(now)
    return now - max(host.node.contact_at, host.started_at)


def _replicas(server: "NodeServer") -> Finding | None:
    failed = [f"{status.shard} ({status.failed})" for status in server.statuses() if status.failed]
    if not failed:
        return None
    return Finding(f"a replica does not run: {', '.join(failed)}", "penstock quorum status", HealthState.FAILED)


def _states(server: "NodeServer") -> Finding | None:
    wrong = [host.shard for host in server.hosts if not host.failed and host.node.divergence is not None]
    if not wrong:
        return None
    return Finding(
        f"the state of {', '.join(wrong)} differs from a majority's: it never leads, and answers no reads",
        f"penstock quorum swap {server.node} {server.node}",
    )
