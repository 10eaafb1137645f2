"""Runs seeds of worlds: each in a process of its own that forgets it, or here.

    outcome = run_world("journals", 42, ("kill", "cut"))

A seed runs with the guard, without garbage collection, and with all logs of the program in its story.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.plumbing.process import metrics
from penstock_lab.world.faults import FAULTS, check_faults
from penstock_lab.world.guard import guarded
from penstock_lab.world.journals.run import run_journals
from penstock_lab.world.quorum.run import run_quorum
from penstock_lab.world.scene import SECOND
from penstock_lab.world.stories import telling
from penstock_lab.world.world import World, WorldFailed

__all__ = ["WORLDS", "WorldOutcome", "draw_faults", "run_world"]

WORLDS: Final[dict[str, Callable[[World, tuple[str, ...], dict[str, int]], None]]] = {
    "journals": run_journals,
    "quorum": run_quorum,
}
RARE: Final = ("disk-error", "flip")  # that excuse something: only by name
STRANGE: Final = {"quorum": ("store-away", "store-fails", "session")}  # that a world has no use for


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


def draw_faults(seed: int, world: str = "journals") -> tuple[str, ...]:
    """Draw some of all faults: a quarter of all seeds has one kind only."""
    rng = World(seed).random("which faults")
    names = [name for name in FAULTS if name not in (*RARE, *STRANGE.get(world, ()))]
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


def run_world(
    name: str,
    seed: int,
    faults: Sequence[str] | None = None,
    *,
    story_of: str | None = None,
    until_s: float | None = None,
) -> WorldOutcome:
    """Run a seed. `faults`: their names; None: drawn. `story_of`: a process, or "*". `until_s`: stop there."""
    if name not in WORLDS:
        raise InvalidArgument(f"no world {name!r}: there are {', '.join(WORLDS)}")
    chosen = check_faults(faults) if faults is not None else draw_faults(seed, name)
    world = World(seed, story_of=story_of)
    world.ends_ns = None if until_s is None else int(until_s * SECOND)
    counts: dict[str, int] = {}
    was_collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # the end of the world collects its own garbage only
    try:
        with metrics_kept(), telling(world), guarded(world):
            try:
                WORLDS[name](world, chosen, counts)
                world.check()
            except WorldFailed:
                pass
            story, digest = tuple(world.story), world.digest
    finally:
        world.end()
        gc.unfreeze()
        if was_collecting:
            gc.enable()
    return WorldOutcome(
        name, seed, chosen, digest, world.failure, round(world.now_ns / SECOND, 3), world.turns, counts, story
    )
