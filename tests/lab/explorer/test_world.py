"""Small worlds: every configuration for a while, some to the end, and what the search leaves out."""

import pytest

from penstock.quorum.records.metadata import Status
from penstock_lab.explorer.configurations import CONFIGURATIONS
from penstock_lab.explorer.schedule import site_text
from penstock_lab.explorer.search import Violation, search
from penstock_lab.explorer.setup import Setup, TxnSpec
from penstock_lab.explorer.world import CELL, LEDGER, ExplorerWorld

CUT = 6_000  # states
SMALL = Setup("one election, nothing else")


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_first_states_of_every_configuration(name: str) -> None:
    """A cut of the nightly run: `make explore` continues from here."""
    world = ExplorerWorld(CONFIGURATIONS[name])
    outcome = search(world, states_max=CUT)
    assert outcome.violation is None, outcome.violation
    assert outcome.states >= CUT, "a configuration which is over so soon asks nothing"


def test_a_small_configuration_to_the_end() -> None:
    outcome = search(ExplorerWorld(CONFIGURATIONS["election"]))
    assert outcome.violation is None, outcome.violation
    assert outcome.is_exhausted


def test_it_starts_with_a_steady_first_epoch() -> None:
    world = ExplorerWorld(SMALL)
    (start,) = world.starts()
    parts = world.unpack(start)
    assert [site_text(world.sites[part]) for part in parts[:3]] == [
        "A leader 1, committed 2: 1B 1C(1)",
        "B follower 1, committed 1: 1B 1C(1)",
        "C follower 1, committed 1: 1B 1C(1)",
    ]
    metadata = world.desks.cells[parts[CELL]].metadata
    assert (metadata.status, metadata.epoch) == (Status.STEADY_STATE, 1)
    assert len(world.ledgers[parts[LEDGER]].committed) == 2


def test_a_state_is_its_parts() -> None:
    world = ExplorerWorld(SMALL)
    (start,) = world.starts()
    assert world.pack(world.unpack(start)) == start


def test_two_searches_find_the_same() -> None:
    one, two = search(ExplorerWorld(SMALL)), search(ExplorerWorld(SMALL))
    assert (one.states, one.transitions, one.depth) == (two.states, two.transitions, two.depth)
    assert one.is_exhausted


def projections(setup: Setup, *, keeps_dead: bool) -> set[tuple[int, ...]]:
    """Return the possible states of the nodes, the operator, the metadata and the ledger, whatever letters are on their
    way.
    """
    world = ExplorerWorld(setup)
    world.mail.keeps_dead = keeps_dead
    seen: set[tuple[int, ...]] = set()
    texts: dict[tuple[int, ...], tuple[int, ...]] = {}

    class Watched:
        def starts(self) -> list[int]:
            return list(world.starts())

        def steps(self, state: int) -> list[tuple[object, int | Violation]]:
            parts = world.unpack(state)
            key = (*parts[: len(world.names)], parts[CELL], parts[LEDGER])
            if key not in texts:
                sites = [hash(world.sites[part].fingerprint()) for part in parts[: world.node_count]]
                desks = [hash(world.desks[part].fingerprint()) for part in parts[world.node_count : len(world.names)]]
                cell, ledger = world.desks.cells[parts[CELL]], world.ledgers[parts[LEDGER]]
                texts[key] = (*sites, *desks, hash(cell), hash(ledger))
            seen.add(texts[key])
            return [*world.steps(state)]

    outcome = search(Watched())
    assert outcome.is_exhausted
    return seen


@pytest.mark.parametrize("setup", [SMALL, Setup("and a crash", crashes=1, crash_of="A")])
def test_dead_letters_change_nothing(setup: Setup) -> None:
    """Whatever nodes, operators and clients can come to with them, they come to without them."""
    assert projections(setup, keeps_dead=False) == projections(setup, keeps_dead=True)


def test_an_overtaking_letter_is_one_more_order() -> None:
    txn = (TxnSpec(),)
    in_order = search(ExplorerWorld(Setup("in order", txns=txn, epochs=1)))
    overtaken = search(ExplorerWorld(Setup("one overtakes", txns=txn, epochs=1, overtakes=1)))
    twice = search(ExplorerWorld(Setup("one comes twice", txns=txn, epochs=1, duplicates=1)))
    assert in_order.states < overtaken.states
    assert in_order.states < twice.states
    assert overtaken.is_exhausted
    assert twice.is_exhausted


def test_bounds_are_kept() -> None:
    world = ExplorerWorld(Setup("nobody loses patience", epochs=1))
    outcome = search(world)
    assert outcome.is_exhausted
    assert {world.desks.cells[cell].metadata.epoch for cell in range(len(world.desks.cells))} <= {0, 1}


def test_a_prelude_is_followed_by_its_labels() -> None:
    world = ExplorerWorld(Setup("one TXN is on its way", txns=(TxnSpec(),), prelude=("A is handed txn 1",)))
    (start,) = world.starts()
    assert site_text(world.sites[world.unpack(start)[0]]).endswith("1T1")
    with pytest.raises(AssertionError, match="no step 'A is handed txn 2'"):
        world.follow(start, ["A is handed txn 2"])
