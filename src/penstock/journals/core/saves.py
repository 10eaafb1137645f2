"""Saves: what a replica waits for on its own disk. Nothing is waited for if its Spool is not a kept one.

A save is either a gate, for what follows in the same list of effects (a promise, an acknowledgement), or the primary's
own part of a sync or a proposal, which counts once it is durable and which nothing of its step waits for: the next
append's content streams meanwhile.
"""

from collections import deque
from typing import Literal

from penstock.journals.core.spool import Spool
from penstock.journals.records.epoch import PipelineEpoch

__all__ = ["Own", "Saves"]

Own = tuple[Literal["adopted", "acked"], PipelineEpoch, int]  # a sync, or the proposal of that number


class Saves:
    """Which of our own parts counts when the oldest save is durable."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._running: deque[tuple[Own, ...]] = deque()
        self.own: list[Own] = []  # of this step

    def gate(self) -> None:
        """Make later effects wait until the Spool is durable in its present state."""
        if self._spool.is_kept:
            self._running.append(())
            self._spool.save()

    def add_own(self, own: Own) -> bool:
        """Count this when it is durable; False if it counts at once."""
        if self._spool.is_kept:
            self.own.append(own)
        return self._spool.is_kept

    def end_step(self) -> None:
        """Save once for all of a step's own parts, after everything else."""
        self._running.append(tuple(self.own))
        self.own.clear()
        self._spool.save()

    def take_saved(self) -> tuple[Own, ...]:
        """The oldest save is durable: what counts now."""
        return self._running.popleft()
