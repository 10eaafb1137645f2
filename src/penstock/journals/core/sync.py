"""Step two of a sync: from the reports of all members, decide where the journal continues. Design: journals.md J4, J5,
J13, J15.

Participants are the members whose Spool has at least the head's epoch: they have all that was ever acknowledged, for an
acknowledged append is on *every* member of its epoch. So the smallest of their ends is enough, and the kept content has
as many copies as there are participants. Everything above was never acknowledged.

What lies between the highest mark and that end may never have been acknowledged by a whole epoch. If fewer participants
than an append needs have it, it is kept, and it is not called committed before it is in the store (312).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from penstock.journals.records.fragment import EMPTY_SUM, CompressionCodec
from penstock.journals.records.head import HeadRecord
from penstock.journals.records.messages import PromiseResponse
from penstock.journals.records.point import Point
from penstock.journals.records.registers import LOST_REGISTERS, NO_REGISTERS, Floor, trimmed, with_floor
from penstock.kernel.ids import NodeId, Offset, Revision

__all__ = ["SyncDecision", "decide", "decide_reset"]

CLOCKS_DIFFER_US: Final = 3_600 * 1_000_000  # writers take their numbers from their own clocks


class SyncDecision(msgspec.Struct, frozen=True):
    """Where all members continue: after `point`, or with a new Fragment if it is empty."""

    point: Point
    is_reset: bool = False
    sure: Offset | None = None  # above, the kept content is on fewer members than an append needs; None: on enough


def decide(
    head: HeadRecord | None,
    create_revision: Revision,
    promises: Mapping[NodeId, PromiseResponse],
    codec: CompressionCodec = CompressionCodec.NONE,
    least: int = 0,
) -> SyncDecision | None:
    """Return where the journal continues; None if no member is left that could know (HEAD_LOST).

    With `least`, an append needs that number of members.
    """
    if head is not None and head.create_revision != create_revision:
        return SyncDecision(_begun(head.limit, codec), is_reset=True)  # another life: above all the old one ever wrote
    participants = participants_of(head, promises)
    if not participants:
        return None
    at_least = min(participants, key=lambda promise: promise.points[-1].end).points[-1]
    points = [_point_at(promise, at_least.end) for promise in promises.values()]
    sure = None if head is None else _sure(head, participants, at_least.end, least)
    registers = trimmed(at_least.registers)
    if registers is at_least.registers and all(point == at_least for point in points):
        return SyncDecision(at_least, sure=sure)
    return SyncDecision(msgspec.structs.replace(at_least.rolled(codec=codec), registers=registers), sure=sure)


def _sure(head: HeadRecord, participants: Sequence[PromiseResponse], end: Offset, least: int) -> Offset | None:
    """Return up to where content was on every member of its epoch, if fewer than `least` hold the rest.

    A participant need not hold it: it may have adopted a sync that was never certified, and have begun where that did.
    """
    sure = min(end, max(head.start, *(promise.mark for promise in participants)))
    holders = sum(promise.points[0].begin <= sure for promise in participants)
    return sure if sure < end and holders < least else None


def decide_reset(start: Offset, unix_ms: int = 0, codec: CompressionCodec = CompressionCodec.NONE) -> SyncDecision:
    """Decide a reset-head. `start` is above every offset that was ever proposed (J13).

    The registers of writers are unknown. So each number that is a time up to now counts as used: appends that were on
    their way do not take effect a second time, and writers continue with later numbers.
    """
    registers = LOST_REGISTERS
    if unix_ms:
        registers = with_floor(registers, Floor(time=unix_ms * 1_000 + CLOCKS_DIFFER_US))
    return SyncDecision(Point(start, start, EMPTY_SUM, registers, codec), is_reset=True)


def participants_of(head: HeadRecord | None, promises: Mapping[NodeId, PromiseResponse]) -> list[PromiseResponse]:
    """Return the members that have everything acknowledged: all of them, if the journal is virgin."""
    return [promise for promise in promises.values() if head is None or promise.spool_epoch >= head.epoch]


def _begun(offset: Offset, codec: CompressionCodec) -> Point:
    return Point(offset, offset, EMPTY_SUM, NO_REGISTERS, codec)


def _point_at(promise: PromiseResponse, offset: Offset) -> Point | None:
    return next((point for point in reversed(promise.points) if point.end == offset), None)
