"""What an operator knows of its leader: when it last spoke, whether it makes progress, and how patient to be.

Design: operating.md O11, O13. Nothing here can harm data: P9 makes any election safe. It is about holding no
election that does not help, and the others soon. All instants are of the operator's own clock.
"""

import msgspec

from penstock.kernel.ids import MILLISECOND, Instant, Offset
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.messages import HeartbeatResponse

__all__ = ["LeaderWatch"]

DOUBLINGS_MAX = 6


class LeaderWatch(msgspec.Struct, eq=False):
    """One operator's watch over one shard."""

    config: OperatorConfig
    heard: Instant = Instant(0)  # when the leader last said that it leads
    lost_at: Instant | None = None  # when its connection was closed; it has said nothing since
    has_spoken: bool = False  # this leader, in this epoch
    members_heard: dict[Member, Instant] = msgspec.field(default_factory=dict)
    elections: int = 0  # begun since a leader was last found
    stalls: int = 0  # elections over a stalled leader since a commit
    commit: Offset = Offset(0)
    ticked: Instant | None = None  # the last tick

    # silences

    def begin(self, now: Instant) -> None:
        """There is a leader: from now on its silence counts."""
        self.heard, self.lost_at, self.has_spoken, self.elections = now, None, False, 0

    def tick(self, now: Instant) -> int:
        """Return by how much this operator itself was late: its own pauses count against no leader (O11)."""
        before, self.ticked = self.ticked, now
        if before is None:
            return 0
        pause = now - before - self.config.heartbeat_ns
        if pause < self.config.failure_ns // 2:
            return 0
        self.heard = now
        self.lost_at = None
        self.members_heard.clear()
        return pause

    def leader_spoke(self, response: HeartbeatResponse, now: Instant) -> None:
        self.heard, self.lost_at, self.has_spoken = now, None, True
        if response.commit > self.commit:
            self.stalls = 0
        self.commit = max(self.commit, response.commit)

    def member_spoke(self, member: Member, now: Instant) -> None:
        self.members_heard[member] = now

    def connection_lost(self, now: Instant, *, is_refused: bool) -> bool:
        """Take the news of a closed connection. Return whether its process has ended for certain."""
        if is_refused and self.has_spoken:
            return True
        if self.lost_at is None:
            self.lost_at = now
        return False

    def is_silent(self, now: Instant) -> bool:
        """Has the leader said nothing for too long?"""
        has_lost = self.has_spoken and self.lost_at is not None and now - self.lost_at >= self.config.lost_ns
        return has_lost or now - self.heard >= self.config.failure_ns

    # a leader without a quorum (O13)

    def is_stalled(self, response: HeartbeatResponse, leader: Member, ensemble: Ensemble, now: Instant) -> bool:
        """Is the leader without its majority, while a majority without the leader can be reached from here?"""
        if response.quorum_age_ms * MILLISECOND < self.patience_with_stalls():
            return False
        since = now - self.config.failure_ns
        reached = [each for each in ensemble if each != leader and self.members_heard.get(each, since) > since]
        return len(reached) >= majority(len(ensemble))

    def patience_with_stalls(self) -> int:
        doubled: int = self.config.stall_ns << min(self.stalls, DOUBLINGS_MAX)
        return min(doubled, max(self.config.stall_ns, self.config.stall_ns_max))

    # elections

    def patience(self) -> int:
        """Return how long an election may take: longer each time, so that slow disks end one (O13)."""
        doubled: int = self.config.election_ns << min(max(self.elections - 1, 0), DOUBLINGS_MAX)
        return min(doubled, max(self.config.election_ns, self.config.election_ns_max))

    def copy(self) -> "LeaderWatch":
        """An equal watch that shares nothing that changes."""
        return msgspec.structs.replace(self, members_heard=dict(self.members_heard))
