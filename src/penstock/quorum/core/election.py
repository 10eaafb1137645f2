"""One election: fence, choose, tell the chosen. Design: quorum-log.md "Election"; log-replication.md "Leader election".

Fence the union (best effort), wait for a majority of the FINAL ensemble, choose the highest head among its members.
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

    def __init__(self, metadata: Metadata, prefer: NodeId | None = None) -> None:
        self.metadata = metadata
        self.prefer = prefer  # a hand-over: this node, if it is as far as any
        self.heads: dict[Member, EntryId] = {}
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

    def fenced(self, member: Member, head: EntryId) -> bool:
        """A member has answered. Returns whether that is news."""
        is_news = member in self.fencing_ensemble() and member not in self.heads
        if is_news:
            self.heads[member] = head
        return is_news

    def has_quorum(self) -> bool:
        """Has a majority of the final ensemble answered?"""
        final = self.final_ensemble()
        return sum(member in self.heads for member in final) >= majority(len(final))

    def is_complete(self) -> bool:
        return all(member in self.heads for member in self.final_ensemble())

    def choose(self) -> tuple[Member, BecomeLeaderRequest]:
        """The member of the final ensemble with the highest head. The same one, however often one asks."""
        if self.chosen is None:
            candidates = [member for member in self.final_ensemble() if member in self.heads]
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
        """All that decides how the election goes on, as a hashable value."""
        return (self.metadata, self.prefer, tuple(sorted(self.heads.items())), self.chosen, self.is_led)

    def copy(self) -> "Election":
        """An equal election which shares nothing that changes."""
        twin = type(self)(self.metadata, self.prefer)
        twin.heads, twin.chosen, twin.is_led = dict(self.heads), self.chosen, self.is_led
        return twin
