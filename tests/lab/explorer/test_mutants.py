"""Mutants of the quorum log, found by search alone: the explorer gets no hint.

The nodes do not look at themselves here (`is_checked=False`): the harm must show outside. Which invariant notices first
is part of the test, so that a mutant is not caught for a wrong reason.
"""

import pytest

from penstock.quorum.records.messages import ChangeOp
from penstock_lab.explorer.search import search
from penstock_lab.explorer.setup import Setup, TxnSpec
from penstock_lab.explorer.world import ExplorerWorld
from penstock_lab.sim.workloads.quorum_mutants import MUTANTS, Parts

ONE = (TxnSpec(),)
ROLLS_BACK = (TxnSpec(rolls_back=True), TxnSpec())
ELECTION = Setup("one TXN, one election", txns=ONE)
SLOW_LEADER = Setup("the leader's disk is slow", txns=ONE, slow="A")
SLOW_FOLLOWER = Setup("a follower's disk is slow", txns=ONE, slow="B")
ROLLBACK = Setup("a TXN is rolled back", txns=ROLLS_BACK, timeouts=1)
SWAP = Setup("a swap and an election", spares="D", change=(ChangeOp.SWAP, "B", "D"), epochs=3)
SWAP_ALONE = Setup("a swap with a TXN", txns=ONE, spares="D", change=(ChangeOp.SWAP, "B", "D"))

FOUND: dict[str, tuple[Setup, str]] = {
    "votes-early": (SLOW_LEADER, "I4"),
    "applies-before-durable": (SLOW_LEADER, "I11"),
    "commits-prior-epochs": (ELECTION, "I4"),
    "acks-when-fenced": (SLOW_FOLLOWER, "I18"),
    "acks-early": (SLOW_FOLLOWER, "I4"),
    "answers-fence-early": (Setup("a follower crashes", txns=ONE, slow="B", crashes=1, crash_of="B"), "I5"),
    "aborts-early": (ROLLBACK, "I13"),
    "no-landing": (ROLLBACK, "I9"),
    "skips-barrier": (ELECTION, "I3"),
    "acknowledges-early": (Setup("an async TXN", txns=(TxnSpec(is_sync=False),)), "I16"),
    "resolves-uncommitted": (ELECTION, "I14"),
    "leads-after-restart": (Setup("a leader crashes, a letter comes twice", crashes=1, duplicates=1), "I2"),
    "resumes-epoch": (Setup("two operators, one crashes", operators=2, operator_crashes=1), "I2"),
    "rolls-back-anything": (
        Setup("a TXN times out in a later epoch", txns=ROLLS_BACK[:1], timeouts=1, change=(ChangeOp.CONTRACT, "B", "")),
        "I8",
    ),
    "reads-after-restart": (Setup("a node crashes", crashes=1), "I11"),
    "commits-unprepared": (SWAP_ALONE, "I22"),
    "keeps-old-acks": (SWAP_ALONE, "I22"),
    "learner-votes": (SWAP_ALONE, "I22"),
    "forgets-change": (SWAP, "I22"),
    "fences-old-ensemble": (SWAP, "I5"),
}


def world_with(mutant: str, setup: Setup) -> ExplorerWorld:
    parts = Parts()
    MUTANTS[mutant].apply(parts)
    return ExplorerWorld(setup, node_class=parts.node, operator_class=parts.operator, is_checked=False)


@pytest.mark.parametrize("mutant", FOUND)
def test_mutant_is_found(mutant: str) -> None:
    setup, invariant = FOUND[mutant]
    outcome = search(world_with(mutant, setup), states_max=100_000)
    assert outcome.violation is not None, f"{outcome.states} states, and nothing was noticed"
    assert f"{invariant}:" in outcome.violation, outcome.violation


# Wrong from the first election on: there is no steady epoch 1 to start from.
@pytest.mark.parametrize("mutant", ["applies-by-head", "confirms-early"])
def test_mutant_does_not_even_start(mutant: str) -> None:
    setup = Setup("slow disks", txns=ONE, slow="ABC", shows_commit=True)
    outcome = search(world_with(mutant, setup), states_max=100_000)
    assert outcome.violation is not None
    assert "I11:" in outcome.violation
