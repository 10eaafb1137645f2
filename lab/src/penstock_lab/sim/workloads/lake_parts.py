"""What the lake's workload is built from; a mutant puts something else in one of these places."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.lake.core.staging.checkpoint import freeze, load
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.member import Member
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf
from penstock_lab.sim.workloads.lake_builder import SimBuilder

__all__ = ["Habits", "LakeParts"]


@dataclass
class Habits:
    """What clients and collectors do; each of these is right, and a mutant turns one over."""

    keeps_request_ids: bool = True  # a retry has the id of the first try
    marks_after_fence: bool = True
    sweeps_by_epoch: bool = True  # sweep only objects older than the run before
    fences: bool = True
    condemns: bool = True
    condemns_young: bool = False  # also commits which may still be on their way to be performed
    signs_epochs: bool = True  # an address has the epoch of its own making, not of its linking
    links_sink_files_first: bool = False


@dataclass
class LakeParts:
    """The classes and functions of a run."""

    machine: type[StagingMachine] = StagingMachine
    member: type[Member] = Member
    builder: type[SimBuilder] = SimBuilder
    shelf: type[CheckedShelf] = CheckedShelf
    freeze: Callable[[StagingMachine, int], Callable[[], bytes]] = lambda machine, cursor: freeze(machine)
    load: Callable[[bytes, type[StagingMachine]], StagingMachine] = load
    boot_ids: bool = True
    habits: Habits = field(default_factory=Habits)
