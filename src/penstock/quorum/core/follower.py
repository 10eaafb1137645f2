"""A follower: appends after exactly the previous id, and acknowledges durable entries. Design: quorum-log.md P4, P13.

Also the ways in which a log gives way to its leader's: truncation and snapshots. All of it happens in the node's own
epoch only; `node.py` has checked that. What always holds:

- An acknowledgement names the durable head, is sent while the node follows that epoch, and after the epoch is durable.
- Nothing of the current epoch is ever truncated: such entries can only have come from the current leader.
- Truncation waits until nothing is under way to the disk, and never goes below `confirmed`.
"""

from typing import Any

from penstock.kernel.effects import Stop
from penstock.kernel.ids import EntryId, NodeId, Offset
from penstock.kernel.probes import reached
from penstock.quorum.core.replica import Replica
from penstock.quorum.records.effects import SnapshotWritten, WriteSnapshot
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.state import SnapshotMeta

__all__ = ["Follower"]


class Follower:
    """What a node knows of the leader it follows, for one epoch."""

    def __init__(self, replica: Replica, leader: NodeId) -> None:
        self.replica = replica
        self.epoch = replica.epoch
        self.leader = leader
        self.leader_commit = Offset(0)  # for people; it decides nothing
        self.round = 0
        self.stream = 0
        self.disputed = Offset(0)  # the offset at which the leader wants our checksum
        self.owes_answer = False
        self.is_behind = False
        self.receiving: SnapshotMeta | None = None
        self.received = 0  # bytes of it
        self.is_received = False  # all of it
        self.owes_head: EntryId | None = None  # the snapshot in place, of which the leader must learn

    # entries

    def on_add_entry(self, request: AddEntryRequest) -> None:
        if request.disputed:
            self._on_dispute(request)
        self.leader_commit = Offset(max(self.leader_commit, request.commit))
        self.stream = request.stream
        is_heard = request.round > self.round or not request.entries
        self.round = max(self.round, request.round)
        new = self._new_entries(request)
        if new is None:
            reached("follower.behind")
            self.is_behind = True
        elif new:
            self.replica.append(new)
        if new is None or not new or is_heard:
            self.owes_answer = True

    def _on_dispute(self, request: AddEntryRequest) -> None:
        """Take a verdict about the state machines. The leader asks until all have answered."""
        replica = self.replica
        self.disputed = request.disputed
        if request.verdict is not None and replica.agreement.decided(request.disputed, self.epoch, request.verdict):
            replica.save()

    def _testimony(self) -> tuple[Offset, int]:
        """The own checksum at the offset that is disputed, or should be."""
        agreement = self.replica.agreement
        offset = self.disputed
        if agreement.suspicion is not None and agreement.suspicion.offset > offset:
            offset = agreement.suspicion.offset
        own = agreement.own(offset) if offset else None
        return (offset, own) if own is not None else (Offset(0), 0)

    def _new_entries(self, request: AddEntryRequest) -> tuple[Any, ...] | None:
        """The entries we do not hold yet, if they follow exactly on our head; None if they do not."""
        log, previous, entries = self.replica.log, request.previous, request.entries
        if previous.offset == log.end:
            return entries if log.holds(previous) else None
        if not log.holds(previous):
            return None
        held = log.end - previous.offset
        for offset, entry in enumerate(entries[:held], previous.offset + 1):
            if log.epoch_at(Offset(offset)) != entry.epoch:
                return None  # we have something else there: the leader will see that from our head
        return entries[held:]

    def on_durable(self) -> None:
        """More of our log is on the disk."""
        self.owes_answer = True

    def answer(self) -> None:
        """Report how far we are durable, if the leader should learn of it and our epoch is durable, too."""
        replica = self.replica
        if replica.saving:
            return
        if self.owes_head is not None and self._has_in_place(self.owes_head):
            response = SnapshotResponse(
                self.epoch, replica.member.incarnation, self.owes_head, self.received, replica.log.durable_head
            )
            self.owes_head = None
            replica.send(self.leader, response)
        if self.owes_answer:
            self.owes_answer, is_behind = False, self.is_behind
            self.is_behind = False
            head = replica.log.durable_head
            response_ = AddEntryResponse(
                self.epoch, replica.member.incarnation, head, self.round, self.stream, is_behind, *self._testimony()
            )
            replica.send(self.leader, response_)

    # truncation

    def on_truncate(self, request: TruncateRequest) -> None:
        replica, log = self.replica, self.replica.log
        if not replica.is_settled:
            return  # the leader asks again
        if self.may_truncate(request):
            to = self.cut(request.to)
            if to < log.confirmed:
                replica.emit(Stop(f"asked to truncate to {request.to}, below the committed entry {log.confirmed}"))
                return
            if to < log.end:
                replica.truncate(to)
        else:
            reached("follower.truncate_refused")
        response = TruncateResponse(self.epoch, replica.member.incarnation, log.head)
        replica.send(self.leader, response)

    def may_truncate(self, request: TruncateRequest) -> bool:
        """Return whether this is still the log that the leader meant (0101): a log that has changed since was
        acknowledged up to its end.
        """
        return self.replica.log.head == request.head

    def cut(self, to: EntryId) -> Offset:
        """Return where our log is cut so that it has nothing above `to`, by epoch or by offset."""
        return Offset(min(self.replica.log.highest_not_above(to.epoch).offset, to.offset))

    # snapshots

    def on_snapshot(self, request: SnapshotRequest) -> None:
        replica, snapshot = self.replica, request.snapshot
        if self._holds(snapshot):
            self.owes_head = snapshot.head  # nothing to install: we have all of it, in entries
            if not replica.is_formatted:
                replica.is_formatted = True
                replica.save()
            return
        if replica.is_writing_snapshot:
            return  # a part is on its way to the disk, perhaps this one: the leader asks again
        if self.receiving != snapshot:
            self.receiving, self.received, self.is_received = snapshot, 0, False
        if self.is_received:
            return  # all of it is here: a request for more would write the end a second time
        if request.position == self.received:
            replica.is_writing_snapshot = True
            replica.emit(WriteSnapshot(snapshot, request.position, request.data, request.is_last))
        else:
            self._ask_on(snapshot)  # a part was lost, or we have restarted

    def _holds(self, snapshot: SnapshotMeta) -> bool:
        log = self.replica.log
        return snapshot.head.offset <= log.confirmed or log.holds(snapshot.head)

    def _has_in_place(self, head: EntryId) -> bool:
        """Return whether it is in place, durably: a leader that learns of less sends the snapshot again, at once, for
        as long as our disk takes.
        """
        return not self.replica.is_restoring and self.replica.log.durable >= head.offset

    def _ask_on(self, snapshot: SnapshotMeta) -> None:
        replica = self.replica
        replica.send(
            self.leader, SnapshotResponse(self.epoch, replica.member.incarnation, snapshot.head, self.received)
        )

    def on_snapshot_written(self, event: SnapshotWritten) -> None:
        """A part is stored: ask for the next, or put the whole in place."""
        if self.receiving != event.snapshot:
            return
        self.received = event.position
        if event.is_last:
            self.is_received = True
        else:
            self._ask_on(event.snapshot)

    def maybe_install(self) -> None:
        """Put a received snapshot in place, once nothing is under way to the disk or to the state machine."""
        replica, snapshot = self.replica, self.receiving
        if self.is_received and snapshot is not None and replica.is_settled and not replica.is_restoring:
            self.receiving, self.is_received = None, False
            self.owes_head = snapshot.head
            if not self._holds(snapshot):
                replica.is_formatted = True
                replica.install(snapshot)

    # for observers

    def copy(self, replica: Replica) -> "Follower":
        """An equal follower on a copied replica."""
        twin = Follower.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.replica = replica
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the follower's behaviour, as a hashable value."""
        return (
            self.epoch, self.leader, self.round, self.stream, self.owes_answer, self.is_behind,
            self.receiving, self.received, self.is_received, self.owes_head, self.disputed,
        )  # fmt: skip

    def check(self) -> None:
        """I11: what a follower has applied is confirmed."""
        assert self.epoch == self.replica.epoch
        assert self.replica.applying <= self.replica.log.confirmed
