"""Linearizable reads: a round of leadership confirmations begun after the read arrived. Design: quorum-log.md P12.

A read may be served when a majority of the leader's epoch has answered a round that began after the read came, and the
state machine has applied both this epoch's barrier and everything committed when it came. Reads share rounds: at most
one is under way, and whatever comes meanwhile waits for the next.
"""

from collections import deque
from typing import Any

import msgspec

from penstock.kernel.ids import NO_ENTRY, EntryId, Instant, Offset, RequestId

__all__ = ["QuorumRead", "ReadRounds", "WaitingRead"]


class QuorumRead(msgspec.Struct, frozen=True):
    """A read, as the body of a `Requested`. The query itself stays with the shell, which gets `Serve` when it may run.

    Linearizable reads see everything committed before they came, and only the leader serves them. Local ones see what
    this node has applied; with `after`, at least that entry: so a client can wait for its own async write.
    """

    is_linearizable: bool = True
    after: EntryId = NO_ENTRY


class WaitingRead(msgspec.Struct, frozen=True):
    """A read on its way."""

    request: RequestId
    round: int  # must be confirmed
    offset: Offset  # must be applied
    deadline: Instant


class ReadRounds:
    """The waiting reads of one leadership, oldest first."""

    __slots__ = ("confirmed", "started", "waiting")

    def __init__(self) -> None:
        self.started = 0  # the newest round
        self.confirmed = 0  # the newest round a majority has answered
        self.waiting: deque[WaitingRead] = deque()

    def add(self, request: RequestId, offset: Offset, deadline: Instant) -> None:
        """The read waits for the round which begins next: one already under way proves nothing about it."""
        self.waiting.append(WaitingRead(request, self.started + 1, offset, deadline))

    def starts_round(self) -> bool:
        """Begin the next round if a read waits for it and none is under way; the caller must ask every voter."""
        is_wanted = bool(self.waiting) and self.waiting[-1].round > self.started
        if is_wanted and self.confirmed == self.started:
            self.started += 1
            return True
        return False

    def confirm(self, round_: int) -> None:
        """A majority has answered this round, so every earlier one, too."""
        self.confirmed = max(self.confirmed, round_)

    def servable(self, applied: Offset) -> list[RequestId]:
        """Reads which may be served now. Their offsets never fall, so no read waits for a later one."""
        served: list[RequestId] = []
        reads = self.waiting
        while reads and reads[0].round <= self.confirmed and reads[0].offset <= applied:
            served.append(reads.popleft().request)
        return served

    def expired(self, now: Instant) -> list[RequestId]:
        """Reads which waited too long: this leader may be cut off."""
        gone: list[RequestId] = []
        while self.waiting and self.waiting[0].deadline <= now:
            gone.append(self.waiting.popleft().request)
        return gone

    def drain(self) -> list[RequestId]:
        """Return all waiting reads, because this node no longer leads."""
        gone = [read.request for read in self.waiting]
        self.waiting.clear()
        return gone

    def copy(self) -> "ReadRounds":
        """Equal rounds which share nothing that changes."""
        twin = ReadRounds()
        twin.started, twin.confirmed, twin.waiting = self.started, self.confirmed, deque(self.waiting)
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides which read is served, as a hashable value."""
        return (self.started, self.confirmed, tuple((each.request, each.round, each.offset) for each in self.waiting))

    def check(self) -> None:
        """Assert that no read waits for a round that will never begin."""
        assert self.confirmed <= self.started
        rounds = [read.round for read in self.waiting]
        assert rounds == sorted(rounds)
        assert all(round_ <= self.started + 1 for round_ in rounds)
        offsets = [read.offset for read in self.waiting]
        assert offsets == sorted(offsets), "what a read must see never falls"
