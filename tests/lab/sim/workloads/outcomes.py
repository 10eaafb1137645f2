"""The quorum workload judged by outcomes alone: lost, doubled, contradicted, stale or stuck transactions.

Rules of the protocol (who may append, vote, speak or stop where) are not looked at, so a mutant is caught only when a
schedule does harm with it. That measures the workload: does it get there? Run as a program for a table.
"""

import sys
from collections.abc import Iterable
from typing import Any

from penstock.kernel.ids import NodeId
from penstock_lab.sim.checkers.quorum import QuorumChecks
from penstock_lab.sim.faults import Swarm
from penstock_lab.sim.run import run_seed
from penstock_lab.sim.workloads.quorum import QuorumWorkload
from penstock_lab.sim.world import World


def nothing(*_: Any) -> None:
    """A check which is not made."""


def only_outcomes(checks: QuorumChecks) -> None:
    """Left: I1, I5, I7, I9, I10, I12, I13, I14, I22, I24, I26 and liveness."""
    unmade: dict[Any, Iterable[str]] = {
        checks.wire: ("node_sends", "operator_sends"),
        checks.logs: ("_check_author", "_confirm", "_rollback", "_check_first"),
        checks.commits: ("_check_quorum", "_cursors"),
        checks.elections: ("_check_right",),
        checks.applies: ("_check_limit",),
        checks.answers: ("_check_acknowledged", "_check_active", "_check_committed", "_check_rolled_back"),
        checks.resolutions: ("answered",),
    }
    for checker, names in unmade.items():
        for name in names:
            getattr(checker, name)  # a check which was renamed would be made after all
            setattr(checker, name, nothing)


class Outcomes(QuorumWorkload):
    """The workload with those checkers."""

    def setup(self, world: World, swarm: Swarm) -> list[NodeId]:
        names = super().setup(world, swarm)
        only_outcomes(self.checks)
        return names


def first_harm(mutant: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """The first seed in which the mutant does harm, and which."""
    for seed in seeds:
        failure = run_seed(lambda: Outcomes(mutant=mutant), seed).failure
        if failure is not None:
            return seed, failure
    return None


if __name__ == "__main__":
    for mutant in sys.argv[2:] or QuorumWorkload.mutants:
        found = first_harm(mutant, range(int(sys.argv[1])))
        sys.stdout.write(f"{mutant} {found[0] if found else '-'} {found[1][:200] if found else ''}\n")
        sys.stdout.flush()
