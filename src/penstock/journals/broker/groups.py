"""Appends that came in one message, and go through the core as one: a group. Design: performance.md C1.

A group is of whole appends that change no registers and have no transaction. Either none of them has a condition, or
they are a *chain*: all have the same check, and each has the offset where the one before ends. If the conditions of the
first hold at its turn, those of all hold, because no append can come between. If they do not, all are refused.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.journals.records.protocol import AppendPart, AppendWish, PartKind

__all__ = ["last_of_group", "wish_of"]

COMMIT: Final = PartKind.COMMIT  # under its own name: to find one in its Enum costs as much as a call


def last_of_group(parts: Sequence[AppendPart], index: int) -> int:
    """Return the end of the parts, from `index` on, that can be one append of the core."""
    first = parts[index].wish
    last = index + 1
    if first is None or not _may_be_grouped(parts[index]):
        return last
    end = None if first.offset is None else first.offset + parts[index].length
    while last < len(parts) and _follows(first, end, parts[last]):
        if end is not None:
            end += parts[last].length
        last += 1
    return last


def _follows(first: AppendWish, end: int | None, part: AppendPart) -> bool:
    """Return whether a part's conditions hold when those of the first do, and all between are appended."""
    wish = part.wish
    return (
        wish is not None
        and _may_be_grouped(part)
        and wish.offset == end
        and (wish.check is first.check or wish.check == first.check)
        and first.timeout_ms // 2 <= wish.timeout_ms <= 2 * first.timeout_ms
    )


def wish_of(parts: Sequence[AppendPart]) -> AppendWish:
    """Return the wish of a group: the conditions of its first append, and the least time-out."""
    wishes = [part.wish for part in parts if part.wish is not None]
    first, least_ms = wishes[0], min(wish.timeout_ms for wish in wishes)
    return first if first.timeout_ms == least_ms else msgspec.structs.replace(first, timeout_ms=least_ms)


def _may_be_grouped(part: AppendPart) -> bool:
    """Return whether it is a whole append that changes no registers and has no transaction."""
    wish = part.wish
    return (
        wish is not None
        and part.kind is COMMIT
        and part.length > 0
        and wish.txn is None
        and wish.change.is_empty
        and not wish.min_revision
    )
