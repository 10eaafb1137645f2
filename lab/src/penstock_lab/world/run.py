"""Runs seeds of worlds: each in a process of its own that forgets it, or here.

    outcome = run_world("journals", 42, ("kill", "cut"))

A seed runs with the guard, without garbage collection, and with all logs of the program in its story.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.process import metrics
from penstock_lab.world.consumers.mutants import MUTANTS as CONSUMERS_MUTANTS
from penstock_lab.world.consumers.run import ABOUT as CONSUMERS
from penstock_lab.world.consumers.run import run_consumers
from penstock_lab.world.faults import FAULTS, check_faults
from penstock_lab.world.guard import guarded
from penstock_lab.world.journals.mutants import MUTANTS as JOURNALS_MUTANTS
from penstock_lab.world.journals.run import ABOUT as JOURNALS
from penstock_lab.world.journals.run import run_journals
from penstock_lab.world.lake.mutants import MUTANTS as LAKE_MUTANTS
from penstock_lab.world.lake.run import ABOUT as LAKE
from penstock_lab.world.lake.run import run_lake
from penstock_lab.world.mutants import WorldMutant, broken
from penstock_lab.world.quorum.run import ABOUT as QUORUM
from penstock_lab.world.quorum.run import run_quorum
from penstock_lab.world.scene import SECOND
from penstock_lab.world.stories import telling
from penstock_lab.world.world import World, WorldFailed

__all__ = ["WORLDS", "WorldKind", "WorldOutcome", "draw_faults", "find_mutant", "find_world", "run_world"]


class WorldKind(msgspec.Struct, frozen=True):
    """What one name of the command line runs."""

    about: str
    run: Callable[[World, tuple[str, ...], dict[str, int]], None]
    mutants: dict[str, WorldMutant] = {}
    strange: tuple[str, ...] = ()  # faults that no seed of it draws: it has no use for them


LAKE_FAULTS: Final = (
    "kill", "kill-all", "power", "freeze", "drain", "client-kill", "cut", "reset", "clock", "store-away", "store-fails",
    "disk-slow",
)  # fmt: skip
WORLDS: Final[dict[str, WorldKind]] = {
    "journals": WorldKind(JOURNALS, run_journals, JOURNALS_MUTANTS),
    "quorum": WorldKind(
        QUORUM,
        run_quorum,
        strange=("store-away", "store-fails", "session", "write-fails", "read-fails", "sync-fails", "flip"),
    ),
    "consumers": WorldKind(
        CONSUMERS, run_consumers, CONSUMERS_MUTANTS, strange=("write-fails", "read-fails", "sync-fails", "flip")
    ),
    "lake": WorldKind(
        LAKE,
        run_lake,
        LAKE_MUTANTS,
        # few seeds have a disk or a KeySpace: these faults would leave most of them quiet
        strange=tuple(name for name in FAULTS if name not in LAKE_FAULTS),
    ),
}


class WorldOutcome(msgspec.Struct, frozen=True):
    """What became of a seed."""

    world: str
    seed: int
    faults: tuple[str, ...]
    digest: str
    failure: str | None
    virtual_s: float
    turns: int
    counts: dict[str, int]
    story: tuple[str, ...] = ()
    mutant: str | None = None
    without: tuple[str, ...] = ()
    happened: tuple[str, ...] = ()  # processes, and occurrences of faults

    @property
    def rule(self) -> str:
        """Return the rule that was broken, like E1; the begin of the reason, if it has no name."""
        if self.failure is None:
            return ""
        reason = self.failure.partition(" s: ")[2]
        return reason.partition(":")[0][:40]


def draw_faults(seed: int, world: str = "journals") -> tuple[str, ...]:
    """Draw some of all faults: a quarter of all seeds has one kind only."""
    rng = World(seed).random("which faults")
    names = [name for name in FAULTS if name not in find_world(world).strange]
    return tuple(rng.sample(names, rng.choice((1, 2, 3, 5))))


@contextmanager
def metrics_kept() -> Iterator[None]:
    """Forget the sources of metrics that a world adds: a process that is killed removes none (W10)."""
    before = [(tally, dict(tally._sources), dict(tally._removed)) for tally in metrics._tallies]
    try:
        yield
    finally:
        for tally, sources, removed in before:
            tally._sources, tally._removed = sources, removed


def find_world(name: str) -> WorldKind:
    """Return a world by its name, or raise `InvalidArgument` that lists them."""
    if name not in WORLDS:
        raise InvalidArgument(f"no world {name!r}: there are {', '.join(WORLDS)}")
    return WORLDS[name]


def find_mutant(name: str, mutant: str | None) -> WorldMutant | None:
    """Return a mutant of a world; None for none."""
    mutants = find_world(name).mutants
    if mutant is not None and mutant not in mutants:
        raise InvalidArgument(f"{name} has no mutant {mutant!r}: there are {', '.join(mutants)}")
    return mutants[mutant] if mutant is not None else None


def run_world(
    name: str,
    seed: int,
    faults: Sequence[str] | None = None,
    *,
    story_of: str | None = None,
    until_s: float | None = None,
    mutant: str | None = None,
    without: Iterable[str] = (),
) -> WorldOutcome:
    """Run a seed. `faults`: their names; None: drawn, or those of the mutant. `story_of`: a process, or "*".

    `until_s`: stop there. `mutant`: run with one rule broken. `without`: leave out these occurrences and processes.
    """
    kind, breaks = find_world(name), find_mutant(name, mutant)
    if faults is None and breaks is not None:
        faults = breaks.faults
    chosen = check_faults(faults) if faults is not None else draw_faults(seed, name)
    world = World(seed, story_of=story_of, without=frozenset(without))
    world.ends_ns = None if until_s is None else int(until_s * SECOND)
    counts: dict[str, int] = {}
    was_collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # the end of the world collects its own garbage only
    try:
        with broken(breaks), metrics_kept(), telling(world), guarded(world):
            try:
                kind.run(world, chosen, counts)
                world.check()
            except WorldFailed:
                pass
            story, digest = tuple(world.story), world.digest
    finally:
        with telling(world):  # what tasks log while they are let go
            world.end()
        gc.unfreeze()
        if was_collecting:
            gc.enable()
    return WorldOutcome(
        name,
        seed,
        chosen,
        digest,
        world.failure,
        round(world.now_ns / SECOND, 3),
        world.turns,
        counts,
        story,
        mutant,
        tuple(sorted(world.without)),
        tuple(world.happened),
    )
