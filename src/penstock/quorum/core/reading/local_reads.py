"""Local reads: what this very node has applied, no more. Design: quorum-log.md P12.

They need no leader and no quorum. With `after`, a read waits until that entry is applied here: so a client sees its own
async write, or learns that an epoch change has lost it. After a restart a node serves none until it has applied all it
may have shown before (`Node.serves_reads`).
"""

from collections.abc import Callable
from typing import Any

from penstock.kernel.effects import Reply, SetTimer
from penstock.kernel.errors import Overloaded, PreconditionFailed, Unavailable
from penstock.kernel.ids import EntryId, Instant, RequestId
from penstock.quorum.core.replica import Replica
from penstock.quorum.records.effects import Serve
from penstock.quorum.records.resolution import Resolution

__all__ = ["LOCAL_READS", "LocalReads"]

LOCAL_READS = "local-reads"  # the timer


class LocalReads:
    """The local reads which wait, oldest first."""

    __slots__ = ("replica", "waiting")

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.waiting: list[tuple[RequestId, EntryId, Instant]] = []

    def add(self, request: RequestId, after: EntryId, now: Instant) -> None:
        config = self.replica.config
        if len(self.waiting) >= config.reads_max:
            self.replica.emit(Reply(request, Overloaded("too many reads are waiting for this node")))
            return
        self.waiting.append((request, after, Instant(now + config.read_timeout_ns)))
        if len(self.waiting) == 1:
            self._set_timer()

    def serve(self, resolve: Callable[[EntryId], Resolution]) -> None:
        """Serve every read whose entry is applied; if another entry is at its place, say so."""
        applied, served = self.replica.applied, []
        for request, after, _ in self.waiting:
            if after.offset > applied:
                continue
            if after.offset and resolve(after) is Resolution.ABORTED:
                lost = PreconditionFailed(f"{after} is not in the log: an epoch change has displaced it")
                self.replica.emit(Reply(request, lost))
            else:
                served.append(request)
        self.waiting = [read for read in self.waiting if read[1].offset > applied]
        if served:
            self.replica.emit(Serve(tuple(served), applied))

    def expire(self, now: Instant) -> None:
        """Fail the reads that have waited too long; this node may be cut off."""
        for request, _, deadline in self.waiting:
            if deadline <= now:
                self.replica.emit(Reply(request, Unavailable("this node has not applied enough in time")))
        self.waiting = [read for read in self.waiting if read[2] > now]
        self._set_timer()

    def _set_timer(self) -> None:
        if self.waiting:
            self.replica.emit(SetTimer(LOCAL_READS, min(deadline for _, _, deadline in self.waiting)))

    def copy(self, replica: Replica) -> "LocalReads":
        """Equal reads on a copied replica."""
        twin = LocalReads(replica)
        twin.waiting = list(self.waiting)
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides which read is served, as a hashable value."""
        return tuple((request, after) for request, after, _ in self.waiting)
