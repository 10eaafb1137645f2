"""A small machine for tests of the simulator itself: counts durably, and reports it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.kernel.effects import (
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    SaveState,
    Send,
    SetTimer,
    Stop,
    TimerFired,
)
from penstock.kernel.ids import MILLISECOND, Instant, Lsn, NodeId
from penstock.kernel.machine import Machine
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.node import SimNode


class Add(msgspec.Struct, frozen=True):
    number: int


class Done(msgspec.Struct, frozen=True):
    number: int


class Counter:
    """Persists each `Add`, answers `Done` after it, ticks every millisecond."""

    def __init__(self, name: NodeId, found: DiskContent) -> None:
        self.name = name
        self.numbers = list(found.records)
        self.boots = (found.state or 0) + 1
        self.durable = len(self.numbers)
        self.ticks = 0
        self.seen: list[str] = []

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        self.seen.append(type(event).__name__)
        match event:
            case Received(sender, Add(number)):
                self.numbers.append(number)
                return [Persist(Lsn(len(self.numbers)), (number,)), Send(sender, Done(number))]
            case Persisted(lsn):
                self.durable = lsn
            case PersistFailed(reason):
                return [Stop(reason)]
            case TimerFired("tick"):
                self.ticks += 1
                return [SetTimer("tick", Instant(now + MILLISECOND))]
            case _:
                pass
        return []

    def check(self) -> None:
        assert self.durable <= len(self.numbers)


class CounterProgram:
    """Boots `Counter`s. `ticking` gives them a timer."""

    def __init__(self, *, ticking: bool = False) -> None:
        self.ticking = ticking
        self.performed: list[Any] = []

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        machine = Counter(node.name, found)
        effects: list[Effect] = [SaveState(machine.boots)]
        if self.ticking:
            effects.insert(0, SetTimer("tick", Instant(node.now + MILLISECOND)))
        return machine, effects

    def perform(self, node: SimNode, effect: Effect) -> None:
        self.performed.append(effect)


def machine_of(node: SimNode) -> Counter:
    assert isinstance(node.machine, Counter)
    return node.machine
