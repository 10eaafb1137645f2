"""The exhaustive search over the journal core: small worlds to the end, larger ones in part, and mutants found."""

import pytest

from penstock_lab.explorer.search import search
from penstock_lab.explorer_journal.configurations import CONFIGURATIONS
from penstock_lab.explorer_journal.model import JournalModel
from penstock_lab.sim.workloads.journal_mutants import MUTANTS


@pytest.mark.parametrize(("name", "states"), [("sync", 58), ("break", 2612), ("two-in-flight", 663)])
def test_a_small_world_is_searched_to_its_end(name: str, states: int) -> None:
    """The number of states is exact: another one means that the core, or what can happen to it, is another."""
    outcome = search(JournalModel(CONFIGURATIONS[name]))
    assert outcome.violation is None
    assert outcome.is_exhausted
    assert outcome.states == states


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name not in ("sync", "break", "two-in-flight")])
def test_a_larger_world_is_searched_in_part(name: str) -> None:
    outcome = search(JournalModel(CONFIGURATIONS[name]), states_max=250)
    assert outcome.violation is None, [action for action, _ in outcome.schedule]


@pytest.mark.parametrize(
    ("mutant", "name", "says"),
    [
        ("own-registers", "two-in-flight", "I4"),
        ("quotes-unmarked", "quoting", "I5"),
        ("no-head-record", "one-replica", "I7"),
        ("keeps-tail", "break", "I9"),
        ("readers-at-adopt", "break", "I6"),
    ],
)
def test_the_search_finds_the_mutant(mutant: str, name: str, says: str) -> None:
    model = JournalModel(CONFIGURATIONS[name], replica_class=MUTANTS[mutant].replica)
    outcome = search(model, states_max=4_000)
    assert outcome.violation is not None
    assert outcome.violation.startswith(says)
