"""Pruning a recovery log: which of its fragments are no longer needed.

A plan is made from *all* hints by which the log may still be played back: those of the primary and every backup, of
every shard which uses the log. A fragment may go only if no segment of any of them reaches into it, and it ends before
the point from which each of them reads everything. Without hints nothing goes: who knows nothing deletes nothing. A
plan deletes nothing itself, so it can be looked at first.
"""

from collections.abc import Iterable, Sequence

import msgspec

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.kernel.ids import Offset

__all__ = ["Extent", "PruningPlan", "plan", "refuse_retention"]


class Extent(msgspec.Struct, frozen=True, order=True):
    """[begin, end) of the log, as one fragment holds it."""

    begin: Offset
    end: Offset


class PruningPlan(msgspec.Struct, frozen=True):
    """What would go, and what stays."""

    gone: tuple[Extent, ...]
    kept: tuple[Extent, ...]

    @property
    def bytes(self) -> int:
        return sum(extent.end - extent.begin for extent in self.gone)


def plan(log: str, fragments: Iterable[Extent], hints: Sequence[Hints]) -> PruningPlan:
    """Return the fragments of the log that may be deleted."""
    strange = sorted({each.log for each in hints} - {log})
    if strange:
        raise InvalidArgument(f"hints of {', '.join(strange)} say nothing about {log}")
    alive = [Extent(segment.first_offset, segment.last_offset) for each in hints for segment in each.segments()]
    horizon = min((each.end.offset for each in hints), default=Offset(0))
    gone: list[Extent] = []
    kept: list[Extent] = []
    for fragment in sorted(fragments):
        is_alive = any(fragment.begin < extent.end and extent.begin < fragment.end for extent in alive)
        (kept if is_alive or fragment.end > horizon else gone).append(fragment)
    return PruningPlan(tuple(gone), tuple(kept))


def refuse_retention(spec: JournalSpec) -> None:
    """Refuse a recovery log whose content ends by age: the files that it leads to would be lost."""
    if spec.fragment.retention_ms:
        raise ConfigError(
            f"{spec.name}: fragment.retention_ms is {spec.fragment.retention_ms}; a recovery log needs 0, for ever",
            next_step=f"penstock journals edit {spec.name}",
        )
