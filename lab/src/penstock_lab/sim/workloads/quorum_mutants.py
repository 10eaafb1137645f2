"""Mutants of the quorum log: each breaks one rule of quorum-log.md in a few lines, and the simulator must catch it.

The first twenty are the ones the design names; the others are bugs which real systems had (an acknowledgement before
the write, a read without a round, a CONFIRM believed before it is durable). A mutant's own `check` is not asked: the
world's checkers must see what it does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.quorum.client.sending import Sending
from penstock.quorum.core.leader import Leader
from penstock.quorum.core.machines.state_machine import Applier
from penstock.quorum.core.node import Node
from penstock.quorum.core.operator import Operator
from penstock.quorum.core.replication import Replication
from penstock_lab.sim.workloads import quorum_broken as broken

__all__ = ["MUTANTS", "Parts", "QuorumMutant"]


@dataclass
class Parts:
    """What a workload is built from; a mutant puts another class in one of these places."""

    node: type[Node] = Node
    operator: type[Operator] = Operator
    applier: type[Applier] = Applier
    sending: type[Sending] = Sending
    keeps_incarnation: bool = False  # a node that lost its disk keeps its former name


@dataclass(frozen=True)
class QuorumMutant:
    """Which rule is broken, and how."""

    rule: str
    apply: Callable[[Parts], None]
    mode: str = ""  # the only kind of seed that can meet it, if there is one


def _node(kind: type[Node]) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        parts.node = kind

    return apply


def _with(**classes: type) -> Callable[[Parts], None]:
    """A node made of other parts: leader_class, follower_class, log_class."""
    return _node(type("QuorumMutant", (Node,), classes))


def _leader(**classes: Any) -> Callable[[Parts], None]:
    return _with(leader_class=type("MutantLeader", (Leader,), classes))


def _operator(kind: type[Operator]) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        parts.operator = kind

    return apply


def _wiped_voter(parts: Parts) -> None:
    parts.node, parts.keeps_incarnation = broken.VotesWithoutData, True


def _no_dedup(parts: Parts) -> None:
    parts.applier = broken.NoDedup


def _forgets(parts: Parts) -> None:
    parts.applier = broken.ForgetsForGood


def _sending(kind: type[Sending]) -> Callable[[Parts], None]:
    def apply(parts: Parts) -> None:
        parts.sending = kind

    return apply


def _replication(kind: type[Replication]) -> Callable[[Parts], None]:
    return _leader(replication_class=kind)


MUTANTS: dict[str, QuorumMutant] = {
    # named by quorum-log.md, "Proof obligations"
    "commits-prior-epochs": QuorumMutant(
        "P2: only entries of the current epoch commit", _with(leader_class=broken.CommitsPriorEpochs)
    ),
    "fences-old-ensemble": QuorumMutant(
        "Election: fence the union, wait for a majority of the FINAL ensemble",
        _operator(type("MutantOperator", (Operator,), {"election_class": broken.FencesOldEnsemble})),
    ),
    "acks-when-fenced": QuorumMutant("P9: a fenced node acknowledges nothing older", _node(broken.AcksWhenFenced)),
    "applies-by-head": QuorumMutant(
        "P4: a follower applies to `confirmed`, never to min(commit, head)", _node(broken.AppliesByHead)
    ),
    "aborts-early": QuorumMutant("P6: ABORTED only when the ROLLBACK commits", _leader(limbo_class=broken.AbortsEarly)),
    "skips-barrier": QuorumMutant(
        "P1: the first entry of every epoch is its BARRIER", _with(leader_class=broken.SkipsBarrier)
    ),
    "no-landing": QuorumMutant("P2: no commit inside a doomed range", _with(log_class=broken.LandsAnywhere)),
    "rolls-back-anything": QuorumMutant(
        "P5: only pending sync TXNs of this epoch", _leader(limbo_class=broken.RollsBackAnything)
    ),
    "votes-early": QuorumMutant(
        "P2: the own vote counts only when locally durable", _with(leader_class=broken.VotesEarly)
    ),
    "leads-after-restart": QuorumMutant(
        "P9: a node leads what it was fenced into in this run", _node(broken.LeadsAfterRestart)
    ),
    "resumes-epoch": QuorumMutant("P9: taking over always means a new epoch", _operator(broken.ResumesEpoch)),
    "answers-fence-early": QuorumMutant(
        "P9: the head in a fence answer is durable and final", _node(broken.AnswersFenceEarly)
    ),
    "wiped-voter": QuorumMutant("P14: a node which lost its disk is another member", _wiped_voter),
    "keeps-old-acks": QuorumMutant("P11: Prepare drops the old node's vote", _with(leader_class=broken.KeepsOldAcks)),
    "learner-votes": QuorumMutant(
        "P11: a learner has no vote before COMMIT",
        _replication(type("MutantReplication", (Replication,), {"cursors_class": broken.LearnerVotes})),
    ),
    "forgets-change": QuorumMutant("P11: an election keeps a change in COMMIT", _operator(broken.ForgetsChange)),
    "truncates-once": QuorumMutant(
        "P13: truncate until the leader holds the answer", _replication(broken.TruncatesOnce)
    ),
    "no-confirm-for-barrier": QuorumMutant(
        "P3: every epoch confirms its barrier, idle or not", _with(leader_class=broken.NoConfirmForBarrier)
    ),
    "resolves-uncommitted": QuorumMutant(
        "P10: a resolution rests on committed entries only", _node(broken.ResolvesUncommitted)
    ),
    "commits-unprepared": QuorumMutant("P11: COMMIT only after Prepared", _operator(broken.CommitsUnprepared)),
    # bugs of real systems, and rules besides those
    "applies-before-durable": QuorumMutant(
        "P2: a leader applies to min(commit, durable)", _with(leader_class=broken.AppliesBeforeDurable)
    ),
    "acks-early": QuorumMutant("P13: an acknowledgement names what is durable", _with(follower_class=broken.AcksEarly)),
    "confirms-early": QuorumMutant("P4: a CONFIRM counts once it is durable", _with(log_class=broken.ConfirmsEarly)),
    "forgets-confirmed": QuorumMutant("P4: `confirmed` is saved with a Truncate", _node(broken.NodeForgetsConfirmed)),
    "truncates-own-epoch": QuorumMutant(
        "P13: nothing of the current epoch is truncated", _with(follower_class=broken.TruncatesOwnEpoch)
    ),
    "acknowledges-early": QuorumMutant(
        "P8: an async OK waits for the barrier", _with(leader_class=broken.AcknowledgesEarly)
    ),
    "reads-without-round": QuorumMutant(
        "P12: a majority confirms leadership after the read came", _with(leader_class=broken.ReadsWithoutRound)
    ),
    "reads-after-restart": QuorumMutant(
        "P12: no reads before what was shown is applied again", _node(broken.ReadsAfterRestart)
    ),
    "no-dedup": QuorumMutant("P10: each (client, seq) takes effect once", _no_dedup),
    "forgets-pairs-for-good": QuorumMutant("P10: a pair too old to be known is EXPIRED, never new", _forgets),
    "answers-copies": QuorumMutant(
        "P10: the answer to a repeat is about its pair", _leader(limbo_class=broken.AnswersCopies)
    ),
    "sends-copies-as-new": QuorumMutant(
        "P10: a client says which copies are repeats", _sending(broken.SendsCopiesAsNew)
    ),
    # liveness: each has a schedule of its own in test_quorum_liveness.py
    "keeps-a-stalled-leader": QuorumMutant(
        "O13: a leader without its majority is replaced", _operator(broken.KeepsStalled)
    ),
    "elects-the-stalled-again": QuorumMutant("O13: a stalled leader is no candidate", _operator(broken.ElectsStalled)),
    "counts-the-stalled-out": QuorumMutant(
        "O13: a stalled leader is not counted where it is passed over",
        _operator(type("MutantOperator", (Operator,), {"election_class": broken.CountsTheStalledOut})),
    ),
    "never-doubles-its-patience": QuorumMutant(
        "O13: each election over a stalled leader, and each that fails, doubles the wait",
        _operator(broken.with_watch(broken.NeverDoubles)),
    ),
    "counts-its-own-pauses": QuorumMutant(
        "O11: an operator's own pauses count against no leader", _operator(broken.with_watch(broken.CountsOwnPauses))
    ),
    "ignores-closed-connections": QuorumMutant(
        "a closed connection is a sign at once", _operator(broken.with_watch(broken.IgnoresClosed))
    ),
    "takes-appends-in-a-drain": QuorumMutant(
        "O14: a leader that drains takes no appends", _leader(may_admit=lambda self: True)
    ),
    "fences-before-it-is-drained": QuorumMutant(
        "O14: nothing is pending when a hand-over fences the leader", _with(leader_class=broken.FencesEarly)
    ),
    "does-not-wait-for-the-successor": QuorumMutant(
        "O14: an election waits for the answer of who should lead", _operator(broken.DoesNotWait)
    ),
    "forgets-divergence": QuorumMutant(
        "0108: who was found wrong stays out, also after a restart (Q-12)", _node(broken.ForgetsDivergence), "damage"
    ),
    "believes-its-leader": QuorumMutant(
        "0108: a majority of checksums decides, not the leader's own (Q-13)",
        _node(broken.on_replica(agreement_class=broken.BelievesItsLeader)),
        "damage",
    ),
    "leads-with-a-wrong-state": QuorumMutant(
        "0108: who was found wrong never leads", _node(broken.LeadsWithAWrongState), "damage"
    ),
    "snapshots-a-wrong-state": QuorumMutant(
        "0108: no member starts from a state that may be wrong",
        _node(broken.on_replica(may_take_snapshot=lambda self: True)),
        "damage",
    ),
    "counts-the-wrong-out": QuorumMutant(
        "0108: passed over is who cannot lead, and its log still counts",
        _operator(type("MutantOperator", (Operator,), {"election_class": broken.CountsTheWrongOut})),
        "damage",
    ),
    "believes-refusals": QuorumMutant(
        "P10: a refused copy says nothing of a copy sent before", _sending(broken.BelievesRefusals)
    ),
}
