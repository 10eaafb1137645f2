"""Which messages of a chunk are delivered, in the order of what commits them; compiled.

It is stable: what one message commits stays in the journal's order. A sort compares; but what commits a message is a
row of the same chunk, so it is enough to count. The answer is that of `np.argsort(..., kind="stable")`.
"""

from typing import Any, Final

import numpy as np

from penstock.messages.columns import I64, U64
from penstock.messages.framing.compiled import IS_COMPILED, compiled, inlined
from penstock.messages.sequencing.sequence_kernels import PENDING
from penstock.messages.uuid import ACK_TXN

__all__ = ["delivered_rows"]

_ACK: Final = np.uint64(ACK_TXN)


def delivered_rows(commits: I64, flags: U64, clocks: U64, *, is_ordered: bool = True) -> I64:
    """Return the rows of a chunk that are committed and no ACKs, ordered by what commits them or by themselves."""
    if not IS_COMPILED:
        picked: I64 = np.flatnonzero((commits != PENDING) & ((flags != _ACK) | (clocks == 0)))
        return picked[np.argsort(commits[picked], kind="stable")] if is_ordered else picked
    rows = np.empty(len(commits), np.int64)
    if is_ordered:
        return rows[: _order(commits, flags, clocks, np.zeros(len(commits) + 1, np.int64), rows)]
    return rows[: _pick(commits, flags, clocks, rows)]


@inlined
def _is_delivered(commit: Any, flags: Any, clock: Any) -> Any:
    """A row without a clock is no ACK, whatever its flags are."""
    return (commit != PENDING) & ((flags != _ACK) | (clock == np.uint64(0)))


@compiled
def _pick(commits: Any, flags: Any, clocks: Any, rows: Any) -> Any:
    count = 0
    for row in range(len(commits)):
        rows[count] = row
        count += _is_delivered(commits[row], flags[row], clocks[row])
    return count


@compiled
def _order(commits: Any, flags: Any, clocks: Any, places: Any, rows: Any) -> Any:
    """`places` has zeros, one for each row of the chunk and one more: where what a row commits begins in `rows`."""
    for row in range(len(commits)):
        if _is_delivered(commits[row], flags[row], clocks[row]):
            places[commits[row] + 1] += 1
    for row in range(len(commits)):
        places[row + 1] += places[row]
    count = places[len(commits)]
    for row in range(len(commits)):
        if _is_delivered(commits[row], flags[row], clocks[row]):
            rows[places[commits[row]]] = row
            places[commits[row]] += 1
    return count
