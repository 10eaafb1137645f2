"""`penstock sim explore`: every interleaving of a small world, on the cores the server runs."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from penstock.cli.noun import InSession, examples
from penstock.journals.core.replica import Replica
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.server.output import make_table
from penstock.server.session import Session
from penstock_lab.explorer.configurations import CONFIGURATIONS
from penstock_lab.explorer.schedule import schedule_text
from penstock_lab.explorer.search import Model, SearchOutcome, search
from penstock_lab.explorer.world import ExplorerWorld
from penstock_lab.explorer_journal.configurations import CONFIGURATIONS as JOURNAL_CONFIGURATIONS
from penstock_lab.explorer_journal.model import JournalModel
from penstock_lab.sim.workloads.journal_mutants import MUTANTS as JOURNAL_MUTANTS
from penstock_lab.sim.workloads.quorum_mutants import MUTANTS, Parts

__all__ = ["EPILOGUE", "Explored", "explore"]

EPILOGUE = examples(
    "penstock sim explore",
    "penstock sim explore election rollback",
    "penstock sim explore leader-crash --mutant votes-early",
    "penstock sim explore journal-break --mutant keeps-tail",
    "penstock sim explore --all --states 3000000 --output json > explored.json",
)
JOURNAL = "journal-"  # what the names of a journal's worlds begin with
COLUMNS = ["configuration", "states", "transitions", "depth", "core steps", "states/s", "result"]


class Explored(msgspec.Struct, frozen=True):
    """What one search has found."""

    configuration: str
    about: str
    mutant: str | None
    states: int
    transitions: int
    depth: int
    core_steps: int  # how often the core of a node was run
    cpu_seconds: float
    is_exhausted: bool
    violation: str | None
    schedule: list[str]

    @property
    def ok(self) -> bool:
        return (self.violation is None) == (self.mutant is None)

    @property
    def result(self) -> str:
        if self.violation is not None:
            return f"caught: {self.violation}" if self.mutant else f"VIOLATED: {self.violation}"
        if self.mutant:
            return "NOT CAUGHT"
        return "all states" if self.is_exhausted else "bounded"


@dataclass(frozen=True)
class _Small:
    """A small world to be searched: of the quorum log, or (their names say so) of a journal."""

    model: Model[Any]
    core_steps: Callable[[], int]
    schedule: Callable[[SearchOutcome[Any]], list[str]]


def _names(_context: Any) -> dict[str, str]:
    quorum = {name: setup.about for name, setup in CONFIGURATIONS.items()}
    return quorum | {f"{JOURNAL}{name}": setup.about for name, setup in JOURNAL_CONFIGURATIONS.items()}


def _mutants(name: str) -> Any:
    return JOURNAL_MUTANTS if name.startswith(JOURNAL) else MUTANTS


def _quorum(name: str, mutant: str | None) -> _Small:
    parts = Parts()
    if mutant is not None:
        MUTANTS[mutant].apply(parts)
    world = ExplorerWorld(
        CONFIGURATIONS[name], node_class=parts.node, operator_class=parts.operator, is_checked=mutant is None
    )
    return _Small(world, lambda: world.sites.steps_taken, lambda outcome: schedule_text(world, outcome))


def _journal(name: str, mutant: str | None) -> _Small:
    replica_class = Replica if mutant is None else JOURNAL_MUTANTS[mutant].replica
    model = JournalModel(JOURNAL_CONFIGURATIONS[name.removeprefix(JOURNAL)], replica_class=replica_class)
    return _Small(model, lambda: model.steps_taken, _journal_schedule)


def _journal_schedule(outcome: SearchOutcome[Any]) -> list[str]:
    lines = [f"{number:3}. {' '.join(map(str, action))}" for number, (action, _) in enumerate(outcome.schedule, 1)]
    return [*lines, f"     {outcome.violation}"] if outcome.violation is not None else lines


def explore(
    *configurations: Annotated[
        str, Parameter(help="Which small worlds. Without any, they are listed.", completer=_names)
    ],
    all_: Annotated[bool, Parameter(name="--all", help="All of them: the nightly run.")] = False,
    states: Annotated[int, Parameter(help="Stop each search at so many states.", metavar="N")] = 1_000_000,
    mutant: Annotated[
        str | None, Parameter(help="Break one rule on purpose: it succeeds when the explorer notices.")
    ] = None,
    session: InSession,
) -> int:
    """Visit every state of small worlds, check every invariant in each, print the shortest schedule to a violation."""
    rows = _names(None)
    names = list(rows) if all_ else list(configurations)
    if states < 1:
        raise InvalidArgument(f"--states {states}: expected 1 or more")
    unknown = [name for name in names if name not in rows]
    if unknown:
        raise NotFound(f"there is no configuration {unknown[0]!r}", next_step="penstock sim explore")
    if mutant is not None and any(mutant not in _mutants(name) for name in names):
        raise NotFound(f"there is no mutant {mutant!r} of these worlds", next_step="penstock sim list")
    if not names:
        session.emit(
            [{"name": name, "about": about} for name, about in rows.items()],
            make_table(["name", "about"], rows.items()),
        )
        return 0
    found = [run(name, states, mutant, session) for name in names]
    session.emit([_as_data(each) for each in found], *_as_text(found))
    return 0 if all(each.ok for each in found) else 1


def run(name: str, states: int, mutant: str | None, session: Session) -> Explored:
    """Search one configuration, telling now and then how far it is."""
    small = (_journal if name.startswith(JOURNAL) else _quorum)(name, mutant)
    started = time.process_time()
    last_told = time.monotonic()

    def goes_on(outcome: SearchOutcome[Any]) -> bool:
        nonlocal last_told
        if time.monotonic() - last_told > 10:
            last_told = time.monotonic()
            session.say(f"{name}: {outcome.states:,} states, depth {outcome.depth}")
        return True

    outcome = search(small.model, states_max=states, goes_on=goes_on)
    seconds = time.process_time() - started
    return Explored(
        name, _names(None)[name], mutant, outcome.states, outcome.transitions, outcome.depth, small.core_steps(),
        round(seconds, 2), outcome.is_exhausted, outcome.violation, small.schedule(outcome),
    )  # fmt: skip


def _as_data(found: Explored) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "ok": found.ok}


def _as_text(found: list[Explored]) -> Iterator[Any]:
    rows = [
        [
            each.configuration, f"{each.states:,}", f"{each.transitions:,}", str(each.depth), f"{each.core_steps:,}",
            f"{each.states / max(each.cpu_seconds, 0.01):,.0f}", ": ".join(each.result.split(": ")[:2]),
        ]
        for each in found
    ]  # fmt: skip
    yield make_table(COLUMNS, rows, right=COLUMNS[1:-1])
    for each in found:
        if each.schedule:
            yield ""
            yield f"{each.configuration}, shortest schedule:"
            yield from each.schedule
    total = sum(each.states for each in found)
    yield ""
    yield f"{total:,} states in {sum(each.cpu_seconds for each in found):,.0f} s of CPU."
