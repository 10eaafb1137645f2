"""What can happen next in a world: every step which is possible now, within a budget of faults.

An action is a tuple of a name and its arguments, so that a schedule can be printed, kept and played again.
"""

from dataclasses import dataclass, replace
from typing import Any

from penstock.journals.core.effects import TransactionEnd
from penstock.kernel.ids import NodeId
from penstock_lab.explorer_journal.world import JournalWorld

__all__ = ["Action", "Budget", "actions", "play"]

Action = tuple[Any, ...]


@dataclass(frozen=True)
class Budget:
    """How many of each may still happen."""

    appends: int = 2
    crashes: int = 0
    restarts: int = 0
    expiries: int = 0
    regains: int = 0  # leases which a living zombie gets again
    cuts: int = 0
    adds: int = 0
    removes: int = 0
    passes: int = 0  # members that others cannot reach, or think so
    resets: int = 0
    lost_answers: int = 0  # of the KeySpace
    pulses: int = 0
    persists: int = 0
    barriers: int = 0
    batches: bool = False  # mirrors may see several revisions at once
    lagging: bool = True  # mirrors may lag at all

    def spent(self, kind: str) -> "Budget":
        return replace(self, **{kind: getattr(self, kind) - 1})


def actions(world: JournalWorld, budget: Budget) -> list[tuple[Action, str | None]]:
    """Yield every possible next step, and its cost."""
    found: list[tuple[Action, str | None]] = []
    found += [(("deliver", *link), None) for link in sorted(world.links) if link[1] in world.sites]
    found += [(("transact", index), None) for index in range(len(world.transactions))]
    found += [
        (("unanswered", index), "lost_answers")
        for index in range(len(world.transactions) if budget.lost_answers else 0)
    ]
    newest = len(world.keys.history) - 1
    for name, place in sorted(world.mirrors.items()):
        if place < newest and name in world.sites:
            found.append((("mirror", name, 1), None))
            if budget.batches and place + 1 < newest:
                found.append((("mirror", name, newest - place), None))
    found += _faults(world, budget)
    found += _allocations(world, budget)
    found += _requests(world, budget)
    return found


def _faults(world: JournalWorld, budget: Budget) -> list[tuple[Action, str | None]]:
    found: list[tuple[Action, str | None]] = []
    members = world.keys.now.route.members
    names = sorted(world.sites)
    if budget.crashes:
        found += [(("crash", name), "crashes") for name in names if name in members or world.sites[name].view.epoch.n]
    if budget.restarts:
        found += [(("boot", name), "restarts") for name in sorted(world.runs) if name not in world.sites]
    if budget.expiries:
        found += [(("expire", name), "expiries") for name in names if name in members]
    if budget.regains:
        found += [(("regain", name), "regains") for name in names if name not in members and _has_expired(world, name)]
    if budget.cuts:
        pairs = [(one, other) for one in names for other in names if one < other and _is_linked(world, one, other)]
        found += [(("cut", *pair), "cuts") for pair in pairs]
    return found


def _has_expired(world: JournalWorld, name: NodeId) -> bool:
    return (name, world.runs[name]) in world.faulty


def _is_linked(world: JournalWorld, one: NodeId, other: NodeId) -> bool:
    return bool(world.open_streams(one, other)) or any({link[0], link[1]} == {one, other} for link in world.links)


def _allocations(world: JournalWorld, budget: Budget) -> list[tuple[Action, str | None]]:
    """J14, and no more than that: replace who is gone, promote when there is no primary, remove when allowed."""
    found: list[tuple[Action, str | None]] = []
    topology = world.keys.now
    if topology.spec is None:
        return found
    members = topology.route.members
    candidates = [name for name in sorted(world.sites) if name not in members and not _has_expired(world, name)]
    if budget.adds and len(members) <= world.replication:
        found += [(("add", name), "adds") for name in candidates]
    if topology.route.primary is None:
        found += [(("promote", name), None) for name in members if name in world.sites]
    if budget.passes:
        found += [(("pass_over", name), "passes") for name in members if world.may_pass_over(name)]
    if budget.removes:
        found += [(("remove", name), "removes") for name in members if world.may_remove(name)]
    return found


def _requests(world: JournalWorld, budget: Budget) -> list[tuple[Action, str | None]]:
    found: list[tuple[Action, str | None]] = []
    for name in sorted(world.sites):
        replica = world.sites[name].replica
        is_primary = replica.topology.route.primary == name
        if budget.appends and is_primary and replica.pipeline is not None and len(replica.appends) < 2:
            found.append((("append", name), "appends"))
        if budget.barriers and is_primary and replica.pipeline is not None and len(replica.appends) < 2:
            found.append((("quote", name), "barriers"))
        if budget.pulses and is_primary and replica.pipeline is None and replica.pulse.append is None:
            found.append((("pulse", name), "pulses"))
        if budget.resets and is_primary and replica.pipeline is None:
            found.append((("reset_head", name), "resets"))
        if budget.persists and world.sites[name].uploads:
            found.append((("persist", name), "persists"))
    return found


def play(world: JournalWorld, action: Action) -> None:
    """Take one step."""
    match action:
        case ("unanswered", index):
            world.transact(index, end=TransactionEnd.UNKNOWN)
        case ("regain", name):
            world.regain(name)
        case ("quote", name):
            world.append(name, check="last=0", length=1)
        case _:
            getattr(world, action[0])(*action[1:])
