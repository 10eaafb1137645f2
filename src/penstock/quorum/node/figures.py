"""A node's metrics of each of its replicas, for Prometheus: read from the core at each scrape, never kept in
parallel.
"""

from typing import Final

from penstock.plumbing.process.metrics import Tally
from penstock.quorum.core.node import Node

__all__ = ["TALLY", "Figures"]


class Figures:
    """One replica's figures."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def is_leader(self) -> int:
        return int(self._node.leader is not None)

    @property
    def epoch(self) -> int:
        return self._node.replica.epoch

    @property
    def head(self) -> int:
        return self._node.log.end

    @property
    def durable(self) -> int:
        return self._node.log.durable

    @property
    def commit(self) -> int:
        return self._node.replica.commit

    @property
    def applied(self) -> int:
        return self._node.replica.applied

    @property
    def limbo_length(self) -> int:
        leader = self._node.leader
        return len(leader.limbo.queue) if leader is not None else 0

    @property
    def lag(self) -> int:
        """Return the lag of the last follower."""
        leader = self._node.leader
        if leader is None:
            return 0
        return max((self.head - cursor.last_confirmed for cursor in leader.replication.cursors), default=0)


TALLY: Final = Tally(
    "quorum",
    "shard",
    counters={},
    gauges={
        "is_leader": "1 where this node leads the shard.",
        "epoch": "The epoch this replica is in.",
        "head": "The last entry in the log.",
        "durable": "The last entry on this node's disk.",
        "commit": "The last entry known to be committed.",
        "applied": "The last entry the state machine has applied.",
        "limbo_length": "Transactions in the leader's limbo.",
        "lag": "Entries the slowest follower has not confirmed, as its leader sees it.",
    },
)
