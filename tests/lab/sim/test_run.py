"""A run: safety, heal, liveness; failures are found, explained, repeated and shrunk."""

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.lab.sim.workloads_for_tests import AddNumbers, Client

from penstock.kernel.ids import MILLISECOND, NodeId
from penstock_lab.sim.faults import Swarm
from penstock_lab.sim.run import NotLive, run, run_seed
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.world import World


def mutant() -> AddNumbers:
    return AddNumbers(mutant="answer-first")


def test_a_right_machine_passes_every_seed_and_rare_paths_are_reached() -> None:
    probes: set[str] = set()
    for seed in range(100):
        outcome = run_seed(AddNumbers, seed)
        assert outcome.failure is None, outcome
        probes.update(outcome.probes)
    assert probes >= {"add.twice", "fault.crash", "fault.pause", "fault.disk_failure", "fault.slow_disk"}


def test_the_mutant_is_caught_explained_and_repeats() -> None:
    failing = [outcome for seed in range(100) if (outcome := run_seed(mutant, seed)).failure]
    assert len(failing) > 3
    assert failing[0].failure is not None
    assert "were answered and are lost" in failing[0].failure
    assert "in check)" in failing[0].failure
    again = run_seed(mutant, failing[0].seed)
    assert again == failing[0]


def test_a_kept_trace_ends_with_the_failure() -> None:
    seed = next(seed for seed in range(100) if run_seed(mutant, seed).failure)
    trace = Trace(keep=True)
    outcome = run_seed(mutant, seed, trace=trace)
    assert outcome.failure is not None
    assert outcome.failure in trace.lines[-1]


def test_work_which_never_ends_is_not_live() -> None:
    class Deaf(AddNumbers):
        def _ask(self) -> None:
            pass

    with pytest.raises(NotLive, match="500 ms after everything was healed"):
        run(Deaf(), Random(0))


class SlowDisk(AddNumbers):
    """A crash during a write is likely: few examples are needed."""

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        nodes = super().setup(world, swarm)
        world.nodes[nodes[0]].disk.faults.latency_min_ns = 5 * MILLISECOND
        return nodes


def test_hypothesis_shrinks_a_failing_run_to_few_steps() -> None:
    """The chooser of the world is a Random: Hypothesis can be it, and then finds a small run which fails too."""
    steps: list[int] = []

    @settings(
        max_examples=3000,
        database=None,
        deadline=None,
        derandomize=True,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def holds(rng: Random) -> None:
        workload = SlowDisk(mutant="answer-first")
        workload.client = Client(2)
        workload.safety_ns = 30 * MILLISECOND
        trace = Trace()
        try:
            run(workload, rng, trace=trace)
        except AssertionError:
            steps.append(trace.steps)
            raise

    with pytest.raises(AssertionError, match="were answered and are lost"):
        holds()
    # Hypothesis makes the choices small and few, not the steps: but a person can read the rest.
    assert len(steps) > 5
    assert steps[-1] <= 100
