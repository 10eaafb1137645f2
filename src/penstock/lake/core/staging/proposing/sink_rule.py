"""Which batch of a sink may commit: the rule for batch numbers. Design: spark.md "Rule for batchId"; lake.md L14.

A sink's register is (query, last batch, guard of its plan, positions at its end). PERFORM compares and sets it in one
step; this rule says what to offer it. Nothing is registered: any batch may come, since a checkpoint may switch sinks
half-way. last + 1 commits, last is a replay, all else comes from a stale driver.

Batches chain (spark-2.md S6): where both sides know positions, a batch commits only if it begins where the last one
ended. So the first batch of another query may follow too, as a stream follows a backfill. Any other batch of another
query is refused until the sink is adopted.

In the state machine the register is a `SinkState`. Its `end` is `query:guard:base:positions`; its number rises by one
with every commit, whichever query comes, and `base` is that number without the query's own. The guard names the plan
of a batch, where it is known. Without it a checkpoint that was rewound by hand and planned again passes for a replay.
"""

from enum import Enum
from typing import Any

import msgspec

from penstock.lake.core.staging.branch import SinkState
from penstock.lake.core.staging.records import SinkPart

__all__ = ["BatchOffer", "Register", "SinkVerdict", "follows", "part_of", "register_of", "state_of", "verdict"]


class SinkVerdict(Enum):
    """What a batch is to its sink."""

    COMMIT = "commit"
    REPLAY = "replay"
    OTHER_QUERY = "other-query"
    OTHER_PLAN = "other-plan"
    OTHER_BEGIN = "other-begin"
    STALE = "stale"


class Register(msgspec.Struct, frozen=True):
    """What a sink has seen last."""

    query: str
    batch: int
    guard: str = ""
    ends: str = ""  # positions in the sources at its end, as `shared/offsets.py` writes them; empty: unknown
    base: int = 0

    @property
    def end(self) -> str:
        if not self.ends and not self.base:
            return f"{self.query}:{self.guard}"
        return f"{self.query}:{self.guard}:{self.base}:{self.ends}"


class BatchOffer(msgspec.Struct, frozen=True):
    """A batch that asks to be committed."""

    query: str
    batch: int
    guard: str = ""
    begins: str = ""  # positions after which it reads; empty: unknown
    ends: str = ""


def register_of(state: SinkState) -> Register:
    """Return what a state of the machine says.

    >>> register_of(SinkState(7, 'q:plan:5:[{"shop/orders":4096}]', "commit"))
    Register(query='q', batch=2, guard='plan', ends='[{"shop/orders":4096}]', base=5)
    """
    query, guard, base, ends = (*state.end.split(":", 3), "", "", "")[:4]
    shift = int(base or 0)
    return Register(query, state.batch - shift, guard, ends, shift)


def state_of(register: Register) -> tuple[int, str]:
    """Return the number and the text by which the state machine keeps a register."""
    return register.batch + register.base, register.end


def verdict(last: Register | None, batch: BatchOffer) -> SinkVerdict:
    """
    >>> verdict(Register("q", 4), BatchOffer("q", 5)), verdict(Register("q", 4), BatchOffer("q", 4))
    (<SinkVerdict.COMMIT: 'commit'>, <SinkVerdict.REPLAY: 'replay'>)
    """
    if last is None:
        return SinkVerdict.COMMIT
    is_known = bool(last.ends and batch.begins)
    if last.query != batch.query:
        is_heir = batch.batch == 0 and is_known and follows(last.ends, batch.begins)
        return SinkVerdict.COMMIT if is_heir else SinkVerdict.OTHER_QUERY
    if batch.batch == last.batch + 1:
        return SinkVerdict.COMMIT if not is_known or follows(last.ends, batch.begins) else SinkVerdict.OTHER_BEGIN
    if batch.batch != last.batch:
        return SinkVerdict.STALE
    # One side may not know its plan: then the numbers alone must do.
    is_same_plan = not (last.guard and batch.guard) or last.guard == batch.guard
    return SinkVerdict.REPLAY if is_same_plan else SinkVerdict.OTHER_PLAN


def follows(ends: str, begins: str) -> bool:
    """Return True if a batch begins where another ended. It may also read journals that the other one did not know.

    >>> follows('[{"a":7}]', '[{"a":7,"b":0}]'), follows('[{"a":7}]', '[{"a":0}]')
    (True, False)
    """
    if ends == begins:
        return True
    before, after = _positions(ends), _positions(begins)
    return (
        before is not None
        and after is not None
        and len(before) == len(after)
        and all(_continues(one, other) for one, other in zip(before, after, strict=True))
    )


def _continues(before: Any, after: Any) -> bool:
    if isinstance(before, dict) and isinstance(after, dict):
        return all(journal in after and after[journal] == at for journal, at in before.items())
    return bool(before == after)


def _positions(text: str) -> list[Any] | None:
    try:
        return msgspec.json.decode(text, type=list[Any])
    except msgspec.DecodeError:
        return None


def part_of(sink: str, last: Register | None, batch: BatchOffer) -> SinkPart:
    """Return what PERFORM compares and sets: it begins at the register that we read."""
    number = batch.batch if last is None else state_of(last)[0] + 1
    ended = Register(batch.query, batch.batch, batch.guard, batch.ends, number - batch.batch)
    return SinkPart(sink, number, last.end if last is not None else "", ended.end)
