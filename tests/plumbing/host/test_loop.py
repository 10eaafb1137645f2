"""The machine loop keeps the order of effects: list order, durable before what stands behind, appends side by side."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.kernel.effects import (
    CancelTimer,
    Effect,
    Event,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    SaveState,
    Send,
    SetTimer,
    StateSaved,
    Stop,
    TimerFired,
    TrimLog,
    TruncateLog,
)
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import MILLISECOND, Instant, Lsn, NodeId, RequestId
from penstock.plumbing.host.loop import Done, MachineLoop
from penstock.plumbing.ports.ports import system_ports

PEER = NodeId("peer")


class Scripted:
    """A machine which answers each event with the effects laid down for it."""

    def __init__(self, script: dict[Event, list[Effect]]) -> None:
        self.script = script
        self.seen: list[Event] = []

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        self.seen.append(event)
        if isinstance(event, PersistFailed):
            return [Stop(event.reason)]
        return self.script.get(event, [])

    def check(self) -> None:
        pass


class Desk:
    """Storage and world in one, which note what happens; the test says when a durable effect ends."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.pending: list[Done] = []

    def append(self, first: Lsn, records: Sequence[Any], done: Done) -> None:
        self._start(f"append {first}", done)

    def truncate(self, lsn: Lsn, done: Done) -> None:
        self._start(f"truncate {lsn}", done)

    def save_state(self, state: Any, done: Done) -> None:
        self._start(f"save {state}", done)

    def trim(self, lsn: Lsn) -> None:
        self.log.append(f"trim {lsn}")

    def send(self, to: NodeId, message: Any) -> None:
        self.log.append(f"send {message}")

    def perform(self, effect: Effect) -> None:
        self.log.append(f"perform {type(effect).__name__}")

    def stopped(self, reason: str) -> None:
        self.log.append(f"stopped: {reason}")

    def _start(self, what: str, done: Done) -> None:
        self.log.append(what)
        self.pending.append(done)

    def end(self, error: BaseException | None = None) -> None:
        self.pending.pop(0)(error)


def go(name: str) -> Received:
    return Received(PEER, name)


def start(script: dict[Event, list[Effect]]) -> tuple[MachineLoop, Scripted, Desk]:
    machine, desk = Scripted(script), Desk()
    return MachineLoop(machine, desk, desk, system_ports().clock.monotonic_ns), machine, desk


async def test_what_stands_behind_a_durable_effect_waits_for_it() -> None:
    loop, machine, desk = start({go("a"): [Send(PEER, 1), Persist(Lsn(1), ("x", "y")), Send(PEER, 2), TrimLog(Lsn(1))]})
    loop.post(go("a"))
    assert desk.log == ["send 1", "append 1"]
    desk.end()
    assert desk.log == ["send 1", "append 1", "send 2", "trim 1"]
    assert machine.seen == [go("a"), Persisted(Lsn(2))]


async def test_appends_run_side_by_side_and_later_lists_do_not_wait() -> None:
    loop, machine, desk = start(
        {
            go("a"): [Persist(Lsn(1), ("x",)), Send(PEER, "a")],
            go("b"): [Persist(Lsn(2), ("y",)), Send(PEER, "b")],
            go("c"): [Send(PEER, "c")],
        }
    )
    for name in "abc":
        loop.post(go(name))
    assert desk.log == ["append 1", "append 2", "send c"]
    desk.end()
    desk.end()
    assert desk.log[3:] == ["send a", "send b"]
    assert machine.seen[3:] == [Persisted(Lsn(1)), Persisted(Lsn(2))]


async def test_a_truncation_and_a_saved_state_run_alone_and_in_order() -> None:
    loop, machine, desk = start(
        {
            go("a"): [Persist(Lsn(1), ("x",))],
            go("b"): [TruncateLog(Lsn(0)), SaveState("s"), Send(PEER, "b")],
            go("c"): [Persist(Lsn(1), ("z",)), Send(PEER, "c")],
        }
    )
    for name in "abc":
        loop.post(go(name))
    assert desk.log == ["append 1"]
    desk.end()
    assert desk.log == ["append 1", "truncate 0"]
    desk.end()
    assert desk.log == ["append 1", "truncate 0", "save s"]
    desk.end()
    assert desk.log[3:] == ["send b", "append 1"]
    desk.end()
    assert desk.log[5:] == ["send c"]
    assert machine.seen[3:] == [Persisted(Lsn(1)), StateSaved(), Persisted(Lsn(1))]


async def test_a_failed_write_stops_the_machine_for_good() -> None:
    loop, machine, desk = start({go("a"): [Persist(Lsn(1), ("x",)), Send(PEER, "ack")]})
    loop.post(go("a"))
    desk.end(OSError("disk on fire"))
    loop.post(go("a"))
    assert desk.log == ["append 1", "stopped: disk on fire"]
    assert machine.seen == [go("a"), PersistFailed("disk on fire")]
    assert loop.stop_reason == "disk on fire"


async def test_a_defect_stops_the_machine_before_it_says_more() -> None:
    loop, machine, desk = start(
        {go("a"): [Persist(Lsn(1), ("x",)), Send(PEER, "ack")], go("b"): [Reply(RequestId(1), 0)]}
    )
    loop.post(go("a"))

    def perform(effect: Effect) -> None:
        raise AssertionError("cannot be")

    desk.perform = perform  # type: ignore[method-assign]
    with pytest.raises(AssertionError):
        loop.post(go("b"))
    desk.end()
    loop.post(go("a"))
    assert desk.log == ["append 1", "stopped: a defect: AssertionError: cannot be"]
    assert machine.seen == [go("a"), go("b")]


async def test_a_refused_event_stops_nothing() -> None:
    loop, machine, desk = start({go("a"): [Send(PEER, "hello")]})
    answer = machine.step

    def step(event: Event, now: Instant) -> Sequence[Effect]:
        if event == go("bad"):
            raise InvalidArgument("what is this?")
        return answer(event, now)

    machine.step = step  # type: ignore[method-assign]
    with pytest.raises(InvalidArgument):
        loop.post(go("bad"))
    loop.post(go("a"))
    assert desk.log == ["send hello"]


async def test_an_event_posted_from_inside_an_effect_comes_after_its_list() -> None:
    loop, machine, desk = start({go("a"): [Reply(RequestId(1), "x"), Send(PEER, 1)], go("b"): [Send(PEER, 2)]})

    def perform(effect: Effect) -> None:
        loop.post(go("b"))

    desk.perform = perform  # type: ignore[method-assign]
    loop.post(go("a"))
    assert desk.log == ["send 1", "send 2"]
    assert machine.seen == [go("a"), go("b")]


async def test_timers_fire_once_move_and_are_cancelled() -> None:
    fired = asyncio.Event()
    loop, machine, desk = start({})
    soon = Instant(loop.now + 2 * MILLISECOND)
    desk.perform = lambda effect: fired.set()  # type: ignore[method-assign]
    machine.script[TimerFired("moved")] = [Reply(RequestId(1), None)]
    loop.run(
        [SetTimer("cancelled", soon), SetTimer("moved", soon), SetTimer("moved", Instant(soon + 20 * MILLISECOND))]
    )
    loop.run([CancelTimer("cancelled"), CancelTimer("never set")])
    await asyncio.wait_for(fired.wait(), 5)
    assert machine.seen == [TimerFired("moved")]
    assert loop.now >= soon + 20 * MILLISECOND


async def test_a_stopped_machine_hears_no_timer() -> None:
    loop, machine, desk = start({go("a"): [SetTimer("t", Instant(0)), Stop("enough")]})
    loop.post(go("a"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert machine.seen == [go("a")]
    assert desk.log == ["stopped: enough"]
