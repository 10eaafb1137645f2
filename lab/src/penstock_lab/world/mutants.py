"""Mutants of shells and clients: each breaks one rule of shipped code, and a seed or a schedule must catch it.

    MUTANTS = {"answers-early": WorldMutant("answers leave before the write", "E1", breaks, ("write-fails",))}

A mutant replaces attributes of shipped classes and modules. `broken` puts them back, whatever happens in between.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

__all__ = ["Patch", "WorldMutant", "broken"]


class Patch:
    """Replaces attributes, and puts them back in the other order."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def set(self, target: Any, name: str, value: Any) -> Any:
        """Replace an attribute of a class or a module; return the one before. It must exist."""
        here = vars(target)
        before = here[name] if name in here else getattr(target, name)
        self._before.append((target, name, before))
        setattr(target, name, value)
        return before

    def end(self) -> None:
        while self._before:
            target, name, before = self._before.pop()
            setattr(target, name, before)


class WorldMutant(msgspec.Struct, frozen=True):
    """One broken rule."""

    about: str
    rule: str  # of the judge, that it breaks: the verdict begins with it
    breaks: Callable[[Patch], Any]
    faults: tuple[str, ...] | None = None  # under which it shows; None: as a seed draws them


@contextmanager
def broken(mutant: WorldMutant | None) -> Iterator[None]:
    """Run shipped code with one rule broken; None: as it is."""
    patch = Patch()
    try:
        if mutant is not None:
            mutant.breaks(patch)
        yield
    finally:
        patch.end()
