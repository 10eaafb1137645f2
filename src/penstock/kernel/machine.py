"""What a core is: a pure machine with one way in and invariants it can check itself."""

from collections.abc import Sequence
from typing import Protocol

from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import Instant

__all__ = ["Machine"]


class Machine(Protocol):
    """A protocol as a state machine: events in, effects out; no clock, no socket, no randomness, no file.

    Illegal input from a peer leads to a reply or a `RemoteError`, illegal local use to a `LocalError`, a broken
    invariant to an AssertionError: the process stops rather than continue with a state it does not understand.
    """

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        """Take one event; return the effects, in order."""
        ...

    def check(self) -> None:
        """Assert every invariant of the state. The simulator calls this after each step."""
        ...
