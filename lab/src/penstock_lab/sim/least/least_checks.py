"""The journal's checkers where `least` members are enough: I2, I11 and J12 as decision 312 has them.

Faults are not counted here: what matters is who had the content, and whose Spool is gone. Content that was called
committed is in the store, or at a broker, for as long as one of those that had it then was not wiped.
"""

from collections.abc import Iterable

from penstock.journals.records.api import AppendResponse, Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.head import HeadRecord
from penstock.kernel.ids import Incarnation, NodeId
from penstock_lab.sim.checkers.journal import JournalChecks
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView, Passed

__all__ = ["LeastChecks"]

Holder = tuple[NodeId, Incarnation]


class LeastChecks(JournalChecks):
    """The facts of one run, and who has which append."""

    def __init__(self, replication: int, least: int, contents: JournalContents) -> None:
        super().__init__(replication, contents)
        self.lost_after = 0  # I11 is judged by members, at the end
        self.least = least
        self.has: dict[Holder, frozenset[int]] = {}  # the appends in a broker's Spool, or handed over by it
        self.handed: dict[Holder, frozenset[int]] = {}
        self.held_by: dict[int, tuple[Holder, ...]] = {}  # append → who had it when it was committed

    def stepped(self, before: JournalView, view: JournalView, passed: Passed) -> None:
        super().stepped(before, view, passed)
        holder = view.broker, view.incarnation
        if view.points == before.points and not passed.uploads and holder in self.has:
            return
        handed = {append for fragment in passed.uploads for append in self.contents[fragment.sum]}
        self.handed[holder] = self.handed.get(holder, frozenset()) | handed
        had = self.has.get(holder, frozenset())
        self.has[holder] = self.handed[holder] | {append for _, append in self.contents.held(view)}
        if had - self.has[holder]:
            self._check_kept(f"{view.broker} has dropped it")

    def wiped(self, broker: NodeId, incarnation: Incarnation) -> None:
        """A Spool is gone."""
        if self.has.pop((broker, incarnation), None):
            self._check_kept(f"{broker} was wiped")

    def failed(self, views: Iterable[JournalView], uploads: Iterable[Fragment]) -> None:
        self._check_kept("in the end")

    def _check_kept(self, why: str) -> None:
        """I2: content is lost only with every Spool that had it when it was committed."""
        for append, holders in self.held_by.items():
            if any(append in appends for appends in self.has.values()) or append in self.stored.values():
                continue
            left = [holder for holder in holders if holder in self.has]
            assert not left, f"I2: append {append} was committed, {left} were not wiped, and no broker has it: {why}"

    def certified(self, head: HeadRecord, views: Iterable[JournalView]) -> None:
        before = self.head
        super().certified(head, views)
        if before is not None and before.epoch == head.epoch:
            return
        is_first = before is None or before.create_revision != head.create_revision
        needed = self.replication if is_first or head.table.entries[-1].is_reset else self.least
        assert len(head.members) >= needed, f"J6: {head.epoch} has {len(head.members)} members, and needs {needed}"

    def passed_over(self, head: HeadRecord | None, rest: Iterable[PipelineEpoch]) -> None:
        """A member was taken out of the Route, and members with Spools of these epochs remain."""
        takes_part = head is None or any(epoch >= head.epoch for epoch in rest)
        assert takes_part, "J14: after a pass-over no member has what the last epoch acknowledged"

    def is_wiped(self, head: HeadRecord) -> bool:
        """Return whether no Spool of the head's members is left: the head is lost for good (I11)."""
        return not any((member.broker, member.incarnation) in self.has for member in head.members)

    def _holders(self, append: int) -> tuple[Holder, ...]:
        return tuple(sorted(holder for holder, appends in self.has.items() if append in appends))

    def _is_committed_since(self, append: int) -> None:
        super()._is_committed_since(append)
        self.held_by.setdefault(append, self._holders(append))

    def _is_acknowledged(self, append: int, response: AppendResponse) -> None:
        super()._is_acknowledged(append, response)
        self._check_told(append)
        self.held_by.setdefault(append, self._holders(append))

    def resolved(self, append: int, resolution: Resolution) -> None:
        if resolution is Resolution.COMMITTED:
            self._check_told(append)
        super().resolved(append, resolution)

    def _check_told(self, append: int) -> None:
        """J12: committed is what a whole epoch has acknowledged, or what enough brokers have, or the store."""
        _, end, epoch = self.spans[append]
        if self.marks.get(epoch, 0) >= end or append in self.stored.values():
            return
        had = self._holders(append)
        assert len(had) >= self.least, f"J12: append {append} is called committed, and only {had} have it"
