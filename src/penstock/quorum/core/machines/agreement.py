"""Is this replica's state machine right? A majority of checksums decides, and its decision is durable. Decision 0108.

Every CONFIRM carries a leader's checksum at an offset. Each replica, the leader included, compares it with its own
there. Where two differ, either may be wrong: the replica is suspected, and serves no reads. The leader then asks all
for their checksum at one offset (`Jury`). The checksum of a majority of the ensemble is right, the leader's or not.
A replica that has another one is diverged. It stays a voter, for its log is right. It never leads, serves, or takes a
snapshot again, in this run or a later one: its node comes back by a swap, as a new incarnation.
"""

from collections.abc import Iterable
from typing import Any

from penstock.kernel.ids import Epoch, Offset
from penstock.kernel.probes import reached
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.state import Comparison

__all__ = ["Jury", "ReplicaTrust"]

OWN_MAX = 256  # own checksums that are kept, at the offsets that leaders compare
NOTHING = Offset(0)


class ReplicaTrust:
    """What a replica knows of its own state machine."""

    __slots__ = ("_own", "divergence", "suspicion")

    def __init__(self, divergence: Comparison | None) -> None:
        self.divergence = divergence
        self.suspicion: Comparison | None = None  # the newest difference that no majority has decided
        self._own: dict[Offset, int] = {}

    @property
    def is_trusted(self) -> bool:
        """May this replica show its state to anybody?"""
        return self.divergence is None and self.suspicion is None

    def own(self, offset: Offset) -> int | None:
        """Return this replica's checksum at an offset, if it was compared there."""
        return self._own.get(offset)

    def note(self, offset: Offset, checksum: int) -> None:
        """Keep the own checksum at an offset that a leader compares."""
        self._own[offset] = checksum
        while len(self._own) > OWN_MAX:
            del self._own[next(iter(self._own))]

    def compared(self, comparisons: Iterable[Comparison]) -> None:
        """Take the results of the state machine."""
        for each in comparisons:
            self.note(each.offset, each.actual)
            if each.differs and self.divergence is None:
                reached("agreement.suspected")
                self.suspicion = each

    def suspect(self, offset: Offset, epoch: Epoch, other: int) -> None:
        """Another replica has another checksum at an offset where this one knows its own."""
        if self.is_trusted:
            reached("agreement.suspected")
            self.suspicion = Comparison(offset, epoch, other, self._own[offset])

    def decided(self, offset: Offset, epoch: Epoch, checksum: int) -> bool:
        """Take what a majority has at an offset. Return whether this replica is wrong, if that is news."""
        own = self._own.get(offset)
        if own is None or self.divergence is not None:
            return False
        if own == checksum:
            if self.suspicion is not None and self.suspicion.offset <= offset:
                self.suspicion = None
            return False
        reached("agreement.diverged")
        self.suspicion = None
        self.divergence = Comparison(offset, epoch, checksum, own)
        return True

    def restarted(self) -> None:
        """Forget the checksums of a state machine whose state was replaced."""
        self._own.clear()
        self.suspicion = None

    def copy(self) -> "ReplicaTrust":
        """An equal agreement that shares nothing that changes."""
        twin = type(self)(self.divergence)
        twin.suspicion, twin._own = self.suspicion, dict(self._own)
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return the whole state as a hashable value."""
        return (self.divergence, self.suspicion)


class Jury:
    """The votes of one leadership about the offset that is disputed now."""

    __slots__ = ("disputed", "verdict", "votes")

    def __init__(self) -> None:
        self.disputed = NOTHING
        self.votes: dict[Member, int] = {}
        self.verdict: int | None = None  # the checksum of a majority there

    def open(self, offset: Offset) -> None:
        """Ask everybody for the checksum at this offset."""
        self.disputed, self.votes, self.verdict = offset, {}, None

    def is_news(self, offset: Offset, member: Member) -> bool:
        """Does a difference that a member reports open a new dispute?"""
        if offset <= self.disputed:
            return False
        if not self.disputed:
            return True
        # One that was found wrong differs ever after; one that was right and differs later is a new dispute.
        return self.verdict is not None and self.votes.get(member, self.verdict) == self.verdict

    def vote(self, member: Member, checksum: int, ensemble: Ensemble) -> None:
        """Count a checksum at the disputed offset. Each member's last word counts."""
        self.votes[member] = checksum
        if self.verdict is None:
            counts: dict[int, int] = {}
            for voter, said in self.votes.items():
                if voter in ensemble:
                    counts[said] = counts.get(said, 0) + 1
            for said, count in counts.items():
                if count >= majority(len(ensemble)):
                    reached("agreement.decided")
                    self.verdict = said

    def copy(self) -> "Jury":
        """An equal jury that shares nothing that changes."""
        twin = Jury()
        twin.disputed, twin.votes, twin.verdict = self.disputed, dict(self.votes), self.verdict
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return the whole state as a hashable value."""
        return (self.disputed, tuple(sorted(self.votes.items())), self.verdict)
