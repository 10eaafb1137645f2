"""The order of a chunk's messages by what commits them, compiled.

It is stable: what one message commits stays in the journal's order. A sort compares; but what commits a message is a
row of the same chunk, so it is enough to count. The answer is that of `np.argsort(..., kind="stable")`.
"""

from typing import Any

import numpy as np

from penstock.message.columns import I64
from penstock.message.compiled import compiled

__all__ = ["order_by_commit"]


def order_by_commit(commits: I64, size: int) -> I64:
    """Places in `commits` in the order of what stands there: rows of a chunk of `size`."""
    order = np.empty(len(commits), np.int64)
    _count(commits, np.zeros(size + 1, np.int64), order)
    return order


@compiled
def _count(commits: Any, places: Any, order: Any) -> None:
    """`places` has zeros, one for each row of the chunk and one more."""
    for number in range(len(commits)):
        places[commits[number] + 1] += 1
    for row in range(1, len(places)):
        places[row] += places[row - 1]
    for number in range(len(commits)):
        order[places[commits[number]]] = number
        places[commits[number]] += 1
