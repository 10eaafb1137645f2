"""The exhaustive search: every order of everything that can happen in a small world, on the core the broker runs.

A state is a world and the rest of its budget. Sites are copied when they take a step, and shared otherwise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.journals.core.replica import Replica
from penstock.journals.records.fragment import Fragment
from penstock.kernel.effects import Event
from penstock.kernel.ids import NodeId
from penstock_lab.explorer.interned import Interned
from penstock_lab.explorer.search import Violation
from penstock_lab.explorer_journal.actions import Action, Budget, actions, play
from penstock_lab.explorer_journal.clone import cloned, key_of
from penstock_lab.explorer_journal.world import JournalWorld

__all__ = ["JournalModel", "JournalSetup", "State"]


@dataclass(frozen=True)
class JournalSetup:
    """A small world: how it begins, and what may happen in it."""

    about: str
    budget: Budget
    replication: int = 2
    size: int = 3
    is_kept: bool = False
    is_synchronized: bool = True
    in_flight: int = 0  # appends which are on their way when it begins
    fragment_length: int = 1_000
    least: int = 0


@dataclass
class ModelTally:
    """Counted over all copies of a world."""

    steps: int = 0  # of a core


class Shared(JournalWorld):
    """A world which owns only the sites it has stepped itself."""

    owned: frozenset[NodeId] = frozenset()
    ids: Interned[Any]
    tally: "ModelTally"

    def step(self, name: NodeId, event: Event) -> None:
        self._own(name)
        self.tally.steps += 1
        super().step(name, event)

    def persist(self, name: NodeId, index: int = 0) -> Fragment:
        self._own(name)
        return super().persist(name, index)

    def _own(self, name: NodeId) -> None:
        if name in self.sites and name not in self.owned:
            self.owned |= {name}
            self.sites[name] = cloned(self.sites[name])
            self.sites[name].__dict__.pop("cached_key", None)

    def copy(self) -> "Shared":
        other = Shared.__new__(Shared)
        other.__dict__.update(self.__dict__)
        for name, value in self.__dict__.items():
            if type(value) is dict:
                other.__dict__[name] = dict(value)
        other.keys, other.checks, other.owned = self.keys.copy(), self.checks.copy(), frozenset()
        return other

    def key(self) -> Any:
        """Return all that matters for the next events, or for the answers given."""
        sites = []
        for name, site in sorted(self.sites.items()):
            known = site.__dict__.get("cached_key")
            if known is None:
                known = site.__dict__["cached_key"] = self.ids.id_of(key_of(site))
            sites.append((name, known))
        links = tuple([(link, self.ids.id_of(queue)) for link, queue in sorted(self.links.items())])
        told = tuple(sorted((append, answer.fate, answer.status) for append, answer in self.answers.items()))
        return (
            tuple(sites),
            self.keys.place,
            tuple(sorted(self.mirrors.items())),
            tuple(sorted(self.disks.items())),
            links,
            self.ids.id_of(self.transactions),
            tuple(sorted(self.asked.items())),
            told,
            self.faulty,
            self.ids.id_of(self.checks.key()),
        )


class State:
    """A node of the search: compared by all that matters, hashed once."""

    __slots__ = ("_hash", "budget", "key", "world")

    def __init__(self, world: Shared, budget: Budget) -> None:
        self.world = world
        self.budget = budget
        self.key = (world.key(), budget)
        self._hash = hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._hash == other._hash and self.key == other.key


class JournalModel:
    """What `explorer.search` searches."""

    def __init__(self, setup: JournalSetup, *, replica_class: type[Replica] = Replica) -> None:
        self.setup = setup
        self.replica_class = replica_class
        self._tally = ModelTally()

    @property
    def steps_taken(self) -> int:
        """Return how often the core of a broker was run."""
        return self._tally.steps

    def starts(self) -> Iterable[State]:
        try:
            return [State(self._begun(), self.setup.budget)]
        except AssertionError as broken:
            raise Violation(str(broken)) from broken

    def _begun(self) -> Shared:
        setup = self.setup
        world = Shared(
            replication=setup.replication,
            size=setup.size,
            is_kept=setup.is_kept,
            least=setup.least,
            replica_class=self.replica_class,
            is_checked=self.replica_class is Replica,
            fragment_length=setup.fragment_length,
        )
        world.ids = Interned()
        world.tally = self._tally
        world.start(synchronized=setup.is_synchronized)
        primary = world.keys.now.route.primary
        assert primary is not None
        for _ in range(setup.in_flight):
            world.append(primary)
        return world

    def steps(self, state: State) -> Sequence[tuple[Action, State | Violation]]:
        found: list[tuple[Action, State | Violation]] = []
        for action, cost in actions(state.world, state.budget):
            world = state.world.copy()
            try:
                play(world, action)
            except AssertionError as broken:
                found.append((action, Violation(str(broken))))
                continue
            budget = state.budget.spent(cost) if cost is not None else state.budget
            found.append((action, State(world, budget)))
        return found
