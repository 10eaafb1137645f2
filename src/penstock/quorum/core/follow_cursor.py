"""Follow cursors: what each follower has been sent and has confirmed, and what a quorum of them holds.

Design: log-replication.md (follow cursor), quorum-log.md P2, P11, P13, P14. A leader owns one `FollowCursors` per
epoch it leads. Positions are offsets: the ids belong to the leader's own log, which knows the epoch of each offset.
What always holds (I17):

- last_confirmed ≤ last_pushed ≤ the leader's head; last_confirmed never falls within an epoch.
- An acknowledgement from another epoch, another incarnation, or from no member changes nothing.
- A learner's confirmations are kept, but it has no vote; nor has a member which is being removed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from penstock.kernel.ids import Epoch, Offset
from penstock.quorum.records.member import Ensemble, Member, majority

__all__ = ["FollowCursor", "FollowCursors"]

NOTHING = Offset(0)


class FollowCursor(msgspec.Struct, eq=False):
    """One follower's position."""

    member: Member
    last_pushed: Offset  # sent, perhaps lost on the way: a rewind may lower it
    last_confirmed: Offset  # durable there, and equal to our log up to here
    is_attached: bool = True  # False: it must truncate its log, or install a snapshot, before it can follow


class FollowCursors:
    """The cursors of one epoch and the quorum over them. The leader's own durable offset is its own vote."""

    __slots__ = ("_cursors", "_followers_who_vote", "durable", "ensemble", "epoch", "leader", "removed")

    def __init__(self, epoch: Epoch, leader: Member, ensemble: Ensemble) -> None:
        assert leader in ensemble, "a leader is a member"
        self.epoch = epoch
        self.leader = leader
        self.ensemble = ensemble
        self.removed: Member | None = None  # still counted in the ensemble's size, but without a vote
        self.durable = NOTHING  # the leader's own
        self._cursors: dict[Member, FollowCursor] = {}
        self._followers_who_vote: list[FollowCursor] | None = None  # None: find them again

    def __iter__(self) -> Iterator[FollowCursor]:
        return iter(self._cursors.values())

    def get(self, member: Member) -> FollowCursor | None:
        return self._cursors.get(member)

    # the table

    def attach(self, member: Member, at: Offset) -> FollowCursor:
        """Start (or restart) following: the member holds our log durably up to `at`."""
        assert member != self.leader, "a leader does not follow itself"
        known = self._cursors.get(member)
        confirmed = at if known is None else Offset(max(at, known.last_confirmed))
        cursor = FollowCursor(member, confirmed, confirmed)
        self._cursors[member] = cursor
        self._followers_who_vote = None
        return cursor

    def hold(self, member: Member) -> FollowCursor:
        """Keep a place for a member which must first truncate its log, or install a snapshot."""
        assert member != self.leader, "a leader does not follow itself"
        cursor = self._cursors.setdefault(member, FollowCursor(member, NOTHING, NOTHING))
        cursor.is_attached = False
        self._followers_who_vote = None
        return cursor

    def drop(self, member: Member) -> None:
        """Forget a member's cursor: it is sent nothing any more, and its acknowledgements count for nothing."""
        self._cursors.pop(member, None)
        self._followers_who_vote = None

    def remove_vote(self, member: Member) -> None:
        """Remove a member's vote: the size of the ensemble's majority stays the same."""
        assert member != self.leader, "a leader is never removed"
        self.removed = member
        self._followers_who_vote = None

    def reconfigure(self, ensemble: Ensemble) -> None:
        """Let this ensemble decide from now on."""
        assert self.leader in ensemble
        self.ensemble, self.removed = ensemble, None
        self._followers_who_vote = None

    def pushed(self, cursor: FollowCursor, upto: Offset) -> None:
        assert upto >= cursor.last_pushed, (upto, cursor.last_pushed)
        cursor.last_pushed = upto

    def rewind(self, cursor: FollowCursor, to: Offset) -> None:
        """Entries behind `to` did not arrive: send them again. Confirmed entries stay confirmed."""
        cursor.last_pushed = Offset(max(to, cursor.last_confirmed))

    def acknowledge(self, member: Member, epoch: Epoch, upto: Offset) -> bool:
        """A member holds our log durably up to `upto`, it says. Returns whether that is news."""
        if epoch != self.epoch:
            return False
        cursor = self._cursors.get(member)
        if cursor is None or not cursor.is_attached or upto <= cursor.last_confirmed:
            return False
        cursor.last_confirmed = upto
        if cursor.last_pushed < upto:  # it was sent more before a rewind, and that did arrive
            cursor.last_pushed = upto
        return True

    def bump(self, epoch: Epoch) -> None:
        """Continue as leader in a higher epoch. Confirmed entries stay a fact; older acknowledgements are void."""
        assert epoch > self.epoch, (epoch, self.epoch)
        self.epoch = epoch

    # the quorum

    def has_vote(self, member: Member) -> bool:
        return member in self.ensemble and member != self.removed

    def held_by(self, member: Member) -> Offset:
        """Return how far this member's log is known to be durable and equal to ours."""
        if member == self.leader:
            return self.durable
        cursor = self._cursors.get(member)
        return cursor.last_confirmed if cursor is not None else NOTHING

    def voters(self) -> list[Member]:
        return [member for member in self.ensemble if self.has_vote(member)]

    def quorum_offset(self) -> Offset:
        """The highest offset which a majority of the ensemble holds: the order statistic over its votes."""
        if self._followers_who_vote is None:
            self._followers_who_vote = [self._cursors[member] for member in self.voters() if member in self._cursors]
        held = [cursor.last_confirmed for cursor in self._followers_who_vote]
        held.append(self.durable)
        held.sort()
        needed = majority(len(self.ensemble))
        return held[-needed] if needed <= len(held) else NOTHING

    def level_offset(self, level: int) -> Offset:
        """The highest offset which `level` voters hold (all of them, if there are fewer)."""
        voters = self.voters()
        return self.held_by_at_least(min(level, len(voters)), voters)

    def held_by_at_least(self, count: int, members: Iterable[Member]) -> Offset:
        """The highest offset which at least `count` of `members` hold."""
        held = sorted([self.held_by(member) for member in members], reverse=True)
        return held[count - 1] if 0 < count <= len(held) else NOTHING

    # for observers

    def copy(self) -> "FollowCursors":
        """Equal cursors which share nothing that changes."""
        twin = type(self)(self.epoch, self.leader, self.ensemble)
        twin.removed, twin.durable = self.removed, self.durable
        twin._cursors = {member: msgspec.structs.replace(cursor) for member, cursor in self._cursors.items()}
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the cursors' behaviour, as a hashable value."""
        cursors = sorted(self._cursors.items())
        return (
            self.epoch,
            self.ensemble,
            self.removed,
            self.durable,
            tuple((member, each.last_pushed, each.last_confirmed, each.is_attached) for member, each in cursors),
        )

    def check(self, head: Offset) -> None:
        """I17, with the quorum counted by brute force."""
        assert len({member.node for member in self.ensemble}) == len(self.ensemble), "each node once"
        assert self.leader in self.ensemble
        assert self.leader != self.removed, "a leader is never removed"
        assert self.leader not in self._cursors
        assert self.durable <= head
        for member, cursor in self._cursors.items():
            assert cursor.member == member
            assert cursor.last_confirmed <= cursor.last_pushed, member
            assert cursor.last_pushed <= head, member
        quorum = self.quorum_offset()
        votes = [self.held_by(member) for member in self.ensemble if self.has_vote(member)]
        assert quorum == NOTHING or _count(votes, quorum) * 2 > len(self.ensemble)
        assert _count(votes, Offset(quorum + 1)) * 2 <= len(self.ensemble)


def _count(votes: list[Offset], offset: Offset) -> int:
    return sum(1 for held in votes if held >= offset)
