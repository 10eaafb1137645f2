"""The head keeper: what a replica knows about the head record, and its transactions on it, one at a time.

Design: journals.md J2, J4, J13, and decision 301. A certification compares the assignments there were; a member which
was added meanwhile does not make it fail. So one that is still on its way could change the head without the knowledge
of the next pipeline, which would then ask a stale member and cut content that is committed. Hence: no pipeline is
started while a certification runs, and when the outcome of one is unknown, it is fenced off first: this broker puts its
own assignment again, which is compared by every certification of its own.
"""

from enum import Enum

import msgspec

from penstock.journals.core.certify import certify, raise_limit
from penstock.journals.core.effects import Transact, Transacted, TransactionEnd
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, HeadRecord, HeadTable
from penstock.journals.records.route import Assignment, Topology
from penstock.kernel.effects import Effect
from penstock.kernel.ids import NodeId, Revision
from penstock.kernel.probes import reached
from penstock.keyspace.core.records import NO_REVISION
from penstock.keyspace.core.transaction import PutKey, Transaction, is_at

__all__ = ["HeadKeeper", "Purpose", "RunningCertification"]


class Purpose(Enum):
    """What a transaction is for."""

    CERTIFY = "certify"
    RAISE = "raise"  # the limit
    FENCE = "fence"  # an earlier certification which may still be on its way


Compared = tuple[Revision, tuple[Assignment, ...]]  # the head's revision, and the assignments


class RunningCertification(msgspec.Struct, frozen=True):
    """A transaction on its way."""

    number: int
    purpose: Purpose
    epoch: PipelineEpoch = NO_EPOCH
    head: HeadRecord | None = None  # as it would be
    compared: Revision = NO_REVISION  # our own assignment, in a certification
    whole: Compared | None = None  # all it compared


class HeadKeeper:
    """The newest head record this broker knows: its mirror's, or one it certified itself."""

    def __init__(self, key: str, me: NodeId, out: list[Effect]) -> None:
        self.key = key
        self.me = me
        self.out = out
        self.head: HeadRecord | None = None
        self.head_revision = NO_REVISION
        self.running: RunningCertification | None = None
        self.unsure_at = NO_REVISION  # our assignment as a certification compared it whose outcome we do not know
        self._fence_lost_at = NO_REVISION
        self._lost: Compared | None = None  # what a certification compared in vain: the mirror will show what changed
        self._numbers = 0

    @property
    def table(self) -> HeadTable:
        return self.head.table if self.head is not None else EMPTY_TABLE

    def see(self, head: HeadRecord | None, revision: Revision, as_of: Revision | None = None) -> bool:
        """Take the head record as it was at `as_of`, unless we know a later one; whether it is another one.

        It may be gone: an operator who removes the tombstone of a deleted journal lets its next life begin at 0.
        """
        is_older = (revision if as_of is None else as_of) < self.head_revision
        if is_older or (head, revision) == (self.head, self.head_revision):
            return False
        self.head, self.head_revision = head, revision
        return True

    def is_sure(self, topology: Topology) -> bool:
        """Return whether no certification by this broker can still change the head; if one could, make sure
        that it cannot.
        """
        if self.running is not None or self._lost == (self.head_revision, topology.assignments):
            return False
        own = self._own(topology)
        if self.unsure_at == NO_REVISION or own is None or own.mod_revision != self.unsure_at:
            self.unsure_at = NO_REVISION
            return True
        if self._fence_lost_at == own.mod_revision:
            return False  # our assignment has moved, and the mirror will show it
        reached("journal.fenced_own_certification")
        put = PutKey(own.key, own.value, own.lease)
        self._run(Purpose.FENCE, Transaction((is_at(own.key, own.mod_revision),), (put,)), compared=own.mod_revision)
        return False

    def certify(self, topology: Topology, head: HeadRecord, head_revision: Revision) -> None:
        own = self._own(topology)
        assert own is not None
        transaction = certify(self.key, head, head_revision, topology.assignments, topology.route)
        whole = (head_revision, topology.assignments)
        self._run(Purpose.CERTIFY, transaction, head.epoch, head, own.mod_revision, whole)

    def raise_limit(self, step: int) -> None:
        assert self.head is not None
        raised, transaction = raise_limit(self.key, self.head, self.head_revision, step)
        self._run(Purpose.RAISE, transaction, self.head.epoch, raised)

    def ended(self, event: Transacted) -> RunningCertification | None:
        """Return our certification that has ended, if the event is about one. A head that we wrote is known from now
        on.
        """
        running = self.running
        if running is None or running.number != event.number:
            return None
        self.running = None
        if event.end is TransactionEnd.DONE and running.head is not None:
            self.see(running.head, event.revision)
        elif event.end is TransactionEnd.UNKNOWN and running.purpose is Purpose.CERTIFY:
            reached("journal.unknown_certification")
            self.unsure_at = running.compared
        elif event.end is TransactionEnd.LOST:
            if running.purpose is Purpose.FENCE:
                self._fence_lost_at = running.compared
            self._lost = running.whole
        return running

    def _own(self, topology: Topology) -> Assignment | None:
        return next((each for each in topology.assignments if each.broker == self.me), None)

    def _run(
        self,
        purpose: Purpose,
        transaction: Transaction,
        epoch: PipelineEpoch = NO_EPOCH,
        head: HeadRecord | None = None,
        compared: Revision = NO_REVISION,
        whole: Compared | None = None,
    ) -> None:
        assert self.running is None
        self._numbers += 1
        self.running = RunningCertification(self._numbers, purpose, epoch, head, compared, whole)
        self.out.append(Transact(self._numbers, transaction))
