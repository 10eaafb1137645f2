"""How a leader brings its log to its followers: attach, push, rewind, truncate, or send a snapshot.

Design: quorum-log.md P13; log-replication.md, "Truncation" and "Replication in the steady state". `follow_cursor.py`
knows which entries are confirmed and which count; the messages are here. The rules of P13:

- A cursor is attached only at an id the leader holds. Else the follower truncates, again and again if need be, to ids
  which only fall; if the leader's log no longer reaches down there, it gets a snapshot.
- Every AddEntry carries the previous id. A follower that cannot append reports how far it is durable, and the leader
  rewinds its pushes, never its confirmed entries.
"""

from collections import deque
from typing import Any

import msgspec

from penstock.kernel.ids import EntryId, Instant, Offset
from penstock.quorum.core.follow_cursor import FollowCursor, FollowCursors
from penstock.quorum.core.log import Log
from penstock.quorum.core.machines.agreement import Jury
from penstock.quorum.core.replica import Replica
from penstock.quorum.records.effects import LogRead, ReadLog, ReadSnapshot, SnapshotRead
from penstock.quorum.records.entry import Entry, sizes_of
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.state import SnapshotMeta

__all__ = ["Link", "Replication"]

FOR_PUSH = "push "  # followed by the member: the purpose of a log read


class Link(msgspec.Struct, eq=False):
    """The messages under way to one follower."""

    cursor: FollowCursor
    stream: int = 0  # raised by every rewind: complaints about older streams are out of date
    round: int = 0  # the newest read round it has answered
    heard: Instant = Instant(0)  # when it last answered
    in_flight: deque[tuple[Offset, int]] = msgspec.field(default_factory=deque)  # (last offset, bytes) of messages
    in_flight_bytes: int = 0
    truncate_to: EntryId | None = None  # we wait for this truncation,
    truncate_from: EntryId | None = None  # of a log which ends there
    snapshot: SnapshotMeta | None = None  # we are sending this snapshot
    position: int = 0  # from where on
    is_reading: bool = False  # entries for it are being read back from the disk


class Replication:
    """The followers of one leadership."""

    cursors_class = FollowCursors

    def __init__(self, replica: Replica, ensemble: Ensemble) -> None:
        self.replica = replica
        self.log: Log = replica.log
        self.cursors = self.cursors_class(replica.epoch, replica.member, ensemble)
        self.links: dict[Member, Link] = {}
        self.round = 0  # the newest read round
        self.jury = Jury()
        self._last_batch: tuple[Offset, Offset, tuple[Entry, ...], int] | None = None

    def heard(self, member: Member, now: Instant) -> None:
        """A member has answered in this epoch."""
        link = self.links.get(member)
        if link is not None:
            link.heard = now

    # attaching

    def follow(self, member: Member, head: EntryId) -> None:
        """A member's log ends at `head`: let it follow from there, if our logs agree there."""
        log = self.log
        agreed = head if log.holds(head) else log.highest_not_above(head.epoch)
        if agreed.offset < log.base.offset:
            self.send_snapshot(member)
        elif agreed == head:
            self._attach(member, head.offset)
        else:
            self._truncate(member, agreed, head)

    def _attach(self, member: Member, at: Offset) -> None:
        known = self.links.get(member)
        cursor = self.cursors.attach(member, at)
        link = self.links[member] = _renewed(known, cursor)
        self.push(link)
        if not link.in_flight:
            self._send(link, ())  # it may learn of its leader although there is nothing to send

    def _truncate(self, member: Member, to: EntryId, head: EntryId) -> None:
        link = self._hold(member)
        link.truncate_to, link.truncate_from = to, head
        self._send_truncate(link)

    def _hold(self, member: Member) -> Link:
        known = self.links.get(member)
        cursor = self.cursors.hold(member)
        link = self.links[member] = _renewed(known, cursor)
        return link

    def _send_truncate(self, link: Link) -> None:
        member = link.cursor.member
        assert link.truncate_to is not None
        assert link.truncate_from is not None
        message = TruncateRequest(self.replica.epoch, member.incarnation, link.truncate_to, link.truncate_from)
        self.replica.send(member.node, message)

    def on_truncated(self, member: Member, response: TruncateResponse) -> None:
        """It has truncated its log; whether we agree now is to be seen (P13: one round may not be enough)."""
        link = self.links.get(member)
        if link is not None and link.truncate_to is not None:
            self.follow(member, response.head)

    def drop(self, member: Member) -> None:
        self.cursors.drop(member)
        self.links.pop(member, None)

    # entries

    def push_all(self) -> None:
        end = self.log.end
        for link in self.links.values():
            if link.cursor.last_pushed < end:
                self.push(link)

    def push(self, link: Link) -> None:
        """Send what this follower has not been sent yet, as far as its window goes."""
        cursor, log, config = link.cursor, self.log, self.replica.config
        while cursor.is_attached and cursor.last_pushed < log.end and link.in_flight_bytes < config.push_window_bytes:
            first = Offset(cursor.last_pushed + 1)
            if log.is_in_tail(first):
                entries, size = self._batch(first)
                self._push_entries(link, entries, size)
            else:
                self._read_for(link, first)
                return

    def _batch(self, first: Offset) -> tuple[tuple[Entry, ...], int]:
        """Entries from `first` on. Followers at the same place, which is the rule, share one batch."""
        log = self.log
        if self._last_batch is None or self._last_batch[:2] != (first, log.end):
            entries = log.tail_between(first, log.end, self.replica.config.push_bytes_max)
            self._last_batch = (first, log.end, entries, sizes_of(entries))
        return self._last_batch[2:]

    def _push_entries(self, link: Link, entries: tuple[Entry, ...], size: int) -> None:
        cursor = link.cursor
        upto = Offset(cursor.last_pushed + len(entries))
        self._send(link, entries)
        self.cursors.pushed(cursor, upto)
        link.in_flight.append((upto, size))
        link.in_flight_bytes += size

    def _send(self, link: Link, entries: tuple[Entry, ...]) -> None:
        replica, cursor = self.replica, link.cursor
        previous = self.log.id_at(cursor.last_pushed)
        message = AddEntryRequest(
            replica.epoch, cursor.member.incarnation, previous, entries, replica.commit, self.round, link.stream,
            self.jury.disputed, self.jury.verdict,
        )  # fmt: skip
        replica.send(cursor.member.node, message)

    def _read_for(self, link: Link, first: Offset) -> None:
        if first < self.log.first:
            self.send_snapshot(link.cursor.member)
        elif not link.is_reading:
            link.is_reading = True
            purpose = FOR_PUSH + str(link.cursor.member)
            self.replica.emit(ReadLog(purpose, first, self.log.durable, self.replica.config.push_bytes_max))

    def on_read(self, event: LogRead | SnapshotRead) -> None:
        """Take entries or a snapshot's part read from the disk, to send."""
        if isinstance(event, LogRead):
            self._on_log_read(event)
        else:
            self._on_snapshot_read(event)

    def _on_log_read(self, event: LogRead) -> None:
        for link in self.links.values():
            if link.is_reading and event.purpose == FOR_PUSH + str(link.cursor.member):
                link.is_reading = False
                if link.cursor.is_attached and event.entries and event.first == link.cursor.last_pushed + 1:
                    self._push_entries(link, event.entries, sizes_of(event.entries))
                self.push(link)
                return

    def on_add_entry_response(self, member: Member, response: AddEntryResponse) -> bool:
        """A follower says how far it is durable. Returns whether that is news for the quorum."""
        link = self.links.get(member)
        if link is None or response.epoch != self.cursors.epoch or not link.cursor.is_attached:
            return False
        link.round = max(link.round, response.round)
        if not self.log.holds(response.head):
            self.follow(member, response.head)
            return False
        is_news = self.cursors.acknowledge(member, response.epoch, response.head.offset)
        in_flight, confirmed = link.in_flight, link.cursor.last_confirmed
        while in_flight and in_flight[0][0] <= confirmed:
            link.in_flight_bytes -= in_flight.popleft()[1]
        if response.is_behind and response.stream == link.stream:
            self._rewind(link, response.head.offset)
        self.push(link)
        return is_news

    def _rewind(self, link: Link, to: Offset) -> None:
        self.cursors.rewind(link.cursor, to)
        link.stream += 1
        link.in_flight.clear()
        link.in_flight_bytes = 0

    def speak(self) -> None:
        """A heartbeat to everyone: says that we lead, asks what is missing, repeats what may have been lost."""
        for link in list(self.links.values()):
            if link.truncate_to is not None:
                self._send_truncate(link)
            elif link.snapshot is not None:
                self._send_chunk(link)
            else:
                self._send(link, ())

    # snapshots

    def send_snapshot(self, member: Member) -> None:
        """Let a member start from our newest snapshot: our log no longer reaches down to its head."""
        link = self._hold(member)
        link.snapshot = self.replica.snapshot
        self._send_chunk(link)

    def _send_chunk(self, link: Link) -> None:
        assert link.snapshot is not None
        member, head = link.cursor.member, link.snapshot.head
        if head.offset and not self.replica.agreement.is_trusted:
            return  # it may be wrong, and its receiver would vote for it: it is sent when a majority has decided
        if head.offset == 0:  # we never took one: an empty snapshot, which only makes the node a member
            self._send_part(link, b"", is_last=True)
        else:
            bytes_max = self.replica.config.snapshot_chunk_bytes
            self.replica.emit(ReadSnapshot(member, head, link.position, bytes_max))

    def _on_snapshot_read(self, event: SnapshotRead) -> None:
        link = self.links.get(event.member)
        if (
            link is None
            or link.snapshot is None
            or (event.snapshot, event.position) != (link.snapshot.head, link.position)
        ):
            return
        if event.data is None:  # a newer one has taken its place
            self.send_snapshot(event.member)
        else:
            self._send_part(link, event.data, is_last=event.is_last)

    def _send_part(self, link: Link, data: bytes, *, is_last: bool) -> None:
        assert link.snapshot is not None
        member = link.cursor.member
        message = SnapshotRequest(self.replica.epoch, member.incarnation, link.snapshot, link.position, data, is_last)
        self.replica.send(member.node, message)

    def on_snapshot_response(self, member: Member, response: SnapshotResponse) -> None:
        """Send the next part; or, when the snapshot is in place, the log after it."""
        link = self.links.get(member)
        if link is None or link.snapshot is None or response.snapshot != link.snapshot.head:
            return
        if response.head is not None:
            self.follow(member, response.head)
        elif response.position != link.position:
            link.position = response.position
            self._send_chunk(link)

    def bump(self) -> None:
        """Continue as leader in a higher epoch. A member that does not follow yet must come by that epoch's own
        fence.
        """
        self.cursors.bump(self.replica.epoch)
        for member in [member for member, link in self.links.items() if not link.cursor.is_attached]:
            self.drop(member)

    # for observers

    def copy(self, replica: Replica) -> "Replication":
        """Equal followers on a copied replica."""
        twin = Replication.__new__(type(self))
        twin.replica, twin.log = replica, replica.log
        twin.round, twin._last_batch = self.round, self._last_batch
        twin.cursors = self.cursors.copy()
        twin.jury = self.jury.copy()
        twin.links = {}
        for member, link in self.links.items():
            cursor = twin.cursors.get(member)
            assert cursor is not None
            twin.links[member] = msgspec.structs.replace(link, cursor=cursor, in_flight=deque(link.in_flight))
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the next messages, as a hashable value."""
        links = tuple(
            (member, link.stream, link.round, tuple(link.in_flight), link.truncate_to, link.snapshot, link.position)
            for member, link in sorted(self.links.items())
        )
        return (self.round, links, self.cursors.fingerprint(), self.jury.fingerprint())

    def check(self) -> None:
        """I17, and each link against its cursor."""
        self.cursors.check(self.log.end)
        assert [link.cursor for link in self.links.values()] == [self.cursors.get(member) for member in self.links]
        assert {cursor.member for cursor in self.cursors} == set(self.links)
        for link in self.links.values():
            assert link.in_flight_bytes == sum(size for _, size in link.in_flight)
            waits = link.truncate_to is not None or link.snapshot is not None
            assert link.cursor.is_attached != waits, "attached, or waiting for something"


def _renewed(known: Link | None, cursor: FollowCursor) -> Link:
    """Return a link with nothing under way, which keeps what its member has answered."""
    return Link(cursor) if known is None else Link(cursor, known.stream + 1, known.round, known.heard)
