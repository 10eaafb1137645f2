"""One election: fence, choose, tell the chosen. Design: quorum-log.md "Election"; log-replication.md "Leader election".

Fence the union (best effort), wait for a majority of the FINAL ensemble, choose the highest head among its members.
A member that must not lead (diverged) or should not (stalled) is passed over, where a majority reaches no further than
another one's head: that one then holds all that can be committed, as if the first had not answered (decision 0108).
BecomeLeader goes to one node only, whatever happens: an election which fails starts again in a new epoch.
"""

from typing import Any

from penstock.kernel.ids import EntryId, NodeId
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.messages import BecomeLeaderRequest, FenceRequest
from penstock.quorum.records.metadata import Metadata

__all__ = ["Election"]


class Election:
    """An election under way, in the epoch this operator itself wrote."""

    def __init__(self, metadata: Metadata, prefer: NodeId | None = None, stalled: Member | None = None) -> None:
        self.metadata = metadata
        self.prefer = prefer  # a hand-over: this node, if it is as far as any
        self.stalled = stalled  # led without a commit: others first
        self.heads: dict[Member, EntryId] = {}
        self.diverged: dict[Member, None] = {}  # their state machines are wrong
        self.chosen: Member | None = None
        self.is_led = False  # the chosen one has said yes

    def fencing_ensemble(self) -> Ensemble:
        return self.metadata.fencing_ensemble

    def final_ensemble(self) -> Ensemble:
        return self.metadata.final_ensemble

    def fences(self) -> list[tuple[Member, FenceRequest]]:
        """Fence requests to everybody who has not answered."""
        metadata = self.metadata
        return [
            (member, FenceRequest(metadata.epoch, member.incarnation, not metadata.is_formed))
            for member in self.fencing_ensemble()
            if member not in self.heads
        ]

    def fenced(self, member: Member, head: EntryId, *, is_diverged: bool = False) -> bool:
        """A member has answered. Returns whether that is news."""
        is_news = member in self.fencing_ensemble() and member not in self.heads
        if is_news:
            self.heads[member] = head
            if is_diverged:
                self.diverged[member] = None
        return is_news

    def has_quorum(self) -> bool:
        """Can a leader be chosen? A majority of the final ensemble has answered then."""
        return bool(self.candidates())

    def candidates(self) -> list[Member]:
        """Members of the final ensemble that may lead: a majority of it reaches no further than they do."""
        final, heads = self.final_ensemble(), self.heads
        needed = majority(len(final))
        answered = [member for member in final if member in heads]
        return [
            member
            for member in answered
            if member not in self.diverged and sum(heads[each] <= heads[member] for each in answered) >= needed
        ]

    def is_only_stalled(self) -> bool:
        """Is the stalled leader the only one that can be chosen?"""
        return self.candidates() == [self.stalled]

    def is_complete(self) -> bool:
        return all(member in self.heads for member in self.final_ensemble())

    def choose(self) -> tuple[Member, BecomeLeaderRequest]:
        """The member of the final ensemble with the highest head. The same one, however often one asks."""
        if self.chosen is None:
            candidates = [each for each in self.candidates() if each != self.stalled] or self.candidates()
            self.chosen = max(candidates, key=lambda each: (self.heads[each], each.node == self.prefer))
        chosen = self.chosen
        followers = tuple(
            (member, self.heads[member])
            for member in self.final_ensemble()
            if member in self.heads and member != chosen
        )
        epoch = self.metadata.epoch
        return chosen, BecomeLeaderRequest(epoch, chosen.incarnation, self.final_ensemble(), followers)

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the rest of the election, as a hashable value."""
        return (
            self.metadata, self.prefer, self.stalled, tuple(sorted(self.heads.items())), tuple(self.diverged),
            self.chosen, self.is_led,
        )  # fmt: skip

    def copy(self) -> "Election":
        """An equal election which shares nothing that changes."""
        twin = type(self)(self.metadata, self.prefer, self.stalled)
        twin.diverged = dict(self.diverged)
        twin.heads, twin.chosen, twin.is_led = dict(self.heads), self.chosen, self.is_led
        return twin
