"""The journal's checkers: I1 to I14 of journals.md, over everything that was ever acknowledged, seen, stored or told.

They look from outside: at pictures of the brokers, at the KeySpace's own head record, at the store and at clients'
answers. They know nothing of the core's decisions, so a broken rule is seen by its effects. All state is small and can
be copied: the explorer keeps one of these in every state of its search.
"""

from collections.abc import Iterable, Mapping, Sequence

from penstock.journals.records.api import AppendResponse, Fate, Resolution, Status
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.head import EpochStart, HeadRecord, HeadTable
from penstock.journals.records.registers import Registers
from penstock.kernel.ids import NodeId, Offset
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView, Passed

__all__ = ["JournalChecks", "author_of"]


def author_of(registers: Registers) -> int | None:
    """Return the append that wrote these registers: every one leaves its number there."""
    value = registers.labels.value_of("last")
    return None if value is None else int(value)


class JournalChecks:
    """The facts of one run, and what must hold of them."""

    def __init__(self, replication: int, contents: JournalContents) -> None:
        self.replication = replication
        self.lost_after = replication  # faults that may lose content (I2), and the head (I11)
        self.contents = contents
        self.truth: dict[int, int] = {}  # offset → append: acknowledged, seen or stored (I1)
        self.told: dict[int, str] = {}  # append → its one definite answer (I12)
        self.due: dict[int, int] = {}  # append → how many faults there had been when it was known to be committed (I2)
        self.spans: dict[int, tuple[int, int, PipelineEpoch]] = {}  # append → where it was proposed
        self.proposed: dict[int, int] = {}  # append → how many faults there had been when it was proposed
        self.since: dict[PipelineEpoch, int] = {}  # epoch → how many faults there had been when it was certified
        self.stored: dict[int, int] = {}  # offset → append, in the store
        self.acked: dict[PipelineEpoch, int] = {}  # epoch → end of its acknowledged content (I7)
        self.marks: dict[PipelineEpoch, int] = {}  # epoch → the highest mark anybody had in it
        self.seen: dict[tuple[NodeId, int], int] = {}  # broker and run → its mark (I6)
        self.lengths: dict[int, int] = {}  # append → how long it is
        self.places: dict[int, int] = {}  # append → the first offset it was found at
        self.authors: dict[int, int] = {}  # append → an offset at which a certified epoch has its registers
        self.head: HeadRecord | None = None
        self.limit = 0
        self.faults = 0
        self.resets = 0
        self.end = 0  # how far content is known to be committed

    def copy(self) -> "JournalChecks":
        other = JournalChecks.__new__(JournalChecks)
        for name, value in self.__dict__.items():
            other.__dict__[name] = value.copy() if isinstance(value, dict) else value
        return other

    def key(self) -> tuple[object, ...]:
        """Return all of it, as a value that can be compared."""
        return tuple(
            tuple(sorted(value.items())) if isinstance(value, dict) else value
            for name, value in self.__dict__.items()
            if name != "contents"
        )

    # I1, I4: one content per offset

    def _is_true(self, offset: int, append: int, how: str) -> None:
        known = self.truth.setdefault(offset, append)
        assert known == append, f"I1: offset {offset} is append {known}, and {how} it is append {append}"
        assert self.told.get(append) != "aborted", f"I4: append {append} was aborted, and is {how}"
        place = self.places.setdefault(append, offset)
        is_once = abs(offset - place) < self.lengths.get(append, 1)
        assert is_once or self.resets, f"J12: append {append} is at {place} and at {offset}"  # a reset forgets records

    def shown(self, before: JournalView, view: JournalView, uploads: Sequence[Fragment]) -> None:
        """A broker's readers may see up to its mark: the content that it had, has, or has just handed over."""
        pieces = [(point.begin, point.sum) for one in (before, view) for point in one.fragments()]
        pieces += [(fragment.begin, fragment.sum) for fragment in uploads]
        for begin, sum_ in dict.fromkeys(pieces):
            content = self.contents[sum_]
            for offset in range(max(begin, before.mark), min(begin + len(content), view.mark)):
                self._is_true(offset, content[offset - begin], f"seen at {view.broker}")

    def stored_one(self, fragment: Fragment) -> None:
        """A Fragment is in the store."""
        for offset, append in enumerate(self.contents[fragment.sum], fragment.begin):
            self._is_true(offset, append, "in the store")
            self.stored[offset] = append

    # I14

    def _uploads(self, before: JournalView, passed: Passed) -> None:
        """A broker may hand over content below its epoch's mark, or below the start of the first later epoch."""
        entry = self.table.first_after(before.epoch)
        marks = [shown.mark for shown in passed.marks if shown.epoch == before.epoch]
        allowed = max(before.mark, *marks, entry.start if entry else 0)
        for fragment in passed.uploads:
            assert fragment.end <= allowed, (
                f"I14: {before.broker} uploads up to {fragment.end}, and {allowed} is allowed"
            )

    # I5, I7, I8: certifications

    @property
    def table(self) -> HeadTable:
        return self.head.table if self.head is not None else HeadTable()

    def certified(self, head: HeadRecord, views: Iterable[JournalView]) -> None:
        """The KeySpace has another head record."""
        before, self.head = self.head, head
        self.limit = max(self.limit, head.limit)
        head.check()
        if before is not None and head.epoch == before.epoch:
            return  # the limit was raised
        entry = head.table.entries[-1]
        self.since[head.epoch] = self.faults
        if before is not None:
            assert head.epoch > before.epoch, f"I8: epoch {head.epoch} is certified behind {before.epoch}"
            assert entry.start >= before.start, f"I7: {head.epoch} starts at {entry.start}, below {before.start}"
            assert not entry.is_reset or entry.start >= before.limit, "J13: a reset starts at the limit"
        for epoch, end in [*self.acked.items(), *self.marks.items()]:
            if epoch < head.epoch:
                self._check_start(epoch, end, entry)
        if entry.is_reset:
            self.resets += 1
        else:
            self._is_committed(head, views)

    def _check_start(self, epoch: PipelineEpoch, end: int, entry: EpochStart) -> None:
        assert end <= entry.start, (
            f"I7: {epoch} was acknowledged or seen up to {end}, {entry.epoch} starts at {entry.start}"
        )

    def _is_committed(self, head: HeadRecord, views: Iterable[JournalView]) -> None:
        """Note the content of participants below the start of a certified epoch, which is committed now."""
        for view in views:
            if view.epoch == head.epoch:
                for offset, append in self.contents.held(view):
                    if offset < head.start:
                        self._is_true(offset, append, "certified")
                        self._is_committed_since(append)
        self.end = max(self.end, head.start)
        author = author_of(head.registers)
        if self.faults < self.lost_after and not self.resets:
            hole = next((offset for offset in range(head.start) if offset not in self.truth), None)
            assert hole is None, f"I5: {head.epoch} starts at {head.start}, and nobody ever committed offset {hole}"
        last = self.truth.get(head.start - 1)
        if last is not None and self.resets == 0:
            assert author == last, f"I5: registers at {head.start} are of append {author}, the last there is {last}"
        if author is not None:
            self.authors[author] = head.start
            assert self.told.get(author) != "aborted", (
                f"I4: registers of a certified epoch are of aborted append {author}"
            )

    def _is_committed_since(self, append: int) -> None:
        """Note an append that a later epoch committed: its copies are the remaining ones of its own epoch."""
        span = self.spans.get(append)
        self.due.setdefault(append, self.since.get(span[2], 0) if span is not None else 0)

    # I4, I5, I10, I11, I12: answers

    def acknowledges(self, view: JournalView, epoch: PipelineEpoch) -> None:
        """A broker acknowledges a proposal of this epoch."""
        assert epoch >= view.promised, f"I10: {view.broker} acknowledges {epoch}, and has promised {view.promised}"

    def proposes(self, append: int, begin: Offset, end: Offset, epoch: PipelineEpoch) -> None:
        self.spans[append] = (begin, end, epoch)
        self.proposed[append] = self.faults

    def answered(self, append: int, response: AppendResponse, asked_at_end: int) -> None:
        """A client gets the outcome of its append. `asked_at_end`: how far the journal had come when it asked."""
        if response.status is Status.HEAD_LOST:
            assert self.faults >= self.lost_after, f"I11: the head is lost after {self.faults} faults"
        if response.registers is not None and response.end is not None:
            self._check_quote(append, response, asked_at_end)
        if response.fate is Fate.COMMITTED and response.commit is not None and response.commit.length:
            self._is_acknowledged(append, response)
        elif response.fate is Fate.ABORTED:
            self.tell(append, "aborted")

    def _is_acknowledged(self, append: int, response: AppendResponse) -> None:
        assert response.commit is not None
        entry = self.table.first_after(response.epoch)
        is_acked = entry is None or entry.is_reset  # else it may be that later epoch which says so
        self.tell(append, "committed")
        if append not in self.due:
            # A member may fail between its acknowledgement and its arrival at the primary, but not before it.
            faults = self.proposed.get(append, self.faults)
            self.due[append] = faults if is_acked else self.since.get(response.epoch, 0)
        begin, end = response.commit.begin, response.commit.end
        self.spans.setdefault(append, (begin, end, response.epoch))
        for offset in range(begin, end):
            self._is_true(offset, append, "acknowledged")
        self.end = max(self.end, end)
        if response.epoch.n:
            self.acked[response.epoch] = max(self.acked.get(response.epoch, 0), end)
            if entry is not None:
                self._check_start(response.epoch, end, entry)

    def _check_quote(self, append: int, response: AppendResponse, asked_at_end: int) -> None:
        assert response.registers is not None
        assert response.end is not None
        author = author_of(response.registers)
        if author is not None and author != append:
            is_certified = author in self.due or author in self.authors  # its bytes may have died with their holders
            assert is_certified or self.told.get(author) == "committed" or author in self.truth.values(), (
                f"I5: append {append} is told registers of append {author}, which nobody has committed"
            )
        assert response.end >= asked_at_end or self.resets, (
            f"J10: append {append} is told that the journal ends at {response.end}, when it had come to {asked_at_end}"
        )

    def tell(self, append: int, fate: str) -> None:
        known = self.told.setdefault(append, fate)
        assert known == fate, f"I12: append {append} was {known}, and is now {fate}"
        if fate == "aborted":
            assert append not in self.truth.values(), f"I4: append {append} is seen, stored or committed, and aborted"
            assert append not in self.authors, f"I4: a certified epoch has registers of append {append}, now aborted"

    def resolved(self, append: int, resolution: Resolution) -> None:
        if resolution is Resolution.COMMITTED:
            self.tell(append, "committed")
            self._is_committed_since(append)
            begin, end, _ = self.spans[append]
            for offset in range(begin, end):
                self._is_true(offset, append, "resolved as committed")
        elif resolution is Resolution.ABORTED:
            self.tell(append, "aborted")

    # I2, I3, I6, I9, I13: the whole world between two steps

    def stepped(self, before: JournalView, view: JournalView, passed: Passed) -> None:
        """Check one step of a broker."""
        self._uploads(before, passed)
        run = (view.broker, view.run)
        known = self.seen.get(run, 0)
        if view.incarnation == before.incarnation:
            assert view.mark >= known, f"I6: the mark of {view.broker} fell from {known} to {view.mark}"
            highest = max([before.mark, *(shown.mark for shown in passed.marks)])
            assert view.mark == highest, f"I6: {view.broker} has mark {view.mark}, and has shown {highest}"
        self.seen[run] = view.mark
        for shown in passed.marks:
            self._is_shown(shown.mark, shown.epoch)
        if view.mark > before.mark:
            self.shown(before, view, passed.uploads)
        assert not self.limit or view.end <= self.limit, f"I13: {view.broker} ends at {view.end}, above {self.limit}"

    def _is_shown(self, mark: Offset, epoch: PipelineEpoch) -> None:
        self.marks[epoch] = max(self.marks.get(epoch, 0), mark)
        entry = self.table.first_after(epoch)
        if entry is not None:
            self._check_start(epoch, mark, entry)

    def looked(self, view: JournalView, others: Mapping[NodeId, JournalView]) -> None:
        """I6, I9: one broker against all others which are in its epoch."""
        ends = {point.end: point for point in view.points}
        for other in others.values():
            if other.broker == view.broker or other.epoch != view.epoch or not view.epoch.n:
                continue
            for point in other.points:
                mine = ends.get(point.end)
                if mine is not None and mine.begin == point.begin:
                    assert mine.sum == point.sum, f"I9: {view.broker} and {other.broker} differ at {point.end}"
            leader = next((one for one in (view, other) if one.leads == view.epoch), None)
            if leader is not None:
                assert other.mark <= leader.mark, f"I6: {other.broker} has a mark above its primary's"
                assert view.mark <= leader.mark, f"I6: {view.broker} has a mark above its primary's"
                assert leader.mark <= min(view.end, other.end), f"I6: {leader.broker} has a mark above a member's end"

    def failed(self, views: Iterable[JournalView], uploads: Iterable[Fragment]) -> None:
        """I2, I3: a broker is gone with its content. Committed content needs another place, or enough faults."""
        held = set(self.stored.items())
        for view in views:
            held.update(self.contents.held(view))
        for fragment in uploads:
            held.update(enumerate(self.contents[fragment.sum], fragment.begin))
        for offset, append in self.truth.items():
            since = self.due.get(append)
            if since is not None and self.faults - since < self.replication:
                assert (offset, append) in held, (
                    f"I2: append {append} was committed, and after {self.faults - since} faults nobody has it"
                )
