"""Replicate: the peer's side of a pipeline. Design: journals.md J4, J6, J9; gazette.md §2.1.

What always holds: nothing of an epoch older than the promised one is applied or acknowledged; content and proposals are
applied only in the epoch which was both promised and adopted; the mark is what the primary says, and never falls.
"""

from typing import TYPE_CHECKING

from penstock.journals.core.effects import AwaitRevision, CloseStream
from penstock.journals.records.api import Shortage
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.messages import (
    AdoptRequest,
    AdoptResponse,
    ContentRequest,
    MarkRequest,
    Message,
    PromiseRequest,
    PromiseResponse,
    ProposeRequest,
    ProposeResponse,
    Refusal,
    RefuseResponse,
)
from penstock.kernel.effects import Send
from penstock.kernel.ids import NodeId
from penstock.kernel.probes import reached

if TYPE_CHECKING:
    from penstock.journals.core.replica import Replica

__all__ = ["Replicate"]


class Replicate:
    """What a replica does for the primary it follows."""

    def __init__(self, replica: "Replica") -> None:
        self.replica = replica
        self.primary: NodeId | None = None  # the sender of the open stream
        self.epoch = NO_EPOCH  # of that stream
        self.held: tuple[NodeId, PromiseRequest] | None = None  # waits until our mirror has come as far as the sender's

    # step one of a sync

    def on_promise(self, sender: NodeId, message: PromiseRequest) -> None:
        replica = self.replica
        topology = replica.topology
        if topology.revision < message.epoch.revision:
            self._hold(sender, message)
        elif topology.create_revision != message.create_revision:
            self._refuse(sender, message, Refusal.OTHER_LIFE)
        elif topology.route != message.route:
            self._refuse(sender, message, Refusal.WRONG_ROUTE)
        elif message.epoch <= replica.spool.promised:
            self._refuse(sender, message, Refusal.PROMISED)
        else:
            self._promise(sender, message)

    def _hold(self, sender: NodeId, message: PromiseRequest) -> None:
        """Wait for our mirror; the newest request is the one that matters."""
        older, self.held = self.held, (sender, message)
        if older is not None and older[1].epoch > message.epoch:
            older, self.held = self.held, older
        if older is not None:
            self._refuse(older[0], older[1], Refusal.PROMISED)
        self.replica.out.append(AwaitRevision(self.held[1].epoch.revision))

    def on_topology(self) -> None:
        """A promise which waited for our mirror may be given now, or refused."""
        if self.held is not None and self.replica.topology.revision >= self.held[1].epoch.revision:
            (sender, message), self.held = self.held, None
            self.on_promise(sender, message)

    def _promise(self, sender: NodeId, message: PromiseRequest) -> None:
        """Promise an epoch. Nothing older counts any more: no proposals of others, and no acknowledgements to
        us (S23).
        """
        replica = self.replica
        report = replica.promise(message.epoch)
        self._preempt()
        self.primary, self.epoch = sender, message.epoch
        replica.saves.gate()
        replica.out.append(Send(sender, report))

    def _preempt(self) -> None:
        """End an older stream, whichever broker holds it open (S22)."""
        if self.primary is not None:
            reached("journal.preempted")
            self.replica.out.append(CloseStream(self.primary, self.epoch))
        self.primary, self.epoch = None, NO_EPOCH

    # step two

    def on_adopt(self, sender: NodeId, message: AdoptRequest) -> None:
        replica, spool = self.replica, self.replica.spool
        if not self.follows(sender, message) or message.epoch != spool.promised:
            return
        is_late = spool.epoch == message.epoch or message.point.end < spool.mark
        if is_late or not spool.fits(message.point, message.head_epoch):
            self._break(sender, message)
            return
        if message.is_reset:
            spool.reset(message.epoch, message.point, message.table)
        else:
            spool.synchronize(message.epoch, message.point, message.table, message.head_epoch)
        replica.saves.gate()
        replica.out.append(Send(sender, AdoptResponse(message.create_revision, message.epoch)))

    # content, proposals, marks

    def on_content(self, sender: NodeId, message: ContentRequest) -> None:
        if not self._applies(sender, message):
            return
        if message.delta == self.replica.spool.pending:
            self.replica.spool.write(message.content)
        else:
            self._break(sender, message)

    def on_proposal(self, sender: NodeId, message: ProposeRequest, sum_: bytes) -> None:
        if not self._applies(sender, message):
            return
        replica, spool = self.replica, self.replica.spool
        if message.content:
            spool.write(message.content)
        if not spool.adopts(message.point, sum_) or message.mark > spool.points[-1].end:
            self._break(sender, message)
            return
        spool.advance_mark(message.mark)
        spool.adopt(message.point)
        if message.acknowledge:
            if spool.is_kept:
                replica.saves.gate()
            answer = ProposeResponse(message.create_revision, message.epoch, message.seq, replica.shortage)
            replica.out.append(Send(sender, answer))

    def on_refused(self, sender: NodeId, message: ContentRequest | ProposeRequest, shortage: Shortage) -> None:
        """End the stream: content came for which this broker has no room, so no later message of it can be applied."""
        if self._applies(sender, message):
            reached("journal.no_room")
            self._break(sender, message, Refusal.NO_ROOM, shortage)

    def on_mark(self, sender: NodeId, message: MarkRequest) -> None:
        if not self._applies(sender, message):
            return
        if message.mark <= self.replica.spool.end:
            self.replica.spool.advance_mark(message.mark)
        else:
            self._break(sender, message)

    def follows(self, sender: NodeId, message: Message) -> bool:
        """Return whether this is the stream that we follow: any other was preempted, and ends by itself."""
        if (sender, message.epoch) != (self.primary, self.epoch):
            reached("journal.late_request")
            return False
        return message.create_revision == self.replica.spool.create_revision

    def _applies(self, sender: NodeId, message: Message) -> bool:
        """J6: only in the epoch which was promised and adopted."""
        spool = self.replica.spool
        return self.follows(sender, message) and message.epoch == spool.promised and message.epoch == spool.epoch

    # endings

    def on_closed(self, peer: NodeId, epoch: PipelineEpoch) -> None:
        """The primary went away: content it did not propose never was."""
        if (peer, epoch) == (self.primary, self.epoch):
            self.primary, self.epoch = None, NO_EPOCH
            self.replica.spool.roll_back()
        if self.held is not None and (self.held[0], self.held[1].epoch) == (peer, epoch):
            self.held = None

    def end(self) -> None:
        """This broker no longer follows a primary. A promise which waits for our mirror is judged when that has
        come.
        """
        self._preempt()

    def _break(
        self,
        sender: NodeId,
        message: Message,
        refusal: Refusal = Refusal.PROPOSAL_MISMATCH,
        shortage: Shortage | None = None,
    ) -> None:
        """End the stream: the message does not follow from our content, and no further message can be right."""
        if refusal is Refusal.PROPOSAL_MISMATCH:
            reached("journal.proposal_mismatch")
        self._refuse(sender, message, refusal, shortage)
        self.primary, self.epoch = None, NO_EPOCH
        self.replica.spool.roll_back()

    def _refuse(self, sender: NodeId, message: Message, refusal: Refusal, shortage: Shortage | None = None) -> None:
        replica = self.replica
        answer = RefuseResponse(
            message.create_revision, message.epoch, refusal, replica.topology.revision, replica.spool.promised, shortage
        )
        replica.out.append(Send(sender, answer))
        replica.out.append(CloseStream(sender, message.epoch))


def report_of(replica: "Replica", epoch: PipelineEpoch) -> PromiseResponse:
    """Return a member's report of its content, as far as it counts.

    A primary that led its Spool's epoch in this run counts with its mark: the content above has one copy for certain,
    its own. It never counts with less than where that epoch began, for below that everything may be acknowledged (302).
    """
    spool = replica.spool
    counted_epoch, points = spool.counted()
    if replica.lead.led == counted_epoch:
        counted = max(spool.mark, spool.start)
        points = tuple(point for point in points if point.end <= counted)
    return PromiseResponse(
        replica.topology.create_revision, epoch, spool.incarnation, counted_epoch, spool.mark, points
    )
