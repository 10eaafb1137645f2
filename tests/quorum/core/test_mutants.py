"""Every mutant of quorum-log.md, "Proof obligations" 2, is caught by a schedule: the tests bite."""

from functools import partial

import pytest
from tests.quorum.core.cluster import Cluster
from tests.quorum.core.mutants import NODES, OPERATORS
from tests.quorum.core.schedules.common import Make
from tests.quorum.core.schedules.table import SCHEDULES

CAUGHT_BY = {
    "drop the current-epoch commit rule": "s1_figure_eight",
    "fence only the old ensemble": "s22_split_brain_without_fencing_the_new_node",
    "count a fenced node's ack": "s12_a_fenced_node_counts_for_nobody",
    "apply to min(commit, head) on followers": "s4_head_inside_a_doomed_range",
    "ABORTED before the ROLLBACK commits": "s2_rollback_lost",
    "skip the barrier": "s7_idle_election",
    "no landing rule": "s4_commit_stops_before_a_doomed_range",
    "ROLLBACK of a committed or prior-epoch entry": "s11_prior_epoch_is_not_cancellable",
    "own vote before durable": "s5_leader_loses_what_only_it_counted",
    "BecomeLeader replayed after restart": "s10_restart_and_replay",
    "epoch resumed by a second operator": "s16_an_operator_does_not_resume",
    "unsynced head in a fence answer": "s12_an_answered_fence_is_durable",
    "wiped voter": "s21_forced_election",
    "old node's acks kept after Prepare": "s22_the_old_node_counts_for_nothing",
    "new node counted before COMMIT": "s22_a_learner_has_no_vote",
    "reconfiguration forgotten at an election": "s22_split_brain_without_fencing_the_new_node",
    "one-round Truncate": "s20_two_entries_at_one_offset",
    "no CONFIRM for an idle barrier": "s7_idle_election",
    "resolve without commit": "s17_a_truncated_entry_wins_in_a_third_epoch",
    "COMMIT before Prepared": "s18_swap_before_prepared",
    "truncate entries of the current epoch": "h1_a_late_truncate_after_a_restart",
}


@pytest.mark.parametrize("rule", CAUGHT_BY)
def test_mutant_is_caught(rule: str) -> None:
    with pytest.raises(AssertionError):
        SCHEDULES[CAUGHT_BY[rule]](world_of(rule))


def world_of(rule: str) -> Make:
    """A cluster in which one rule is broken, and the nodes do not look at themselves: the harm must show outside."""
    if rule in OPERATORS:
        return partial(Cluster, operator_class=OPERATORS[rule])
    blind = type("Blind", (NODES[rule],), {"check": lambda self: None})
    return partial(Cluster, node_class=blind, wiped_as="i1" if rule == "wiped voter" else "i2")
