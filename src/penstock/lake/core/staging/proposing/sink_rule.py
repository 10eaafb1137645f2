"""Which batch of a sink may commit: the rule for batch numbers. Design: spark.md "Rule for batchId"; lake.md L14.

A sink's register is (query, last batch, guard of its plan). PERFORM compares and sets it in one step; this rule says
what to offer it. Nothing is registered: any batch may come, since a checkpoint may switch sinks half-way. Another query
is refused until the sink is adopted.

In the state machine the register is a `SinkState`, whose `end` is `query:guard` here. The guard names the plan of a
batch, where it is known: without it a checkpoint that was rewound by hand and planned again would pass for a replay.
"""

from enum import Enum

import msgspec

from penstock.lake.core.staging.branch import SinkState
from penstock.lake.core.staging.records import SinkPart

__all__ = ["Register", "Verdict", "part_of", "register_of", "verdict"]


class Verdict(Enum):
    """What a batch is to its sink."""

    COMMIT = "commit"
    REPLAY = "replay"
    OTHER_QUERY = "other-query"
    OTHER_PLAN = "other-plan"
    STALE = "stale"


class Register(msgspec.Struct, frozen=True):
    """What a sink has seen last."""

    query: str
    batch: int
    guard: str = ""

    @property
    def end(self) -> str:
        return f"{self.query}:{self.guard}"


def register_of(state: SinkState) -> Register:
    query, _, guard = state.end.partition(":")
    return Register(query, state.batch, guard)


def verdict(last: Register | None, batch: Register) -> Verdict:
    """
    >>> verdict(Register("q", 4), Register("q", 5)), verdict(Register("q", 4), Register("q", 4))
    (<Verdict.COMMIT: 'commit'>, <Verdict.REPLAY: 'replay'>)
    """
    if last is None:
        return Verdict.COMMIT
    if last.query != batch.query:
        return Verdict.OTHER_QUERY
    if batch.batch == last.batch + 1:
        return Verdict.COMMIT
    if batch.batch != last.batch:
        return Verdict.STALE
    # One side may not know its plan: then the numbers alone must do.
    is_same_plan = not (last.guard and batch.guard) or last.guard == batch.guard
    return Verdict.REPLAY if is_same_plan else Verdict.OTHER_PLAN


def part_of(sink: str, last: Register | None, batch: Register) -> SinkPart:
    """Return the part that PERFORM compares and sets: it begins at the register's value when we looked."""
    return SinkPart(sink, batch.batch, last.end if last is not None else "", batch.end)
