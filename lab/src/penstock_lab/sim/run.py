"""One run of a workload: safety under faults, then everything is healed, then liveness: all pending work must end.

A workload is setup, load and checks as one object; `run` gives it a world, a swarm of faults and a nemesis. The same
function serves sweeps of seeds (the outcome is a value) and Hypothesis (the failure is raised, and shrunk).
"""

import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import ClassVar, Protocol

import msgspec

from penstock.kernel.ids import MILLISECOND, Instant, NodeId
from penstock.kernel.probes import recording
from penstock_lab.sim.faults import Atlas, Nemesis, Swarm
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.trace import Trace
from penstock_lab.sim.world import World

__all__ = ["NotLive", "SeedOutcome", "Workload", "run", "run_seed"]


class NotLive(Exception):
    """Everything was healed, and still some pending work did not end."""


class Workload(Protocol):
    """What runs in a world. One object per run."""

    name: ClassVar[str]
    about: ClassVar[str]  # one line for people
    mutants: ClassVar[Mapping[str, str]]  # name -> the rule it breaks; each must be caught
    probes: ClassVar[tuple[str, ...]]  # rare paths which some seed must reach
    atlas: Atlas
    safety_ns: int
    liveness_ns: int

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        """Add and boot the nodes, schedule the load; return the nodes which the nemesis may strike."""
        ...

    def check(self, node: SimNode) -> None:
        """After each step of a node: what must hold in the whole world."""
        ...

    def is_settled(self) -> bool:
        """Return whether all work has ended. UserAppend only after the faults are over."""
        ...

    def finish(self) -> None:
        """The last checks, over the whole history."""
        ...


class SeedOutcome(msgspec.Struct, frozen=True):
    """What became of one run."""

    workload: str
    seed: int
    failure: str | None
    digest: str
    steps: int
    virtual_ms: int
    probes: dict[str, int]


def run(workload: Workload, rng: Random, *, trace: Trace | None = None) -> World:
    """Run to the end; raise the failure: AssertionError, `NotLive` or `OutOfSteps`."""
    world = World(rng, trace=trace)
    swarm = Swarm.draw(rng, workload.atlas)
    struck = workload.setup(world, swarm)
    world.after_step = workload.check
    nemesis = Nemesis(world, swarm, workload.atlas, struck)
    nemesis.start()
    world.run(Instant(workload.safety_ns))
    nemesis.end()
    world.note("world", "!", "healed")
    if not world.run(Instant(world.now + workload.liveness_ns), done=workload.is_settled):
        raise NotLive(f"{workload.liveness_ns // MILLISECOND} ms after everything was healed, work is still pending")
    workload.finish()
    return world


def run_seed(make: Callable[[], Workload], seed: int, *, trace: Trace | None = None) -> SeedOutcome:
    """Run one seed; a failure is part of the outcome."""
    trace = trace if trace is not None else Trace()
    probes: Counter[str] = Counter()
    workload = make()
    failure: str | None = None
    virtual_ns = 0
    with recording(lambda probe: probes.update((probe,))):
        try:
            virtual_ns = run(workload, Random(seed), trace=trace).now
        except Exception as error:
            failure = _explain(error)
            trace.add(0, "world", "=", failure)
    return SeedOutcome(
        workload.name,
        seed,
        failure,
        trace.digest(),
        trace.steps,
        virtual_ns // MILLISECOND,
        dict(sorted(probes.items())),
    )


def _explain(error: Exception) -> str:
    """Return the kind, the message, and the innermost line of Penstock: enough to tell two failures apart."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{frame.filename.rpartition('/src/')[2]}:{frame.lineno}"
    text = str(error) or (frame.line or "")
    return f"{type(error).__name__}: {text} ({place} in {frame.name})"
