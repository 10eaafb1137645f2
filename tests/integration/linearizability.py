"""Is there one order of all operations which explains every answer, and respects who ended before whom began?

A register at a time (operations on different keys are independent). The search of Wing and Gong, with Lowe's
memoisation: a set of operations already placed, together with the register's value, is never tried twice. An operation
whose outcome is unknown may take effect at any time after it began, or never.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

FOREVER = float("inf")


@dataclass(frozen=True)
class Operation:
    """One operation on a register: `put` writes `argument`, `get` answered `result`, `cas` answered whether it did."""

    kind: Literal["put", "get", "cas"]
    began: float
    ended: float  # FOREVER: the outcome is unknown
    argument: bytes | None = None
    expected: bytes | None = None
    result: object = None

    def apply(self, value: bytes | None) -> tuple[bool, bytes | None]:
        """Return whether its answer fits a register with this value, and the value after it."""
        is_unknown = self.ended == FOREVER
        match self.kind:
            case "put":
                return True, self.argument
            case "get":
                return is_unknown or self.result == value, value
            case "cas":
                does = value == self.expected
                return is_unknown or self.result == does, self.argument if does else value


def is_linearizable(operations: Iterable[Operation], initial: bytes | None = None) -> bool:
    """Return whether some order explains the history.

    First without operations of unknown outcome whose value no read returned, as if they had never taken effect: each of
    them doubles the work, and mostly that is how it was. Only if no such order is found, with all of them.
    """
    history = sorted(operations, key=lambda each: each.began)
    seen = {each.result for each in history if each.kind == "get"} | {each.expected for each in history}
    likely = [each for each in history if each.ended != FOREVER or each.argument in seen]
    return _has_order(likely, initial) or (len(likely) < len(history) and _has_order(history, initial))


def _has_order(history: list[Operation], initial: bytes | None) -> bool:
    everything = (1 << len(history)) - 1
    known = sum(1 << at for at, each in enumerate(history) if each.ended != FOREVER)
    seen: set[tuple[int, bytes | None]] = set()
    stack: list[tuple[int, bytes | None]] = [(0, initial)]
    while stack:
        placed, value = stack.pop()
        if placed & known == known:
            return True
        # Whatever is placed next must have begun before every operation still to be placed has ended.
        first_end = min(each.ended for at, each in enumerate(history) if not placed >> at & 1)
        for at, each in enumerate(history):
            if each.began > first_end:
                break
            if placed >> at & 1:
                continue
            fits, after = each.apply(value)
            state = (placed | 1 << at, after)
            if fits and state not in seen:
                seen.add(state)
                stack.append(state)
    return everything == 0
