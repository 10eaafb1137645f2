"""A simulated process: one machine on its own disk and clock, which can crash, freeze and come back.

It is the simulator's interpreter of effects and keeps the same order as the runtime: effects after a durable one wait
for it; later lists do not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.kernel.effects import (
    CancelTimer,
    Durable,
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Received,
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
from penstock.kernel.ids import Instant, Lsn, NodeId
from penstock.kernel.machine import Machine
from penstock_lab.sim.disk import DiskContent, SimDisk

if TYPE_CHECKING:
    from penstock_lab.sim.world import World

__all__ = ["Program", "SimNode"]

MILLION = 1_000_000


class Program(Protocol):
    """The program of a node: builds the machine from its durable state, and knows the effects of its own protocol."""

    def boot(self, node: "SimNode", found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        """Return a new machine, and its first effects."""
        ...

    def perform(self, node: "SimNode", effect: Effect) -> None:
        """Run an effect that is not one of `base.effects`, or a `Reply`."""
        ...


@dataclass(slots=True)
class Clock:
    """A node's own clock: it starts anywhere and runs a little fast or slow."""

    offset_ns: int = 0
    rate_ppm: int = MILLION

    def local(self, now: Instant) -> Instant:
        return Instant(self.offset_ns + now * self.rate_ppm // MILLION)

    def world(self, local: Instant) -> Instant:
        return Instant(-(-(local - self.offset_ns) * MILLION // self.rate_ppm))


class SimNode:
    """One process of the world. `run` counts its lives: what an earlier life started never reaches a later one."""

    def __init__(self, world: "World", name: NodeId, program: Program, disk: SimDisk, clock: Clock) -> None:
        self.world = world
        self.name = name
        self.program = program
        self.disk = disk
        self.clock = clock
        self.machine: Machine | None = None
        self.run = 0
        self.is_paused = False
        self.resumed_at = Instant(0)  # when it last thawed, by the world's clock
        self.stopped_because: str | None = None
        self._held: list[Callable[[], None]] = []  # what happened while the process was frozen
        self._timers: dict[str, int] = {}

    @property
    def is_up(self) -> bool:
        return self.machine is not None

    # Life

    def boot(self) -> None:
        assert self.machine is None, f"{self.name} is already up"
        self.run += 1
        self.stopped_because = None
        self._timers.clear()
        self.world.note(self.name, "!", "boot")
        self.machine, effects = self.program.boot(self, self.disk.recover())
        self._run(effects)
        self.world.checked(self)

    def crash(self) -> None:
        """kill -9, with the power: unsynced writes are lost, messages already sent are not."""
        if self.machine is None:
            return
        self.world.note(self.name, "!", "crash")
        self._end()

    def pause(self) -> None:
        """SIGSTOP: nothing is handled, but the process believes it still lives. A zombie in the making."""
        if self.machine is not None:
            self.world.note(self.name, "!", "pause")
            self.is_paused = True

    def resume(self) -> None:
        if not self.is_paused:
            return
        self.world.note(self.name, "!", "resume")
        self.is_paused = False
        self.resumed_at = self.world.now
        held, self._held = self._held, []
        for happening in held:
            self.when_awake(happening)

    def stop(self, reason: str) -> None:
        """The machine itself gave up. Its supervisor may boot it again."""
        self.world.note(self.name, "!", f"stop: {reason}")
        self._end()
        self.stopped_because = reason

    def _end(self) -> None:
        self.machine = None
        self.is_paused = False
        self._held.clear()
        self.disk.crash()

    # Events in

    def deliver(self, event: Event) -> None:
        """Let the machine handle an event now, or when the process thaws. A dead process gets nothing."""
        if self.machine is not None and not self.is_paused:
            self._step(event)
        else:
            self.when_awake(lambda: self._step(event))

    def receive(self, sender: NodeId, message: Any) -> None:
        if self.machine is not None:
            self.deliver(Received(sender, message))

    def when_awake(self, happening: Callable[[], None]) -> None:
        """Now, or when the process thaws; never, if it dies before."""
        if self.machine is None:
            return
        if self.is_paused:
            self._held.append(happening)
        else:
            happening()

    def _step(self, event: Event) -> None:
        assert self.machine is not None
        self.world.note(self.name, "<", event)
        effects = self.machine.step(event, self.now)
        if effects:
            self._run(effects)
        self.world.checked(self)

    @property
    def now(self) -> Instant:
        return self.clock.local(self.world.now)

    # Effects out

    def _run(self, effects: Sequence[Effect]) -> None:
        at_once, segments = in_segments(effects)
        for effect in at_once:
            self.world.note(self.name, ">", effect)
            self._run_one(effect)
            if self.machine is None:
                return
        for durable, behind in segments:
            self.world.note(self.name, ">", durable)
            self._run_durably(durable, behind)

    def _run_one(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self.world.send(self.name, to, message)
            case TrimLog():
                self.disk.trim(effect)
            case SetTimer(name, at):
                self._set_timer(name, at)
            case CancelTimer(name):
                self._timers.pop(name, None)
            case Stop(reason):
                self.stop(reason)
            case _:
                self.program.perform(self, effect)

    def _run_durably(self, effect: Durable, behind: Sequence[Effect]) -> None:
        ends_at, succeeds = self.disk.submit(self.world.now, effect)
        run = self.run

        def ended() -> None:
            if self.run != run or self.machine is None:
                return
            if succeeds and not self.disk.has_failed:
                self.disk.complete(effect)
                self.when_awake(lambda: self._completed(effect, behind))
            else:
                self.disk.has_failed = True
                self.when_awake(self._failed)

        self.world.at(ends_at, ended)

    def _completed(self, effect: Durable, behind: Sequence[Effect]) -> None:
        self._run(behind)
        match effect:
            case Persist(first, records):
                self.deliver(Persisted(Lsn(first + len(records) - 1)))
            case SaveState():
                self.deliver(StateSaved())
            case TruncateLog():
                pass

    def _failed(self) -> None:
        self._step(PersistFailed("the simulated disk failed"))
        assert self.machine is None, f"{self.name} went on after a failed write"

    def _set_timer(self, name: str, at: Instant) -> None:
        token = self.world.next_token()
        self._timers[name] = token
        run = self.run

        def fire() -> None:
            if self.run == run and self._timers.get(name) == token:
                del self._timers[name]
                self.deliver(TimerFired(name))

        self.world.at(Instant(max(self.clock.world(at), self.world.now)), fire)
