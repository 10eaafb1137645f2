"""The quorum log under faults: fresh seeds are clean, mutants are caught, probes are reached, digests are equal."""

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules
from random import Random

import pytest
from tests.lab.sim.workloads.behaviours import (
    fresh_seeds_are_clean,
    has_one_digest,
    mutant_is_caught,
    probes_are_reached,
)
from tests.lab.sim.workloads.stage import Stage

import penstock.quorum.core
import penstock_lab.sim.checkers
import penstock_lab.sim.workloads
from penstock.kernel.ids import NodeId
from penstock.quorum.core.operator import Elect, Reconfigure
from penstock.quorum.records.messages import Change, ChangeOp
from penstock.quorum.records.metadata import Status, WriteMetadata
from penstock_lab.sim.faults import Swarm
from penstock_lab.sim.workloads.quorum import QuorumWorkload
from penstock_lab.sim.workloads.quorum_modes import MODES
from penstock_lab.sim.world import World

ITEMS, SEEDS_PER_ITEM = 32, 16  # 512 fresh seeds
DIRECTED = (  # in test_quorum_broken.py and test_quorum_liveness.py: random seeds need hundreds or thousands for these
    "counts-its-own-pauses",
    "counts-the-stalled-out",
    "does-not-wait-for-the-successor",
    "elects-the-stalled-again",
    "fences-before-it-is-drained",
    "fences-old-ensemble",
    "forgets-change",
    "forgets-confirmed",
    "ignores-closed-connections",
    "keeps-a-stalled-leader",
    "never-doubles-its-patience",
    "reads-without-round",
    "takes-appends-in-a-drain",
    "truncates-once",
    "truncates-own-epoch",
)
PROBES_ELSEWHERE = {
    "follower.truncate_refused": "test_quorum_broken.py, a late Truncate",
}


@pytest.mark.parametrize("item", range(ITEMS))
def test_fresh_seeds_are_clean(item: int, request: pytest.FixtureRequest) -> None:
    fresh_seeds_are_clean("quorum", item, SEEDS_PER_ITEM, request)


@pytest.mark.parametrize("mutant", [name for name in QuorumWorkload.mutants if name not in DIRECTED])
def test_the_mutant_is_caught(mutant: str) -> None:
    mutant_is_caught(QuorumWorkload, mutant, range(200))


def test_every_probe_is_reached() -> None:
    probes_are_reached(QuorumWorkload, range(800))


def test_the_declared_probes_are_those_in_the_code() -> None:
    sources = [
        inspect.getsource(import_module(f"{package.__name__}.{module.name}"))
        for package in (penstock.quorum.core, penstock_lab.sim.checkers, penstock_lab.sim.workloads)
        for module in iter_modules(package.__path__)
    ]
    named = set(re.findall(r'"((?:quorum|node|follower|operator|agreement)\.[a-z_0-9]+)"', "".join(sources)))
    assert named == {*QuorumWorkload.probes, *PROBES_ELSEWHERE}


def test_every_mode_is_drawn() -> None:
    drawn = set()
    for seed in range(100):
        workload, world = QuorumWorkload(), World(Random(seed))
        workload.setup(world, Swarm.draw(world.rng, workload.atlas))
        drawn.add(workload.settings.mode)
    assert drawn == {mode.name for mode in MODES}


def test_a_seed_has_one_digest_whatever_the_hash_seed() -> None:
    has_one_digest("quorum")


# what seeds have found, as schedules of their own


def test_a_write_of_the_metadata_whose_answer_was_lost_is_noticed_when_it_is_made() -> None:
    """The operator got "no", read the metadata before the write was made, and watched: the change was never
    finished.
    """
    stage = Stage("abcd", "abc")
    operator = stage.operator()
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE)
    stage.run(20)
    steady = stage.cell.metadata
    change = Change(ChangeOp.EXPAND, None, stage["d"].member)
    stage.cell._swap_late(operator, operator.run, WriteMetadata(steady.preparing(change), stage.cell.revision))
    assert stage.cell.metadata.status is Status.RECONFIGURATION
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE)
    assert stage.cell.metadata.ensemble == steady.ensemble, "an election drops a change in PREPARE"


def test_a_level_of_three_is_three_after_a_contraction() -> None:
    """Three of four is a majority, and was taken for one: with three members left, two were enough."""
    stage = Stage("abcd", "abcd")
    operator = stage.operator()
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE)
    if stage.leader != "a":
        stage.ask(operator, Elect(NodeId("a")))
    stage.until(lambda: stage.cell.metadata.status is Status.STEADY_STATE and stage.leader == "a")
    stage.run(20)
    stage.part("cd", "ab")
    x = stage.append("a", 1, level=3)
    stage.ask(operator, Reconfigure(Change(ChangeOp.CONTRACT, stage["d"].member)))
    stage.until(lambda: len(stage.cell.metadata.ensemble) == 3)
    stage.run(30)
    assert stage.checks.book.holds(stage.checks.history.attempts[x].appended)
    assert stage.fate(x) is None, "committed by two"
    stage.heal()
    stage.until(lambda: stage.fate(x) == "committed")


def test_a_follower_which_is_attached_again_has_a_vote_at_once() -> None:
    """Lose its acknowledgement, so that a snapshot is due: where it is attached, it has confirmed."""
    stage = Stage("abc", "abc")
    stage.elect(1, "a", "bc")
    stage.part("c", "ab")
    stage.world.network.cut_link(NodeId("b"), NodeId("a"))
    x = stage.append("a", 1)
    stage.until(lambda: stage["b"].record.has_held(stage.checks.history.attempts[x].appended))
    leader = stage.core("a").leader
    assert leader is not None
    leader.replication.send_snapshot(stage["b"].member)
    stage.heal()
    stage.part("c", "ab")
    stage.until(lambda: stage.fate(x) == "committed")
