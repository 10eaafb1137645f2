"""Reads: what a broker may answer at an offset. Design: journals.md J9, J16; gazette.md §2.5.

Pure functions over what a broker knows: its mark, the Fragments it can serve, and where epochs were reset. A reader may
jump over an offset which nothing covers only if nothing will ever cover it: it lies below the start of a reset, or
retention removed it. That a later Fragment is the first in the index proves nothing: the earlier one may be uploading.
"""

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from penstock.journals.records.fragment import Fragment
from penstock.journals.records.head import HeadTable
from penstock.kernel.ids import Offset

__all__ = ["HEAD", "Found", "Jump", "Wait", "cover", "find"]

HEAD = Offset(-1)  # "from where the journal ends now"
START = Offset(0)
STALE_MS = 6 * 3_600_000  # on a read-only mirror of foreign content, a hole this old counts as permanent


class Found(msgspec.Struct, frozen=True):
    """Serve from this Fragment, up to `end`."""

    offset: Offset
    fragment: Fragment
    end: Offset


class Jump(msgspec.Struct, frozen=True):
    """Nothing will ever cover the offset: continue at `to`, and tell the reader."""

    offset: Offset
    to: Offset


class Wait(msgspec.Struct, frozen=True):
    """No content yet: block, or answer OFFSET_NOT_YET_AVAILABLE."""

    offset: Offset


def cover(fragments: Sequence[Fragment]) -> list[Fragment]:
    """The cover set: sorted by begin and by end, none contained in another; a larger one replaces those within it."""
    kept: list[Fragment] = []
    for fragment in sorted(fragments, key=lambda one: (one.begin, -one.end, not one.backing_store)):
        if fragment.length and (not kept or fragment.end > kept[-1].end):
            kept.append(fragment)
    return kept


def find(
    offset: Offset,
    mark: Offset,
    fragments: Sequence[Fragment],
    table: HeadTable,
    *,
    is_refreshed: bool,
    retained_from: Offset = START,
    is_mirror: bool = False,
    now_ms: int = 0,
) -> Found | Jump | Wait:
    """Return the answer at an offset. `fragments` is a cover set of local and listed Fragments.

    `retained_from`: everything below was removed by retention. `is_mirror`: the journal is a read-only view of what
    another cluster writes, so nothing but the store's own listing is known about it.
    """
    if offset == HEAD:
        if not is_refreshed:
            return Wait(offset)  # only the stores know how far a journal without brokers had come
        offset = max(mark, fragments[-1].end if fragments else Offset(0))
    index = bisect_right(fragments, offset, key=lambda one: one.begin) - 1
    if index >= 0 and fragments[index].covers(offset):
        fragment = fragments[index]
        end = fragment.end if fragment.backing_store else min(fragment.end, mark)
        return Found(offset, fragment, end) if offset < end else Wait(offset)
    following = next((one for one in fragments if one.begin > offset), None)
    if following is None:
        return _beyond(offset, table, retained_from)
    is_lost = offset < _last_reset(table) or offset < retained_from
    if is_mirror:
        is_first = following is fragments[0]
        is_lost = is_lost or is_first or now_ms - 1_000 * following.mod_time > STALE_MS
    return Jump(offset, following.begin) if is_lost else Wait(offset)


def _beyond(offset: Offset, table: HeadTable, retained_from: Offset) -> Jump | Wait:
    """Return the answer beyond all content: below a reset the journal continues at its start, else it continues
    here.
    """
    start = max(_last_reset(table), retained_from)
    return Jump(offset, start) if offset < start else Wait(offset)


def _last_reset(table: HeadTable) -> Offset:
    return max((entry.start for entry in table.entries if entry.is_reset), default=Offset(0))
