"""The loop of one replica: events in, effects out, content whenever the core has nothing else to do.

It keeps the order of `base.effects`: effects after a `SaveState` wait until that is durable, other lists do not; saves
take place in order, and many may be under way, since one fdatasync serves them all. Besides events there is the
client's content: its sum is that of the file when the core gets it, so it is taken (`Shell.next_content`) only when
every event before it has been handled. What effects have gathered, messages and content, leaves by `Shell.flush` when
there is nothing more to do: once for all that one read brought, if that is handled in one `with` block.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.journals.core.replica import Replica
from penstock.kernel.effects import (
    CancelTimer,
    Effect,
    Event,
    SaveState,
    Send,
    SetTimer,
    StateSaved,
    TimerFired,
    in_segments,
)
from penstock.kernel.errors import InternalError, PenstockError
from penstock.kernel.ids import Instant, NodeId
from penstock.plumbing.host.timers import Timers
from penstock.plumbing.process.logs import get_logger

__all__ = ["ReplicaLoop", "Shell"]

log = get_logger()


class Shell(Protocol):
    """What runs effects, and has the content."""

    def send(self, to: NodeId, message: Any) -> None: ...

    def perform(self, effect: Effect) -> None: ...

    def save(self, state: Any, done: Callable[[], None]) -> None: ...

    def next_content(self) -> Event | None:
        """Return the content that the core has asked for, if it is here."""
        ...

    def flush(self) -> None:
        """Send and write the gathered messages and content."""
        ...

    def stopped(self, reason: str) -> None: ...


class ReplicaLoop:
    """Runs one replica. All calls come from one event loop; `post` may be called from inside an effect."""

    def __init__(self, replica: Replica, shell: Shell, clock: Callable[[], int]) -> None:
        self._replica = replica
        self._shell = shell
        self.clock = clock
        self._events: deque[Event] = deque()
        self._timers = Timers(clock, lambda name: self.post(TimerFired(name)))
        self._is_running = False
        self._blocks = 0  # `with` blocks which are open, one in the other
        self.stop_reason: str | None = None

    @property
    def now(self) -> Instant:
        return Instant(self.clock())

    def post(self, event: Event) -> None:
        """Let the replica handle an event, after those that came before it. A stopped replica handles none."""
        if self.stop_reason is None:
            self._events.append(event)
            self.go_on()

    def __enter__(self) -> None:
        """Begin to handle several events that came at once: their effects leave together, at the end of the outermost
        block.
        """
        self._blocks += 1

    def __exit__(self, *_: object) -> None:
        self._blocks -= 1
        if not self._blocks:
            self.go_on()

    def go_on(self) -> None:
        """Handle the waiting events first, then the content."""
        if self._is_running:
            return
        self._is_running = True
        events, replica, shell, clock = self._events, self._replica, self._shell, self.clock
        try:
            while self.stop_reason is None:
                event = events.popleft() if events else shell.next_content()
                if event is None:
                    break
                effects = replica.step(event, Instant(clock()))
                if effects:
                    self._run(effects)
        except Exception as error:
            self._fail(error)
        finally:
            self._is_running = False
        if not self._blocks and self.stop_reason is None:
            try:
                shell.flush()
            except Exception as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the replica: the disk failed, and the content of the file is unknown; or it is a defect in Penstock.
        Either way it ends.
        """
        if isinstance(error, PenstockError):
            self.stop(str(error))
        else:
            log.exception("a replica's defect", journal=self._replica.journal)
            self.stop(f"a defect, {type(error).__name__}: {error}")

    def _run(self, effects: Sequence[Effect]) -> None:
        shell = self._shell
        for at, effect in enumerate(effects):
            if type(effect) is Send:
                shell.send(effect.to, effect.message)
            elif type(effect) is SaveState:
                self._run_segments(effects[at:])
                return
            elif type(effect) is SetTimer:
                self._timers.set(effect.name, effect.at)
            elif type(effect) is CancelTimer:
                self._timers.cancel(effect.name)
            else:
                shell.perform(effect)

    def _run_segments(self, effects: Sequence[Effect]) -> None:
        for durable, behind in in_segments(effects)[1]:
            assert isinstance(durable, SaveState)
            self._shell.save(durable.state, lambda behind=behind: self._saved(behind))  # type: ignore[misc]

    def _saved(self, behind: Sequence[Effect]) -> None:
        if self.stop_reason is not None:
            return
        if self._is_running:
            raise InternalError("a save which ended inside a step")
        self._is_running = True
        try:
            self._run(behind)
        except Exception as error:
            self._fail(error)
        finally:
            self._is_running = False
        if self.stop_reason is None:
            self.post(StateSaved())

    def stop(self, reason: str) -> None:
        """End this replica: no timer, completion or event reaches it any more."""
        if self.stop_reason is not None:
            return
        self.stop_reason = reason
        self._timers.clear()
        self._events.clear()
        self._shell.stopped(reason)
