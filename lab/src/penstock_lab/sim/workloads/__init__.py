"""Workloads by name. A workload is found when it is asked for, so that naming one does not load them all."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from penstock.kernel.errors import NotFound
from penstock_lab.sim.run import Workload

__all__ = ["WORKLOADS", "find", "workload_class"]

WORKLOADS: dict[str, str] = {
    "limbo-queue": "penstock_lab.sim.workloads.limbo_queue:LimboQueueWorkload",
    "quorum": "penstock_lab.sim.workloads.quorum:QuorumWorkload",
    "journal": "penstock_lab.sim.workloads.journal:JournalWorkload",
    "journal-least": "penstock_lab.sim.least.workload:JournalLeastWorkload",
    "lake": "penstock_lab.sim.workloads.lake:LakeWorkload",
    "exactly-once": "penstock_lab.sim.workloads.exactly_once:ExactlyOnceWorkload",
}


def workload_class(name: str) -> Any:
    """Return the class of a name: its `about`, `mutants` and `probes` can be asked without a run."""
    if name not in WORKLOADS:
        raise NotFound(
            f"there is no workload {name!r}; there are: {', '.join(WORKLOADS)}", next_step="penstock sim list"
        )
    module, _, attribute = WORKLOADS[name].partition(":")
    return getattr(import_module(module), attribute)


def find(name: str, *, mutant: str | None = None) -> Callable[[], Workload]:
    """Return a factory of the workload, one for each run, with one rule broken if a mutant is named."""
    workload = workload_class(name)
    if mutant is not None and mutant not in workload.mutants:
        known = ", ".join(workload.mutants) or "none"
        raise NotFound(f"{name} has no mutant {mutant!r}; it has: {known}", next_step="penstock sim list")
    return lambda: workload(mutant=mutant)
