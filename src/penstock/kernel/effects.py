"""What machines ask of the world, and what the world tells them.

A core never acts: `step(event, now)` returns effects, an interpreter (`runtime`, `sim`) runs them, and their completion
comes back as an event. The rule of order, which both interpreters keep:

- Effects of one list run in list order, and the effects after a `Persist`, `TruncateLog` or `SaveState` wait until that
  is durable. (So a follower's acknowledgement follows its `Persist`; a leader's `Send` may precede it.)
- Lists of later steps do not wait for earlier ones, except that durable effects take place in the order of their steps.
- An interpreter may batch (one fdatasync for many lists), never reorder.

`in_segments` is that rule in code, and both interpreters use it.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.kernel.ids import Instant, Lsn, NodeId, RequestId

__all__ = [
    "CancelTimer",
    "Durable",
    "Effect",
    "Event",
    "Persist",
    "PersistFailed",
    "Persisted",
    "Received",
    "Reply",
    "Requested",
    "SaveState",
    "Send",
    "SetTimer",
    "StateSaved",
    "Stop",
    "TimerFired",
    "TrimLog",
    "TruncateLog",
    "in_segments",
]


class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of what happens to a machine."""


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of what a machine wants done."""


class Send(Effect, frozen=True):
    """A message to another node. It may be lost, doubled, late and out of order."""

    to: NodeId
    message: Any


class Received(Event, frozen=True):
    """A message from another node. The connection tells its sender; its content is not to be trusted."""

    sender: NodeId
    message: Any


class Persist(Effect, frozen=True):
    """Append records to the machine's log, the first of them as number `first`. Completed by `Persisted`."""

    first: Lsn
    records: tuple[Any, ...]


class Persisted(Event, frozen=True):
    """Every record up to `lsn` is durable."""

    lsn: Lsn


class PersistFailed(Event, frozen=True):
    """A durable effect failed, and it is unknown how much of it reached the disk. The machine must stop."""

    reason: str


class TruncateLog(Effect, frozen=True):
    """Drop every record behind `lsn`."""

    lsn: Lsn


class TrimLog(Effect, frozen=True):
    """Drop records before `lsn`; more may be kept than asked. Nothing waits for it."""

    lsn: Lsn


class SaveState(Effect, frozen=True):
    """Replace the machine's small durable state, atomically. Completed by `StateSaved`."""

    state: Any


class StateSaved(Event, frozen=True):
    """The state of the oldest `SaveState` not yet answered is durable."""


class SetTimer(Effect, frozen=True):
    """Fire once at `at`, by the machine's own clock. Setting a name again moves it."""

    name: str
    at: Instant


class CancelTimer(Effect, frozen=True):
    """Forget the timer of that name. A timer that is not set is no error."""

    name: str


class TimerFired(Event, frozen=True):
    """The timer's time has come, or is past."""

    name: str


class Requested(Event, frozen=True):
    """A client of this process wants something, and waits for the `Reply` with the same id."""

    request: RequestId
    body: Any


class Reply(Effect, frozen=True):
    """The answer to a `Requested`, exactly one each."""

    request: RequestId
    result: Any


class Stop(Effect, frozen=True):
    """The machine cannot continue: its process must end, saying why."""

    reason: str


Durable = Persist | TruncateLog | SaveState
_DURABLE = (Persist, TruncateLog, SaveState)  # a tuple is tested in half the time of a union


def in_segments(effects: Sequence[Effect]) -> tuple[Sequence[Effect], list[tuple[Durable, Sequence[Effect]]]]:
    """Divide the effects: those that may run at once, and then each durable effect with those that may run after it.

    All durable effects of a list take their place in the queue together, so that no later step comes between them.

    >>> in_segments([SetTimer("t", Instant(1)), Persist(Lsn(1), ("x",)), CancelTimer("t")])
    ([SetTimer(name='t', at=1)], [(Persist(first=1, records=('x',)), [CancelTimer(name='t')])])
    """
    cuts = [index for index, effect in enumerate(effects) if isinstance(effect, _DURABLE)]
    if not cuts:
        return effects, []
    segments: list[tuple[Durable, Sequence[Effect]]] = []
    for cut, end in zip(cuts, [*cuts[1:], len(effects)], strict=True):
        durable = effects[cut]
        assert isinstance(durable, _DURABLE)
        segments.append((durable, effects[cut + 1 : end]))
    return effects[: cuts[0]], segments
