"""Shrinks a red seed: leaves out occurrences of faults, and processes, while the same rule is broken.

Each part draws from a generator of its own, so the others stay as they were. First it leaves out half of
them at once, then single ones, until it needs every one.
"""

from collections.abc import Callable, Sequence

from penstock.kernel.errors import InvalidArgument
from penstock_lab.world.run import WorldOutcome, run_world

__all__ = ["shrink"]


def shrink(
    world: str,
    seed: int,
    faults: Sequence[str] | None = None,
    *,
    mutant: str | None = None,
    watch: Callable[[str], None] = lambda _: None,
) -> tuple[WorldOutcome, list[str]]:
    """Return the outcome with as little as possible, and what still happens in it. `InvalidArgument`: it is clean."""
    red = run_world(world, seed, faults, mutant=mutant)
    if red.failure is None:
        raise InvalidArgument(f"seed {seed} of {world} is clean: there is nothing to shrink")
    left, size = list(red.happened), max(1, len(red.happened) // 2)
    while size:
        at, is_smaller = 0, False
        while at < len(left):
            some = left[at : at + size]
            outcome = run_world(world, seed, red.faults, mutant=mutant, without=(*red.without, *some))
            if outcome.rule == red.rule:
                red, is_smaller = outcome, True
                left = [each for each in left if each not in some]
                watch(f"without {', '.join(some)}: still {red.rule}; {len(left)} left")
            else:
                at += size
        if size == 1 and not is_smaller:
            break
        size = max(1, size // 2) if size > 1 else 1
    return red, left
