"""Every mutant of journals.md is killed by the schedule the design names, and the checkers are who kills it."""

import re

import pytest
from tests.journals.core.schedules import SCHEDULES

from penstock_lab.sim.workloads.journal_mutants import MUTANTS

KILLED_BY = {
    "readers-at-adopt": "s1_early_sight",
    "persists-everything": "s3_zombie_drains_to_the_store",
    "definite-errors": "s4_the_ack_is_lost",
    "majority-acks": "s1_majority",
    "old-epochs-applied": "s2_zombie_and_lagging_peer",
    "largest-end": "s5_largest_end",
    "largest-end-of-anybody": "s8_longer",
    "own-registers": "s4_own_registers",
    "certifies-early": "s6_certify_before_adopted",
    "marks-at-sync": "s7_mark_before_certification",
    "no-head-record": "s9_total_loss_of_a_virgin_journal",
    "resets-at-index-end": "s10_reset_head",
    "persists-by-last": "s11_two_later_epochs",
    "resolves-by-last": "s12_resolve_after_two_epochs",
    "quotes-unmarked": "s13_quoting_what_nobody_acknowledged",
    "trusts-old-mark": "s17_restart_with_an_old_mark",
    "counts-late-acks": "s23_late_acks",
    "keeps-tail": "s14_the_first_of_two_fails",
    "forgets-assignments": "s_old_route_certifies_last",
    "certification-in-flight": "h1_certification_in_flight",
    "counts-below-start": "h2_uncertified_twice",
    "certifies-too-few": "h3_too_few",
    "resets-count-early": "h4_uncertified_reset",
    "forgets-reset": "h4_uncertified_reset_and_a_restart",
}


def test_every_mutant_has_its_schedule() -> None:
    assert KILLED_BY.keys() == MUTANTS.keys()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_mutant_is_killed(mutant: str) -> None:
    with pytest.raises(AssertionError) as killed:
        SCHEDULES[KILLED_BY[mutant]](MUTANTS[mutant].replica)
    assert re.match(r"[IJ]\d+: ", str(killed.value)), f"not by a checker: {killed.value}"
