"""Nodes and operators with one rule of quorum-log.md broken each, in as few lines as the rule has."""

from typing import Any

from penstock.kernel.ids import NO_ENTRY, Epoch, Instant, Offset
from penstock.quorum.core.election import Election
from penstock.quorum.core.follow_cursor import FollowCursors
from penstock.quorum.core.follower import Follower
from penstock.quorum.core.leader import Leader
from penstock.quorum.core.limbo import Limbo
from penstock.quorum.core.limbo_queue import LimboEntry
from penstock.quorum.core.log import Log
from penstock.quorum.core.node import Node
from penstock.quorum.core.operator import Operator
from penstock.quorum.core.replication import Replication
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.entry import Entry, Txn
from penstock.quorum.records.member import Ensemble, Member, majority
from penstock.quorum.records.messages import Change, Request, TruncateRequest, TruncateResponse
from penstock.quorum.records.metadata import Metadata


def node_with(**parts: type) -> type[Node]:
    """A node class with other parts: leader_class, follower_class, log_class."""
    return type("Mutant", (Node,), parts)


def leader_with(**parts: type) -> type[Node]:
    return node_with(leader_class=type("MutantLeader", (Leader,), parts))


class CommitsPriorEpochs(Leader):
    def may_commit(self, upto: Offset) -> bool:
        return True


class FencesOldEnsembleOnly(Election):
    def fencing_ensemble(self) -> Ensemble:
        return self.metadata.ensemble

    def candidates(self) -> list[Member]:
        has_quorum = len(self.heads) >= majority(len(self.metadata.ensemble))
        best = max((self.heads.get(each, NO_ENTRY) for each in self.final_ensemble()), default=NO_ENTRY)
        return [each for each in self.final_ensemble() if has_quorum and self.heads.get(each) == best]


class AcknowledgesWhenFenced(Node):
    def is_stale(self, request: Request) -> bool:
        return False


class AppliesByCommitAndHead(Node):
    def apply_limit(self) -> Offset:
        if self.follower is None:
            return super().apply_limit()
        return Offset(min(self.follower.leader_commit, self.log.durable))


class AbortsBeforeRollbackCommits(Limbo):
    def roll_back(self, first: Offset) -> Offset:
        at = super().roll_back(first)
        for entry in self.queue.pending():
            if entry.offset >= first and entry.request is not None:
                self.replica.emit(Answers(Fate.ABORTED, entry.epoch, (entry.request,), (entry.offset,)))
                entry.request = None
        return at


class SkipsBarrier(Leader):
    def opening(self) -> tuple[Entry, ...]:
        return ()


class LandsAnywhere(Log):
    def landing(self, offset: Offset) -> Offset:
        return offset


class RollsBackAnything(Limbo):
    def may_roll_back(self, entry: LimboEntry) -> bool:
        return True


class VotesBeforeDurable(Leader):
    def own_vote(self) -> Offset:
        return self.log.end

    def append(self, entries: Any) -> Offset:
        first = super().append(entries)
        self.replication.cursors.durable = self.own_vote()
        return first

    def settle(self, now: Instant) -> None:
        super().settle(now)
        self.replication.cursors.durable = self.own_vote()


class LeadsAfterRestart(Node):
    def may_lead(self, epoch: Epoch) -> bool:
        return epoch == self.epoch


class ResumesEpoch(Operator):
    def take_over(self, now: Instant) -> None:
        assert self.metadata is not None
        if self.metadata.epoch:
            self._fence(self.metadata, now)
        else:
            super().take_over(now)


class AnswersFenceBeforeDurable(Node):
    def fence_is_settled(self) -> bool:
        return True


class WipedVoter(Node):
    """To be run with `wiped_as="i1"`: the node which lost its disk calls itself what it was before."""

    def is_allowed_unformatted(self, request: Request) -> bool:
        return True


class KeepsOldNodesAcks(Leader):
    def remove_vote(self, change: Change) -> None:
        pass


class LearnerVotes(FollowCursors):
    def voters(self) -> list[Member]:
        return [self.leader, *self._cursors]

    def has_vote(self, member: Member) -> bool:
        return member in self.ensemble or member in self._cursors


class ForgetsReconfiguration(Operator):
    def election_metadata(self, metadata: Metadata) -> Metadata:
        kept = super().election_metadata(metadata)
        return Metadata(kept.ensemble, kept.epoch, kept.status, None, None, is_formed=kept.is_formed)


class TruncatesOnce(Replication):
    def on_truncated(self, member: Member, response: TruncateResponse) -> None:
        self._attach(member, response.head.offset)


class NoConfirmForBarrier(Leader):
    def owes_confirm(self) -> bool:
        between = range(self.confirmed_upto + 1, self.replica.commit + 1)
        tail = {offset: self.log.tail_between(Offset(offset), Offset(offset), 1)[0] for offset in between}
        return super().owes_confirm() and any(isinstance(entry, Txn) for entry in tail.values())


class ResolvesWithoutCommit(Node):
    def known_committed(self) -> Offset:
        return self.log.end


class CommitsBeforePrepared(Operator):
    def may_write_commit(self) -> bool:
        return True


class TruncatesItsOwnEpoch(Follower):
    """Not in quorum-log.md: what a late duplicate of a Truncate would do to a follower which restarted since."""

    def may_truncate(self, request: TruncateRequest) -> bool:
        return True


NODES: dict[str, type[Node]] = {
    "drop the current-epoch commit rule": node_with(leader_class=CommitsPriorEpochs),
    "count a fenced node's ack": AcknowledgesWhenFenced,
    "apply to min(commit, head) on followers": AppliesByCommitAndHead,
    "ABORTED before the ROLLBACK commits": leader_with(limbo_class=AbortsBeforeRollbackCommits),
    "skip the barrier": node_with(leader_class=SkipsBarrier),
    "no landing rule": node_with(log_class=LandsAnywhere),
    "ROLLBACK of a committed or prior-epoch entry": leader_with(limbo_class=RollsBackAnything),
    "own vote before durable": node_with(leader_class=VotesBeforeDurable),
    "BecomeLeader replayed after restart": LeadsAfterRestart,
    "unsynced head in a fence answer": AnswersFenceBeforeDurable,
    "wiped voter": WipedVoter,
    "old node's acks kept after Prepare": node_with(leader_class=KeepsOldNodesAcks),
    "new node counted before COMMIT": leader_with(
        replication_class=type("MutantReplication", (Replication,), {"cursors_class": LearnerVotes})
    ),
    "one-round Truncate": leader_with(replication_class=TruncatesOnce),
    "no CONFIRM for an idle barrier": node_with(leader_class=NoConfirmForBarrier),
    "resolve without commit": ResolvesWithoutCommit,
    "truncate entries of the current epoch": node_with(follower_class=TruncatesItsOwnEpoch),
}

OPERATORS: dict[str, type[Operator]] = {
    "fence only the old ensemble": type("MutantOperator", (Operator,), {"election_class": FencesOldEnsembleOnly}),
    "epoch resumed by a second operator": ResumesEpoch,
    "reconfiguration forgotten at an election": ForgetsReconfiguration,
    "COMMIT before Prepared": CommitsBeforePrepared,
}
