"""Parts of the quorum log with one rule broken each, in as few lines as the rule is. The rules: `quorum_mutants`."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from penstock.kernel.effects import Effect
from penstock.kernel.ids import EntryId, Epoch, Instant, NodeId, Offset
from penstock.quorum.client.sending import Answer, Next, Sending
from penstock.quorum.core.election import Election
from penstock.quorum.core.follow_cursor import FollowCursors
from penstock.quorum.core.follower import Follower
from penstock.quorum.core.leader import Leader
from penstock.quorum.core.limbo import Limbo
from penstock.quorum.core.limbo_queue import LimboEntry
from penstock.quorum.core.log import Log
from penstock.quorum.core.machines.agreement import ReplicaTrust
from penstock.quorum.core.machines.pairs import Pairs
from penstock.quorum.core.machines.state_machine import Applier, StateMachine
from penstock.quorum.core.node import Node
from penstock.quorum.core.operator import Operator
from penstock.quorum.core.replica import Replica
from penstock.quorum.core.replication import Replication
from penstock.quorum.core.watch import LeaderWatch
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.api import ClientAppend
from penstock.quorum.records.effects import AppendRequest
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Txn
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.messages import (
    AddEntryRequest,
    BecomeLeaderRequest,
    Change,
    FenceRequest,
    Request,
    TruncateRequest,
    TruncateResponse,
)
from penstock.quorum.records.metadata import Metadata
from penstock.quorum.records.state import Comparison, NodeState

__all__ = [
    "AbortsEarly",
    "AcknowledgesEarly",
    "AcksEarly",
    "AcksWhenFenced",
    "AnswersCopies",
    "AnswersFenceEarly",
    "AppliesBeforeDurable",
    "AppliesByHead",
    "BelievesItsLeader",
    "BelievesRefusals",
    "CommitsPriorEpochs",
    "CommitsUnprepared",
    "ConfirmsEarly",
    "CountsOwnPauses",
    "CountsTheStalledOut",
    "CountsTheWrongOut",
    "DoesNotWait",
    "ElectsStalled",
    "FencesEarly",
    "FencesOldEnsemble",
    "ForgetsChange",
    "ForgetsConfirmed",
    "ForgetsDivergence",
    "ForgetsForGood",
    "IgnoresClosed",
    "KeepsOldAcks",
    "KeepsStalled",
    "LandsAnywhere",
    "LeadsAfterRestart",
    "LeadsWithAWrongState",
    "LearnerVotes",
    "NeverDoubles",
    "NoConfirmForBarrier",
    "NoDedup",
    "NodeForgetsConfirmed",
    "ReadsAfterRestart",
    "ReadsWithoutRound",
    "ResolvesUncommitted",
    "ResumesEpoch",
    "RollsBackAnything",
    "SendsCopiesAsNew",
    "SkipsBarrier",
    "TruncatesOnce",
    "TruncatesOwnEpoch",
    "VotesEarly",
    "VotesWithoutData",
    "on_replica",
    "with_watch",
]


# the commit index


class CommitsPriorEpochs(Leader):
    """Counts acknowledgements of prior-epoch entries."""

    def may_commit(self, upto: Offset) -> bool:
        return True


class SkipsBarrier(Leader):
    """Appends nothing when it begins."""

    def opening(self) -> tuple[Entry, ...]:
        return ()


class LandsAnywhere(Log):
    """Commits inside a doomed range."""

    def landing(self, offset: Offset) -> Offset:
        return offset


class VotesEarly(Leader):
    """Counts its own vote when it appends, not when that is durable."""

    def own_vote(self) -> Offset:
        return self.log.end

    def settle(self, now: Instant) -> None:
        self.replication.cursors.durable = self.own_vote()
        super().settle(now)


class AppliesBeforeDurable(Leader):
    """A leader that applies committed entries, durable here or not."""

    def apply_limit(self) -> Offset:
        return self.log.landing(self.replica.commit)


class NoConfirmForBarrier(Leader):
    """Confirms transactions only: after an idle election no follower learns that the barrier committed."""

    def owes_confirm(self) -> bool:
        first, last = Offset(self.confirmed_upto + 1), self.replica.commit
        if not super().owes_confirm() or not self.log.is_in_tail(first):
            return False
        fresh = self.log.tail_between(first, last, 1 << 30)
        return any(not isinstance(entry, Barrier | Confirm) for entry in fresh)


# followers


class AppliesByHead(Node):
    """A follower which applies to min(leader's commit, its head)."""

    def apply_limit(self) -> Offset:
        if self.follower is None:
            return super().apply_limit()
        limit = Offset(min(self.follower.leader_commit, self.log.durable))
        self.replica.commit = Offset(max(self.replica.commit, limit))
        return limit


class AcksEarly(Follower):
    """Acknowledges its entries, durable or not."""

    def answer(self) -> None:
        log = self.replica.log
        durable, log.durable = log.durable, log.end
        super().answer()
        log.durable = durable

    def on_add_entry(self, request: AddEntryRequest) -> None:
        super().on_add_entry(request)
        self.owes_answer = True


class ConfirmsEarly(Log):
    """Believes a CONFIRM when it is appended, not when it is durable."""

    def append(self, entries: Any) -> Offset:
        first = super().append(entries)
        for entry in entries:
            if isinstance(entry, Confirm):
                self.confirmed = Offset(max(self.confirmed, entry.upto))
        return first


class ForgetsConfirmed(Replica):
    """Truncates a CONFIRM without writing down its statement."""

    def truncate(self, to: Offset) -> None:
        saved, self.saved = self.saved, msgspec.structs.replace(self.saved, confirmed=self.log.confirmed)
        super().truncate(to)
        self.saved = saved


class NodeForgetsConfirmed(Node):
    """A node on such a replica."""

    @classmethod
    def recover(cls, *args: Any, **options: Any) -> tuple[Node, list[Effect]]:
        node, effects = super().recover(*args, **options)
        node.replica.__class__ = ForgetsConfirmed
        return node, effects


class TruncatesOwnEpoch(Follower):
    """Obeys a late duplicate of a Truncate after it has begun to follow."""

    def may_truncate(self, request: TruncateRequest) -> bool:
        return True


class TruncatesOnce(Replication):
    """Takes whatever a follower has after one truncation for its own log."""

    def on_truncated(self, member: Member, response: TruncateResponse) -> None:
        link = self.links.get(member)
        if link is not None and link.truncate_to is not None:
            self._attach(member, Offset(min(response.head.offset, self.log.end)))


# the limbo


class AbortsEarly(Limbo):
    """Says ABORTED when the ROLLBACK is appended, not when it commits."""

    def roll_back(self, first: Offset) -> Offset:
        at = super().roll_back(first)
        for entry in self.queue.pending():
            if entry.offset >= first and entry.request is not None:
                self.replica.emit(Answers(Fate.ABORTED, entry.epoch, (entry.request,), (entry.offset,)))
                entry.request = None
        return at


class RollsBackAnything(Limbo):
    """Rolls back transactions of prior epochs, too."""

    def may_roll_back(self, entry: LimboEntry) -> bool:
        return entry.is_sync and not self.replica.log.is_doomed(entry.offset)


class AcknowledgesEarly(Leader):
    """Acknowledges async transactions before the epoch's barrier has committed."""

    def settle(self, now: Instant) -> None:
        self.limbo.acknowledge_async(self.log.durable)
        super().settle(now)


class ReadsWithoutRound(Leader):
    """Serves linearizable reads without asking whether it still leads."""

    def round_confirmed(self) -> int:
        return self.reads.started


# fencing and leading


class AcksWhenFenced(Node):
    """A fenced node that still acknowledges entries on their way to the disk, to its old leader."""

    def _on_fence(self, sender: NodeId, request: FenceRequest) -> None:
        follower = self.follower
        super()._on_fence(sender, request)
        if self.leader is None:
            self.follower = follower

    def may_lead(self, epoch: Epoch) -> bool:
        return self.may_lead_epoch == epoch == self.epoch and self.replica.is_settled


class LeadsAfterRestart(Node):
    """Believes a BecomeLeader whatever happened since the fence."""

    def may_lead(self, epoch: Epoch) -> bool:
        return epoch == self.epoch


class AnswersFenceEarly(Node):
    """Answers a fence while writes are under way."""

    def fence_is_settled(self) -> bool:
        return True


class VotesWithoutData(Node):
    """A node without data which answers any fence."""

    def is_allowed_unformatted(self, request: Request) -> bool:
        return True


class ResolvesUncommitted(Node):
    """Says COMMITTED of entries that it merely has."""

    def known_committed(self) -> Offset:
        return self.log.end


class ReadsAfterRestart(Node):
    """Serves local reads before it has applied everything that it may have shown in an earlier run."""

    def _check_serves_reads(self) -> None:
        self.serves_reads = True


class ForgetsDivergence(Node):
    """Comes up as if its state machine had never been found wrong (Q-12)."""

    @classmethod
    def recover(cls, state: NodeState, *args: Any, **options: Any) -> tuple[Node, list[Effect]]:
        return super().recover(msgspec.structs.replace(state, divergence=None), *args, **options)


class BelievesItsLeader(ReplicaTrust):
    """Takes what a leader wrote down for right (Q-13)."""

    def compared(self, comparisons: Iterable[Comparison]) -> None:
        for each in comparisons:
            self.note(each.offset, each.actual)
            if each.differs and self.divergence is None:
                self.divergence = each


class LeadsWithAWrongState(Node):
    """Does not look at its own state when it may lead."""

    @property
    def divergence(self) -> Comparison | None:
        return None


def on_replica(**parts: Any) -> type[Node]:
    """Return a node on a replica with other parts."""
    return type("MutantNode", (Node,), {"replica_class": type("MutantReplica", (Replica,), parts)})


# operators


class CountsTheWrongOut(Election):
    """Chooses among the others as soon as a majority has answered, the wrong one included."""

    def candidates(self) -> list[Member]:
        answered = [member for member in self.final_ensemble() if member in self.heads]
        if len(answered) < majority(len(self.final_ensemble())):
            return []
        able = [member for member in answered if member not in self.diverged]
        return [member for member in able if self.heads[member] == max(self.heads[each] for each in able)]


class FencesOldEnsemble(Election):
    """Does not fence the new node of a change in COMMIT, and counts the old ensemble."""

    def fencing_ensemble(self) -> Ensemble:
        return self.metadata.ensemble

    def candidates(self) -> list[Member]:
        has_quorum = len(self.heads) >= majority(len(self.metadata.ensemble))
        return [member for member in self.final_ensemble() if member in self.heads] if has_quorum else []

    def choose(self) -> tuple[Member, BecomeLeaderRequest]:
        if self.chosen is None:
            self.chosen = max(self.candidates(), key=lambda each: self.heads[each])
        return super().choose()


class ResumesEpoch(Operator):
    """Continues in the epoch that another operator, or an earlier run, has written."""

    def take_over(self, now: Instant) -> None:
        if self.metadata is not None and self.metadata.epoch and self.metadata.reconfiguration is None:
            self._fence(self.metadata, now)
        else:
            super().take_over(now)


class ForgetsChange(Operator):
    """Drops a change in COMMIT when it elects."""

    def election_metadata(self, metadata: Metadata) -> Metadata:
        kept = super().election_metadata(metadata)
        return msgspec.structs.replace(kept, reconfiguration=None)


class CommitsUnprepared(Operator):
    """Writes COMMIT before the leader has reported Prepared."""

    def may_write_commit(self) -> bool:
        return True


class KeepsOldAcks(Leader):
    """The old node keeps its vote after Prepare."""

    def remove_vote(self, change: Change) -> None:
        pass


class LearnerVotes(FollowCursors):
    """The new node has a vote before COMMIT."""

    def has_vote(self, member: Member) -> bool:
        return super().has_vote(member) or member in self._cursors

    def voters(self) -> list[Member]:
        return [*super().voters(), *(each for each in self._cursors if each not in self.ensemble)]


class KeepsStalled(Operator):
    """Keeps a leader for as long as it answers."""

    def _maybe_replace(self, *_: Any) -> None:
        pass


class ElectsStalled(Operator):
    """Lets the stalled leader win its succession: its log is the longest."""

    def stalled_candidate(self, leader: Member) -> Member | None:
        return None


class CountsTheStalledOut(Election):
    """Chooses among the others as soon as a majority has answered, the stalled leader included."""

    def candidates(self) -> list[Member]:
        answered = [member for member in self.final_ensemble() if member in self.heads]
        if len(answered) < majority(len(self.final_ensemble())):
            return []
        return [member for member in answered if member != self.stalled] or answered


class NeverDoubles(LeaderWatch):
    """Waits equally long each time."""

    def patience_with_stalls(self) -> int:
        return self.config.stall_ns

    def patience(self) -> int:
        return self.config.election_ns


class CountsOwnPauses(LeaderWatch):
    """Takes its own pause for a silence of the leader."""

    def tick(self, now: Instant) -> int:
        return 0


class IgnoresClosed(LeaderWatch):
    """Waits for a silence, whatever happens to a connection."""

    def connection_lost(self, now: Instant, *, is_refused: bool) -> bool:
        return False


class DoesNotWait(Operator):
    """Chooses among the members that have answered."""

    def waits_for_successor(self, election: Election) -> bool:
        return False


class FencesEarly(Leader):
    """Says that it has drained when it is asked to."""

    def has_drained(self) -> bool:
        return True

    def _successor(self, to: NodeId | None) -> Member | None:
        return next((each for each in self.replication.links if to in (None, each.node)), None)


def with_watch(kind: type[LeaderWatch]) -> type[Operator]:
    """Return an operator that watches in another way."""
    return type("MutantOperator", (Operator,), {"watch_class": kind})


# the state machine


class NoDedup(Applier):
    """Applies every transaction, retried or not."""

    def _apply_once(self, id_: EntryId, txn: Txn) -> Any:
        self.pairs.load([], [])
        return super()._apply_once(id_, txn)


class ForgetsForGood(Applier):
    """Takes a pair it has forgotten for a new one."""

    def __init__(self, machine: StateMachine, **options: Any) -> None:
        super().__init__(machine, **options)
        self.pairs = _Forgetful(self.pairs.limits)


class _Forgetful(Pairs):
    def is_expired(self, client: ClientId, seq: int) -> bool:
        return False


class AnswersCopies(Limbo):
    """Tells a repeat what became of this copy of it (Q-1, Q-2)."""

    def offer(self, requests: Sequence[AppendRequest], ensemble_size: int, now: Instant) -> None:
        plain = [msgspec.structs.replace(each, is_repeat=False) for each in requests]
        super().offer(plain, ensemble_size, now)


class BelievesRefusals(Sending):
    """Takes "nothing was written" of one copy for the end of the transaction (Q-2, Q-14)."""

    def heard(self, answer: Answer, *, is_late: bool) -> Next:
        step = super().heard(answer, is_late=is_late)
        is_of_copy = answer.fate is not Fate.INDETERMINATE
        return Next.TOLD if step is Next.UNKNOWN and is_of_copy else step


class SendsCopiesAsNew(Sending):
    """Does not say of a repeat that it is one."""

    def copy(self, number: int, timeout_ms: int, highest: int) -> ClientAppend:
        return msgspec.structs.replace(super().copy(number, timeout_ms, highest), is_repeat=False)
