"""The machine loop: takes an event, steps the machine, runs the effects, brings their completions back as events.

This is the runtime's interpreter of `base.effects`, and keeps the same order as the simulator's: effects after a
durable effect of a list wait for it, lists of later steps do not, durable effects take place in the order of their
steps. It decides nothing: whatever needs an `if` on protocol state belongs into a core.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.kernel.effects import (
    CancelTimer,
    Durable,
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    SaveState,
    Send,
    SetTimer,
    StateSaved,
    Stop,
    TimerFired,
    TrimLog,
    TruncateLog,
    in_segments,
)
from penstock.kernel.errors import InternalError, PenstockError
from penstock.kernel.ids import Instant, Lsn, NodeId
from penstock.kernel.machine import Machine
from penstock.plumbing.host.timers import Timers

__all__ = ["EffectPort", "MachineLoop", "Storage"]

Done = Callable[[BaseException | None], None]


class Storage(Protocol):
    """Where a machine's log and state are kept. Each call ends in one call of `done` on the loop, in order."""

    def append(self, first: Lsn, records: Sequence[Any], done: Done) -> None: ...

    def truncate(self, lsn: Lsn, done: Done) -> None: ...

    def save_state(self, state: Any, done: Done) -> None: ...

    def trim(self, lsn: Lsn) -> None: ...


class EffectPort(Protocol):
    """Everything else a machine reaches: peers, waiting clients, the effects of its own protocol."""

    def send(self, to: NodeId, message: Any) -> None:
        """Hand a message to the link; it may be lost. Never blocks."""
        ...

    def perform(self, effect: Effect) -> None:
        """Run a `Reply`, or an effect which only this protocol knows."""
        ...

    def stopped(self, reason: str) -> None:
        """The machine cannot continue. Called once."""
        ...


class MachineLoop:
    """Runs one machine. All calls come from one event loop; `post` may be called from inside an effect."""

    def __init__(
        self,
        machine: Machine,
        storage: Storage,
        world: EffectPort,
        clock: Callable[[], int],
    ) -> None:
        self.machine = machine
        self._storage = storage
        self._world = world
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._events: deque[Event] = deque()
        self._is_running = False
        self._timers = Timers(clock, lambda name: self.post(TimerFired(name)))
        self._waiting: deque[tuple[Durable, Sequence[Effect]]] = deque()  # durable effects which may not start yet
        self._appending = 0
        self._has_exclusive = False  # a truncation or a saved state is under way: nothing durable may run with it
        self.stop_reason: str | None = None

    @property
    def now(self) -> Instant:
        return Instant(self._clock())

    def post(self, event: Event) -> None:
        """Let the machine handle an event, after those that came before it."""
        self._events.append(event)
        self._handle_events()

    def _handle_events(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._events and self.stop_reason is None:
                self._run(self.machine.step(self._events.popleft(), self.now))
        except Exception as error:
            self._stop_for(error)
            raise
        finally:
            self._is_running = False

    def run(self, effects: Sequence[Effect]) -> None:
        """Run a list of effects, and then the events they led to.

        What a machine wants done at its start comes in here.
        """
        was_running, self._is_running = self._is_running, True
        try:
            self._run(effects)
        except Exception as error:
            self._stop_for(error)
            raise
        finally:
            self._is_running = was_running
        self._handle_events()

    def _run(self, effects: Sequence[Effect]) -> None:
        """At once what need not wait; the rest, segment by segment, when the durable effect before it has ended."""
        at_once, segments = in_segments(effects)
        for effect in at_once:
            self._run_one(effect)
            if self.stop_reason is not None:
                return
        if segments:
            self._waiting.extend(segments)
            self._start_durable()

    def _run_one(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self._world.send(to, message)
            case SetTimer(name, at):
                self._timers.set(name, at)
            case CancelTimer(name):
                self._timers.cancel(name)
            case TrimLog(lsn):
                self._storage.trim(lsn)
            case Stop(reason):
                self.stop(reason)
            case _:
                self._world.perform(effect)

    def stop(self, reason: str) -> None:
        """End this machine: no timer, completion or event reaches it any more."""
        if self.stop_reason is not None:
            return
        self.stop_reason = reason
        self._timers.clear()
        self._waiting.clear()
        self._events.clear()
        self._world.stopped(reason)

    def _stop_for(self, error: Exception) -> None:
        """A defect: half of a step is done, so that nothing this machine would say from here on can be trusted.

        An error of the caller is no failure: a core that refuses an event does so before anything else.
        """
        if not isinstance(error, PenstockError) or isinstance(error, InternalError):
            self.stop(f"a defect: {type(error).__name__}: {error}")

    def _start_durable(self) -> None:
        """Appends run side by side, for one fdatasync serves them all; a truncation or a saved state runs alone."""
        while self._waiting and not self._has_exclusive:
            effect, behind = self._waiting[0]
            if isinstance(effect, Persist):
                self._appending += 1
            elif self._appending:
                return
            else:
                self._has_exclusive = True
            self._waiting.popleft()
            self._submit(effect, lambda error, effect=effect, behind=behind: self._ended(effect, behind, error))  # type: ignore[misc]

    def _submit(self, effect: Durable, done: Done) -> None:
        match effect:
            case Persist(first, records):
                self._storage.append(first, records, done)
            case TruncateLog(lsn):
                self._storage.truncate(lsn, done)
            case SaveState(state):
                self._storage.save_state(state, done)

    def _ended(self, effect: Durable, behind: Sequence[Effect], error: BaseException | None) -> None:
        if self.stop_reason is not None:
            return
        if error is not None:
            self.post(PersistFailed(str(error)))
            self.stop(f"continued after a failed write: {error}")
            return
        if isinstance(effect, Persist):
            self._appending -= 1
        else:
            self._has_exclusive = False
        self.run(behind)
        match effect:
            case Persist(first, records):
                self.post(Persisted(Lsn(first + len(records) - 1)))
            case SaveState():
                self.post(StateSaved())
            case TruncateLog():
                pass
        try:
            self._start_durable()
        except Exception as failure:
            self._stop_for(failure)
            raise
