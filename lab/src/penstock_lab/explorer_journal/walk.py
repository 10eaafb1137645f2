"""Random walks through the world of single steps, starting after a certified epoch, with all faults at once.

They are fast (a few milliseconds each) and have no clock, so they reach orders of steps which a timed simulation finds
rarely: the certification in flight of decision 301 was found by one of the first fifty.
"""

from random import Random

from penstock.journals.core.replica import Replica
from penstock.journals.records.api import Fate
from penstock_lab.explorer_journal.actions import Action, Budget, actions, play
from penstock_lab.explorer_journal.world import JournalWorld

__all__ = ["walk", "walk_with_least"]

STEPS = 150
STEPS_LEAST = 250  # a broker that was passed over comes back, and another one goes
APPENDS_WEIGHT, FREE_WEIGHT, FAULT_WEIGHT = 8, 3, 1


def walk(rng: Random, *, replica_class: type[Replica] = Replica, schedule: list[Action] | None = None) -> JournalWorld:
    """Walk until nothing is left to happen, or long enough; then ask every broker about every unknown fate."""
    one = rng.choice
    replication = one((1, 2, 2, 2, 3))
    world = JournalWorld(
        replication=replication,
        size=replication + one((1, 2)),
        is_kept=rng.random() < 0.4,
        fragment_length=one((1, 2, 4, 1_000)),
        limit_step=one((4, 20, 1_000)),
        replica_class=replica_class,
        is_checked=replica_class is Replica,
    ).start(synchronized=rng.random() < 0.8)
    budget = Budget(
        appends=8,
        crashes=one((0, 1, 2, 3)),
        restarts=3,
        expiries=one((0, 1, 2)),
        regains=2,
        cuts=one((0, 1, 3)),
        adds=4,
        removes=2,
        resets=one((0, 1, 2)),
        lost_answers=2,
        pulses=8,
        persists=10,
        barriers=3,
        batches=True,
    )
    return _walked(world, budget, rng, schedule, STEPS)


def walk_with_least(
    rng: Random, *, replica_class: type[Replica] = Replica, schedule: list[Action] | None = None
) -> JournalWorld:
    """Walk where fewer than R members are enough: brokers are passed over, rightly or not, and return."""
    one = rng.choice
    replication = one((3, 3, 3, 4))
    world = JournalWorld(
        replication=replication,
        least=one(range(2, replication)),
        size=replication + one((0, 0, 1)),
        is_kept=rng.random() < 0.4,
        fragment_length=one((1, 2, 4, 1_000)),
        limit_step=one((4, 20, 1_000)),
        replica_class=replica_class,
        is_checked=replica_class is Replica,
    ).start(synchronized=True)
    budget = Budget(
        appends=8,
        crashes=one((0, 1, 2, 3)),
        restarts=3,
        expiries=one((0, 1, 2)),
        regains=2,
        cuts=one((0, 1, 3)),
        adds=10,
        removes=1,
        passes=one((2, 5, 10)),
        resets=one((0, 0, 1)),
        lost_answers=2,
        pulses=8,
        persists=10,
        barriers=3,
        batches=True,
    )
    return _walked(world, budget, rng, schedule, STEPS_LEAST)


def _walked(
    world: JournalWorld, budget: Budget, rng: Random, schedule: list[Action] | None, steps: int
) -> JournalWorld:
    for _ in range(steps):
        possible = [(action, cost) for action, cost in actions(world, budget) if cost is None or getattr(budget, cost)]
        if not possible:
            break
        action, cost = rng.choices(possible, [_weight(action, cost) for action, cost in possible])[0]
        if cost is not None:
            budget = budget.spent(cost)
        if schedule is not None:
            schedule.append(action)
        play(world, action)
    _resolve(world)
    return world


def _weight(action: Action, cost: str | None) -> int:
    if action[0] == "append":
        return APPENDS_WEIGHT
    return FREE_WEIGHT if cost is None else FAULT_WEIGHT


def _resolve(world: JournalWorld) -> None:
    unknown = [append for append, answer in world.answers.items() if answer.fate is Fate.UNKNOWN and answer.commit]
    for append in unknown:
        for name in list(world.sites):
            world.resolve(name, append)
