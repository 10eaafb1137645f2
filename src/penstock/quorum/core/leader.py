"""A leader: appends, commits, confirms, answers. Design: quorum-log.md P1 to P3, P7, P8, P11, P12.

A `Leader` exists from BecomeLeader until the node is fenced, restarts or fails a write; while it exists it is ACTIVE.
Each rule is a method of its own. What always holds (see `check`):

- commit is the highest offset durable on a majority, of the current epoch, and outside every doomed range (I4).
- Every epoch it leads begins with a barrier, also after an epoch bump by a reconfiguration (P1).
- It confirms only committed entries, in its own epoch, and never twice (I6).
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.kernel.effects import CancelTimer, Reply, SetTimer
from penstock.kernel.errors import Overloaded, Unavailable
from penstock.kernel.ids import EntryId, Instant, NodeId, Offset, RequestId
from penstock.quorum.core.limbo import Limbo
from penstock.quorum.core.log import Log
from penstock.quorum.core.reading.reads import ReadRounds
from penstock.quorum.core.replica import Replica
from penstock.quorum.core.replication import Replication
from penstock.quorum.records.effects import AppendRequest, Applied, Serve
from penstock.quorum.records.entry import Barrier, Confirm, Entry
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.messages import (
    AddEntryResponse,
    Change,
    CommitReconfigurationResponse,
    DrainResponse,
    PrepareReconfigurationResponse,
    SnapshotResponse,
    TruncateResponse,
)
from penstock.quorum.records.reconfiguration import final_ensemble

__all__ = ["Leader"]

HEARTBEAT, LIMBO, CONFIRM = "heartbeat", "limbo", "confirm"  # its timers


class Drain(msgspec.Struct, eq=False):
    """A hand-over that an operator prepares. Appends wait, VOLATILE, until it holds its election, or for a while."""

    asked_by: NodeId
    to: NodeId | None  # the next leader, if one is asked for
    until: Instant
    is_ready: bool = False


class Leader:
    """One leadership: from BecomeLeader on, through any number of reconfigurations."""

    limbo_class = Limbo
    replication_class = Replication

    def __init__(self, replica: Replica, ensemble: Ensemble) -> None:
        self.replica = replica
        self.log: Log = replica.log
        self.replication = self.replication_class(replica, ensemble)
        self.limbo = self.limbo_class(replica)
        self.reads = ReadRounds()
        self.barrier = Offset(replica.log.end + 1)  # of the current epoch
        self.confirmed_upto = Offset(replica.log.end)  # u0 of P3: what this leader has confirmed
        self._not_facts: deque[Offset] = deque()  # CONFIRMs and ROLLBACKs above it: alone they are not worth a CONFIRM
        self._is_confirm_timed = False
        self._confirm_at: Instant | None = None  # when the owed CONFIRM has waited long enough for company
        self._has_new_votes = True  # the commit index may have to move
        self.change: Change | None = None  # a reconfiguration under way
        self.asked_by: NodeId | None = None  # the operator waiting for Prepared
        self.last_change: Change | None = None  # committed in this epoch: a repeated request is answered again
        self.since = Instant(0)  # when it began to lead
        self.drain: Drain | None = None  # a hand-over under way: appends are held back

    @property
    def ensemble(self) -> Ensemble:
        return self.replication.cursors.ensemble

    def start(self, heads: Sequence[tuple[Member, EntryId]], now: Instant) -> None:
        """Open the epoch, and let those follow who were fenced in time."""
        self.since = now
        self.replication.cursors.durable = self.own_vote()
        self.append(self.opening())
        for member, head in heads:
            self.add_follower(member, head)
        self._set_timer(HEARTBEAT, Instant(now + self.replica.config.heartbeat_ns))

    def opening(self) -> tuple[Entry, ...]:
        """P1: what every epoch begins with."""
        return (Barrier(self.replica.epoch),)

    def may_follow(self, member: Member) -> bool:
        """Only voters follow; a learner comes with its reconfiguration."""
        return self.replication.cursors.has_vote(member) and member != self.replica.member

    def add_follower(self, member: Member, head: EntryId | None) -> None:
        if not self.may_follow(member) or member in self.replication.links:
            return
        if head is None:
            self.replication.send_snapshot(member)
        else:
            self.replication.follow(member, head)
            self._has_new_votes = True  # where it is attached it has confirmed

    def append(self, entries: Sequence[Entry]) -> Offset:
        """Append entries that are not a client's transaction."""
        first = self.replica.append(entries)
        for offset, entry in enumerate(entries, first):
            if not isinstance(entry, Barrier):
                self._not_facts.append(Offset(offset))
        return first

    # clients

    def on_append(self, requests: Sequence[AppendRequest], now: Instant) -> None:
        self.limbo.offer(requests, len(self.ensemble), now)

    def on_read(self, request: RequestId, now: Instant) -> None:
        """P12: the read must see everything committed when it came, and this epoch's barrier."""
        config = self.replica.config
        if len(self.reads.waiting) >= config.reads_max:
            self.replica.emit(Reply(request, Overloaded("too many reads are waiting for this leader")))
        else:
            must_see = Offset(max(self.replica.commit, self.barrier))
            self.reads.add(request, must_see, Instant(now + config.read_timeout_ns))

    # checksums (decision 0108)

    def _on_testimony(self, member: Member, offset: Offset, checksum: int) -> None:
        """A follower tells its checksum at an offset: asked, or because it differs from what a leader wrote down."""
        replica, jury = self.replica, self.replication.jury
        own = replica.agreement.own(offset)
        if own is not None and own != checksum and jury.is_news(offset, member):
            replica.agreement.suspect(offset, replica.epoch, checksum)
            self._dispute(offset)
        if offset == jury.disputed:
            self._vote(member, checksum)

    def _dispute(self, offset: Offset) -> None:
        """Ask all for their checksum at an offset, at once."""
        self.replication.jury.open(offset)
        own = self.replica.agreement.own(offset)
        if own is not None:
            self._vote(self.replica.member, own)
        self.replication.speak()

    def _vote(self, member: Member, checksum: int) -> None:
        replica, jury = self.replica, self.replication.jury
        was_decided = jury.verdict is not None
        jury.vote(member, checksum, self.ensemble)
        if jury.verdict is not None and not was_decided:
            if replica.agreement.decided(jury.disputed, replica.epoch, jury.verdict):
                replica.save()
            self.replication.speak()

    def _settle_suspicion(self) -> None:
        """A leader that differs from what an earlier leader wrote down asks at once who was right."""
        suspicion, jury = self.replica.agreement.suspicion, self.replication.jury
        if suspicion is not None and suspicion.offset > jury.disputed:
            self._dispute(suspicion.offset)

    # votes

    def on_durable(self) -> None:
        self.replication.cursors.durable = self.own_vote()
        self._has_new_votes = True

    def own_vote(self) -> Offset:
        """P2: the own vote counts only when locally durable."""
        return self.log.durable

    def on_truncated(self, member: Member, response: TruncateResponse, now: Instant) -> None:
        self.replication.heard(member, now)
        self.replication.on_truncated(member, response)
        self._has_new_votes = True

    def on_snapshot_response(self, member: Member, response: SnapshotResponse, now: Instant) -> None:
        self.replication.heard(member, now)
        self.replication.on_snapshot_response(member, response)
        self._has_new_votes = True

    def quorum_age_ns(self, now: Instant) -> int:
        """Return for how long no majority has answered this leader."""
        links = self.replication.links
        heard = [links[member].heard for member in self.replication.cursors.voters() if member in links]
        heard += [now] + [self.since] * len(self.ensemble)
        heard.sort(reverse=True)
        return max(0, now - heard[majority(len(self.ensemble)) - 1])

    def progress(self) -> int:
        """Return a number that grows while a change comes further: what the new node has received and holds."""
        new = self.change.new if self.change is not None else None
        link = self.replication.links.get(new) if new is not None else None
        return 1 + link.position + link.cursor.last_confirmed if link is not None else 0

    def on_add_entry_response(self, member: Member, response: AddEntryResponse, now: Instant) -> None:
        self.replication.heard(member, now)
        if response.checked:
            self._on_testimony(member, response.checked, response.checksum)
        if self.replication.on_add_entry_response(member, response):
            self._has_new_votes = True

    def advance_commit(self) -> None:
        """P2: the highest offset a majority holds, of this epoch, outside every doomed range."""
        upto = self.log.landing(self.replication.cursors.quorum_offset())
        if upto > self.replica.commit and self.may_commit(upto):
            self.replica.commit = upto
            self.limbo.committed(upto)

    def may_commit(self, upto: Offset) -> bool:
        """Entries of prior epochs commit only together with one of this epoch: Raft's figure 8."""
        return self.log.epoch_at(upto) == self.replica.epoch

    def apply_limit(self) -> Offset:
        """P2: a leader applies entries that are committed and durable here, up to a point outside every doomed
        range.
        """
        return self.log.landing(Offset(min(self.replica.commit, self.log.durable)))

    @property
    def has_barrier(self) -> bool:
        """Is this epoch's barrier committed?"""
        return self.replica.commit >= self.barrier

    # after every step

    def settle(self, now: Instant) -> None:
        """Do everything that has become possible."""
        limbo = self.limbo
        if self._has_new_votes:
            self._has_new_votes = False
            self.advance_commit()
            limbo.levels_reached(self.replication.cursors.level_offset)
        if self.replica.commit >= self.barrier:
            limbo.acknowledge_async(self.log.durable)
        if limbo.queue.volatile_length:
            limbo.admit(is_active=self.may_admit())
        if self.replica.commit > self.confirmed_upto:
            self._confirm_now_or_later(now)
        if self.reads.waiting:
            self._ask_rounds()
        if self.change is not None:
            self._report_prepared()
        if self.replica.agreement.suspicion is not None:
            self._settle_suspicion()
        if self.drain is not None:
            self._report_drained(self.drain, now)
        self.replication.push_all()
        due = limbo.timer_due()
        if due is not None:
            self._set_timer(LIMBO, due)

    def serve_reads(self) -> None:
        """Serve what may be served; after applying, so that a read sees what this step applied."""
        if self.reads.waiting and self.replica.agreement.is_trusted:
            served = self.reads.servable(self.replica.applied)
            if served:
                self.replica.emit(Serve(tuple(served), self.replica.applied))

    def on_applied(self, event: Applied) -> None:
        first = Offset(event.upto - len(event.results) + 1)
        if self.limbo.applied(first, event.upto, event.results):
            self._has_new_votes = True  # a repeat that waits for an ack level may be answered

    # CONFIRM

    def _confirm_now_or_later(self, now: Instant) -> None:
        """P3: off the critical path. With company it goes at once; alone it may wait a little for some."""
        if not self.owes_confirm():
            return
        delay = self.replica.config.confirm_delay_ns if self.drain is None else 0
        if not delay or self.replica.has_new_entries:
            self.confirm()
            return
        if self._confirm_at is None:
            self._confirm_at = Instant(now + delay)
        if not self._is_confirm_timed:
            self._is_confirm_timed = True
            self._set_timer(CONFIRM, self._confirm_at)

    def owes_confirm(self) -> bool:
        """P3: is there a TXN or a BARRIER between the last CONFIRM and the commit index? (And I6: in this epoch.)"""
        commit = self.replica.commit
        if commit <= self.confirmed_upto or not self.has_barrier:
            return False
        not_facts = 0
        for offset in self._not_facts:
            if offset > commit:
                break
            not_facts += offset > self.confirmed_upto
        return commit - self.confirmed_upto > not_facts

    def confirm(self) -> None:
        """Write down how far the log is committed; followers apply by it."""
        replica = self.replica
        self.confirmed_upto = replica.commit
        self._confirm_at = None
        while self._not_facts and self._not_facts[0] <= replica.commit:
            self._not_facts.popleft()
        if replica.applied:
            replica.agreement.note(replica.applied, replica.checksum)
        self.append((Confirm(replica.epoch, replica.commit, replica.applied, replica.checksum),))

    # reads

    def _ask_rounds(self) -> None:
        self.reads.confirm(self.round_confirmed())
        if self.reads.starts_round():
            self.replication.round = self.reads.started
            self.replication.speak()
            self.reads.confirm(self.round_confirmed())

    def round_confirmed(self) -> int:
        """The newest round which a majority of voters, this node among them, has answered in this epoch."""
        cursors, links = self.replication.cursors, self.replication.links
        rounds = [self.reads.started]
        rounds += [links[member].round for member in cursors.voters() if member in links]
        rounds.sort(reverse=True)
        needed = majority(len(cursors.ensemble))
        return rounds[needed - 1] if len(rounds) >= needed else 0

    # reconfiguration

    def prepare(self, change: Change, asked_by: NodeId) -> None:
        """P11: continue in the next epoch, without the old node's vote, with the new node as a learner."""
        replica, replication = self.replica, self.replication
        self.change, self.asked_by, self.last_change = change, asked_by, None
        replication.bump()
        self.remove_vote(change)
        self.barrier = self.append(self.opening())
        if change.old is not None:
            self._dismiss(change.old)
        if change.new is not None:
            replication.send_snapshot(change.new)
        assert self.log.head.epoch == replica.epoch or not self.opening()

    def can_change(self, change: Change) -> bool:
        """Does this change fit the ensemble? A leader never removes itself."""
        removes_follower = change.old is None or self.may_follow(change.old)
        return removes_follower and change.new not in self.ensemble and change.new != change.old

    def _dismiss(self, old: Member) -> None:
        """A person removes a member that differs: where no majority could decide, that decides."""
        agreement, jury = self.replica.agreement, self.replication.jury
        said, own = jury.votes.pop(old, None), agreement.own(jury.disputed)
        if jury.verdict is None and said not in (None, own) and set(jury.votes.values()) <= {own}:
            agreement.suspicion = None

    def remove_vote(self, change: Change) -> None:
        """The old node is fenced off: its cursor goes, and its confirmations no longer count."""
        if change.old is not None:
            self.replication.cursors.remove_vote(change.old)
            self.replication.drop(change.old)

    def is_prepared(self) -> bool:
        """P11: is this epoch's barrier durable on a majority of the final ensemble, the learner included?"""
        assert self.change is not None
        final = final_ensemble(self.ensemble, self.change)
        has_barrier = self.replication.cursors.held_by_at_least(majority(len(final)), final) >= self.barrier
        return has_barrier and self._learner_follows(self.change)

    def _learner_follows(self, change: Change) -> bool:
        """Has the new node installed its snapshot? Without data it could not answer the fence of an election."""
        link = self.replication.links.get(change.new) if change.new is not None else None
        return change.new is None or (link is not None and link.cursor.is_attached)

    def _report_prepared(self) -> None:
        if self.asked_by is not None and self.is_prepared():
            replica = self.replica
            replica.send(self.asked_by, PrepareReconfigurationResponse(replica.epoch, replica.member.incarnation))
            self.asked_by = None

    def commit_change(self, change: Change, asked_by: NodeId) -> None:
        """P11: the final ensemble is the ensemble, and the learner a voter."""
        replica, cursors = self.replica, self.replication.cursors
        if self.change == change:
            cursors.reconfigure(final_ensemble(cursors.ensemble, change))
            self._has_new_votes = True
            self.change, self.last_change = None, change
            self._check_commit_survives()
        replica.send(asked_by, CommitReconfigurationResponse(replica.epoch, replica.member.incarnation))

    def _check_commit_survives(self) -> None:
        """I22: whatever was committed meets every fence quorum of the new ensemble."""
        size = len(self.ensemble)
        meets_all = size - majority(size) + 1
        assert self.replication.cursors.held_by_at_least(meets_all, self.ensemble) >= self.replica.commit

    # hand-over (operating.md O14)

    def on_drain(self, asked_by: NodeId, to: NodeId | None, now: Instant) -> None:
        """Hold appends back, so that the log comes to an end that another member holds as well."""
        if self.drain is None:
            self.drain = Drain(asked_by, to, Instant(now + self.replica.config.drain_ns))
        self.drain.asked_by, self.drain.is_ready = asked_by, False

    def may_admit(self) -> bool:
        """Are appends taken now?"""
        return self.drain is None

    def _report_drained(self, drain: Drain, now: Instant) -> None:
        """Tell the operator who holds the whole log, when nothing is pending."""
        replica = self.replica
        if drain.is_ready or not self.has_drained():
            return
        successor = self._successor(drain.to)
        if successor is not None:
            drain.is_ready = True
            drain.until = Instant(now + replica.config.drained_ns)
            replica.send(drain.asked_by, DrainResponse(replica.epoch, replica.member.incarnation, successor))

    def has_drained(self) -> bool:
        """Is everything committed that was ever appended, and no CONFIRM due, which would move the head again?"""
        return self.has_barrier and self.replica.commit == self.log.end and not self.owes_confirm()

    def _successor(self, to: NodeId | None) -> Member | None:
        """A voter that holds the whole log durably: the one that is asked for, if any is."""
        held_by, end = self.replication.cursors.held_by, self.log.end
        whole = [each for each in self.replication.cursors.voters() if self.may_follow(each) and held_by(each) >= end]
        return next((each for each in whole if to in (None, each.node)), None)

    # time, and the end

    def on_timer(self, name: str, now: Instant) -> None:
        if name == HEARTBEAT:
            self.replication.speak()
            if self.drain is not None and now >= self.drain.until:
                self.drain = None  # the operator has held no election: take appends again
            for request in self.reads.expired(now):
                self.replica.emit(Reply(request, Unavailable("no majority has confirmed this leader in time")))
            self._set_timer(HEARTBEAT, Instant(now + self.replica.config.heartbeat_ns))
        elif name == LIMBO:
            rollback = self.limbo.expire(now)
            if rollback is not None:
                self._not_facts.append(rollback)
        elif name == CONFIRM:
            self._is_confirm_timed = False
            # Under load the CONFIRM it was set for has long gone with some entries, and the next one will too: the
            # CONFIRM owed now may wait as long as that did.
            if self._confirm_at is not None and now >= self._confirm_at and self.owes_confirm():
                self.confirm()

    def _set_timer(self, name: str, at: Instant) -> None:
        self.replica.emit(SetTimer(name, at))

    def stop(self) -> None:
        """P9: fenced, failed or superseded. Nothing is said as leader from here on."""
        self.limbo.freeze()
        self.replica.emit(*(CancelTimer(name) for name in (HEARTBEAT, LIMBO, CONFIRM)))
        for request in self.reads.drain():
            self.replica.emit(Reply(request, Unavailable("this node no longer leads")))
        log = self.replica.log
        log.confirmed = Offset(max(log.confirmed, self.apply_limit()))

    # for observers

    def copy(self, replica: Replica) -> "Leader":
        """An equal leader on a copied replica."""
        twin = Leader.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.replica, twin.log = replica, replica.log
        twin.replication = self.replication.copy(replica)
        twin.limbo = self.limbo.copy(replica)
        twin.reads = self.reads.copy()
        twin._not_facts = deque(self._not_facts)
        twin.drain = msgspec.structs.replace(self.drain) if self.drain is not None else None
        return twin

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that decides the leader's behaviour, as a hashable value."""
        return (
            self.barrier, self._has_new_votes, self.confirmed_upto, tuple(self._not_facts), self._is_confirm_timed,
            self._confirm_at, self.change, self.asked_by, self.last_change, self.replication.fingerprint(),
            self.limbo.queue.fingerprint(), self.reads.fingerprint(),
            None if self.drain is None else (self.drain.asked_by, self.drain.to, self.drain.is_ready),
        )  # fmt: skip

    def check(self) -> None:
        """I4, I6, I11, I17 and the limbo's."""
        self.replication.check()
        self.limbo.check()
        self.reads.check()
        replica, cursors = self.replica, self.replication.cursors
        assert cursors.epoch == replica.epoch
        assert self.log.barrier(replica.epoch) == self.barrier
        assert replica.applying <= self.apply_limit()
        assert self.confirmed_upto <= replica.commit or not self.has_barrier
        for upto in range(replica.commit + 1, self.log.end + 1):
            held = [cursors.held_by(member) >= upto for member in cursors.voters()]
            has_quorum = sum(held) * 2 > len(self.ensemble)
            is_ours = self.log.epoch_at(Offset(upto)) == replica.epoch
            assert not (has_quorum and is_ours) or self.log.is_doomed(Offset(upto)), f"{upto} should be committed"
