"""Probes: was this rare path ever reached?

A core marks a rare path with `reached("limbo.rollback_while_full")`. In production that is one comparison; the
simulator installs a recorder for the time of a run and reports which probes no seed has reached.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["reached", "recording"]

_recorder: Callable[[str], None] | None = None


def reached(probe: str) -> None:
    """Mark that this path was taken."""
    if _recorder is not None:
        _recorder(probe)


@contextmanager
def recording(recorder: Callable[[str], None]) -> Iterator[None]:
    """Send the names of reached probes to `recorder` while the block runs."""
    global _recorder
    before, _recorder = _recorder, recorder
    try:
        yield
    finally:
        _recorder = before
