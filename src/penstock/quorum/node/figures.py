"""A node's metrics of each of its replicas, for Prometheus.

Gauges are read from the core at each scrape, never kept in parallel. Counters grow with each answer and each step.
"""

from typing import Final

from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.process.metrics import Tally
from penstock.quorum.core.node import Node
from penstock.quorum.node.status import limbo_of
from penstock.quorum.records.answers import Fate

__all__ = ["TALLY", "QuorumFigures"]


class QuorumFigures:
    """One replica's figures."""

    def __init__(self, node: Node, clock: Clocks) -> None:
        self._node = node
        self._clock = clock
        self.is_failed = 0
        self.rolled_back = 0
        self.answers_acknowledged = 0
        self.answers_aborted = 0
        self.answers_committed = 0
        self.answers_expired = 0
        self.answers_indeterminate = 0
        self.answers_refused = 0

    def answered(self, fate: Fate, count: int) -> None:
        """Count answers to appends."""
        match fate:
            case Fate.COMMITTED | Fate.COMMITTED_BELOW_LEVEL:
                self.answers_committed += count
            case Fate.ACKNOWLEDGED:
                self.answers_acknowledged += count
            case Fate.ABORTED:
                self.answers_aborted += count
            case Fate.INDETERMINATE:
                self.answers_indeterminate += count
            case Fate.EXPIRED:
                self.answers_expired += count
            case _:
                self.answers_refused += count

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
    def limbo_bytes(self) -> int:
        leader = self._node.leader
        return leader.limbo.queue.size if leader is not None else 0

    @property
    def limbo_oldest_seconds(self) -> float:
        leader = self._node.leader
        return limbo_of(leader, self._clock.monotonic_ns()).oldest_age_ms / 1_000 if leader is not None else 0.0

    @property
    def is_in_rollback(self) -> int:
        """Return 1 while a ROLLBACK of this leader is not committed."""
        doomed = self._node.log.doomed
        return int(self._node.leader is not None and bool(doomed) and doomed[-1][1] > self._node.replica.commit)

    @property
    def confirmed(self) -> int:
        return self._node.log.confirmed

    @property
    def is_diverged(self) -> int:
        return int(self._node.divergence is not None)

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
    counters={
        "answers_acknowledged": "Async appends answered: durable on the leader, not yet committed.",
        "answers_aborted": "Appends answered as aborted: they have no effect.",
        "answers_committed": "Appends answered as committed.",
        "answers_expired": "Repeats answered as expired: they came too late to say what became of the transaction.",
        "answers_indeterminate": "Appends answered as of unknown fate.",
        "answers_refused": "Appends not taken: this node does not lead, the limbo is full, or no such ack level.",
        "rolled_back": "Transactions that a committed ROLLBACK took out of the log, on this replica.",
    },
    gauges={
        "is_leader": "1 where this node leads the shard.",
        "epoch": "The epoch this replica is in.",
        "head": "The last entry in the log.",
        "durable": "The last entry on this node's disk.",
        "commit": "The last entry known to be committed.",
        "applied": "The last entry the state machine has applied.",
        "confirmed": "The last entry that a durable CONFIRM says is committed.",
        "is_diverged": "1 where a majority has found this replica's state wrong.",
        "is_failed": "1 where this replica has stopped. Its status says why.",
        "is_in_rollback": "1 while a ROLLBACK of this leader is not committed.",
        "limbo_bytes": "Bytes of the transactions in the leader's limbo.",
        "limbo_oldest_seconds": "The time that the oldest of them has waited.",
        "limbo_length": "Transactions in the leader's limbo.",
        "lag": "Entries the slowest follower has not confirmed, as its leader sees it.",
    },
)
