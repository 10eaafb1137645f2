"""The fragment index: which Fragments of a journal there are, here and in its stores.

Design: gazette.md §2.4, §2.5, §5.9 to §5.11; journals.md J13, J16.

The index learns the content of the stores by listing them; Fragments stored while a listing ran are remembered
separately, so that no listing makes an existing Fragment disappear. Retention and the removal of covered Fragments are
decided here, and done by the shell.

What always holds: of two Fragments with one span and different sums neither is ever removed: that is a conflict, and an
alarm. Retention removes from the front only, and never the last Fragment. A Fragment removed as covered is covered by
Fragments that stay.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from penstock.journals.records.fragment import Fragment
from penstock.journals.records.reading import cover
from penstock.kernel.ids import Offset

__all__ = ["FragmentIndex", "Gap", "minimal_cover"]

_START = Offset(0)


class Gap(msgspec.Struct, frozen=True, order=True):
    """Offsets which no Fragment covers."""

    begin: Offset
    end: Offset
    is_jumped: bool = False  # it lies below the start of a reset: readers jump over it, else they wait (J16)


class FragmentIndex:
    """Fragments of one journal."""

    def __init__(self, journal: str) -> None:
        self.journal = journal
        self.is_refreshed = False  # all stores were listed at least once
        self.retained_from = Offset(0)  # retention removed everything below
        self.begin = Offset(0)  # of this life of the journal
        self._local: dict[str, Fragment] = {}  # by content path
        self._stored: dict[tuple[str, str], Fragment] = {}  # by store and content path
        self._news: dict[tuple[str, str], tuple[int, Fragment]] = {}  # stored since the listing with that number began
        self._listings = 0
        self._cover: list[Fragment] | None = None

    # Learning

    def begin_at(self, begin: Offset) -> None:
        """This life of the journal begins there: stored Fragments below are of a former one, and readers see none."""
        if begin != self.begin:
            self.begin, self._cover = begin, None

    def add_local(self, fragment: Fragment) -> None:
        """A final Fragment which is in our Spool."""
        self._local[fragment.content_path] = fragment
        self._cover = None

    def remove_local(self, fragment: Fragment) -> None:
        self._local.pop(fragment.content_path, None)
        self._cover = None

    def add_stored(self, fragment: Fragment) -> None:
        """Add a Fragment that was just stored, by us or by another broker."""
        assert fragment.backing_store
        key = (fragment.backing_store, fragment.content_path)
        self._stored[key] = fragment
        self._news[key] = (self._listings, fragment)
        self._cover = None

    def remove_stored(self, fragments: Iterable[Fragment]) -> None:
        """They were deleted from their stores."""
        for fragment in fragments:
            key = (fragment.backing_store, fragment.content_path)
            self._stored.pop(key, None)
            self._news.pop(key, None)
        self._cover = None

    def begin_listing(self) -> int:
        """The stores are being listed now. Fragments stored from now on may be missing in the list."""
        self._listings += 1
        return self._listings

    def end_listing(self, number: int, listed: Iterable[Fragment]) -> None:
        """Take the Fragments that a listing found in the stores. An older listing that ends late says nothing new."""
        if number < self._listings:
            return
        self._stored = {(fragment.backing_store, fragment.content_path): fragment for fragment in listed}
        self._news = {key: (since, fragment) for key, (since, fragment) in self._news.items() if since >= number}
        self._stored.update((key, fragment) for key, (_, fragment) in self._news.items())
        self.is_refreshed = True
        self._cover = None

    # Asking

    @property
    def cover(self) -> list[Fragment]:
        """The cover set of all Fragments, sorted; a stored Fragment comes before a local one with the same span."""
        if self._cover is None:
            every = (*self._stored.values(), *self._local.values())
            self._cover = cover([each for each in every if each.end > self.begin])
        return self._cover

    @property
    def stored(self) -> list[Fragment]:
        """Return all stored Fragments, sorted."""
        return sorted(self._stored.values(), key=_order)

    @property
    def local_end(self) -> Offset:
        """Return the end of the final Fragments that no store has yet."""
        return max((fragment.end for fragment in self._local.values()), default=Offset(0))

    @property
    def end(self) -> Offset:
        """The end of the last Fragment."""
        return self.cover[-1].end if self.cover else Offset(0)

    def fragments(self, current: Fragment | None = None) -> Sequence[Fragment]:
        """The cover set with the Fragment which is being written, up to what may be seen of it."""
        if current is None or not current.length or current.end <= self.end:
            return self.cover
        before = list(self.cover)
        while before and before[-1].begin >= current.begin:
            before.pop()
        return [*before, current]

    def at(self, offset: Offset) -> Fragment | None:
        """Return the Fragment that covers an offset and reaches furthest."""
        found = [fragment for fragment in self._around(offset) if fragment.covers(offset)]
        return max(found, key=lambda fragment: fragment.end, default=None)

    def _around(self, offset: Offset) -> list[Fragment]:
        index = bisect_right(self.cover, offset, key=lambda fragment: fragment.begin)
        first = index
        while first > 0 and self.cover[first - 1].end > offset:  # ends rise with begins: the first that ends before it
            first -= 1
        return self.cover[first:index]

    def modified(self, begin_s: int = 0, end_s: int | None = None) -> list[Fragment]:
        """Return Fragments stored in [begin, end) by their modification time, and local ones."""
        upto = 1 << 62 if end_s is None else end_s
        return [f for f in self.cover if not f.backing_store or begin_s <= f.mod_time < upto]

    def skip_older(self, offset: Offset, begin_mod_time_s: int) -> Offset:
        """Return where a reader continues that wants nothing stored before a time."""
        for fragment in self.cover:
            if fragment.end <= offset:
                continue
            if not fragment.backing_store or fragment.mod_time >= begin_mod_time_s:
                return max(offset, fragment.begin)
        return max(offset, self.end)

    def gaps(
        self, current: Fragment | None = None, *, start: Offset | None = None, reset: Offset = _START
    ) -> list[Gap]:
        """Return the gaps that nothing covers, from `start` (or where retention ended) up to the last Fragment.

        `reset` is where the last reset-head began: a gap below it is permanent.
        """
        reached = self.retained_from if start is None else start
        found: list[Gap] = []
        for fragment in self.fragments(current):
            if fragment.begin > reached:
                found += _gaps(reached, fragment.begin, reset)
            reached = max(reached, fragment.end)
        return found

    def conflicts(self) -> list[tuple[Fragment, Fragment]]:
        """Pairs with one span and different sums: offsets which were written twice. There must be none."""
        by_span: dict[tuple[int, int], Fragment] = {}
        found: list[tuple[Fragment, Fragment]] = []
        for fragment in sorted([*self._stored.values(), *self._local.values()], key=_order):
            other = by_span.setdefault((fragment.begin, fragment.end), fragment)
            if other.sum != fragment.sum:
                found.append((other, fragment))
        return found

    # Deciding

    def stored_locals(self) -> list[Fragment]:
        """Local Fragments all of whose content is in the stores: their files may go."""
        spans = _spans(self._stored.values())
        return [fragment for fragment in self._local.values() if _is_within(fragment, spans)]

    def aged(self, now_s: int, retention_ms: int) -> list[Fragment]:
        """Return the Fragments that retention removes now: from the front, while they were stored long enough ago;
        never the last one.
        """
        if retention_ms == 0:
            return []  # for ever
        ordered = self.stored
        last_end = max((fragment.end for fragment in ordered), default=Offset(0))
        count = 0
        for fragment in ordered:
            if fragment.end == last_end or (now_s - fragment.mod_time) * 1_000 < retention_ms:
                break
            count += 1
        removed = ordered[:count]
        while any(fragment.end > self._first_kept(removed) for fragment in removed):
            first_kept = self._first_kept(removed)  # at a hole after it readers would wait for ever
            removed = [fragment for fragment in removed if fragment.end <= first_kept]
        return removed

    def retain(self, removed: Sequence[Fragment]) -> Offset:
        """Return the new beginning of the journal when these are removed. It is set before they are, so that readers
        jump.
        """
        if removed:
            self.retained_from = max(self.retained_from, self._first_kept(removed))
        return self.retained_from

    def _first_kept(self, removed: Sequence[Fragment]) -> Offset:
        gone = {(fragment.backing_store, fragment.content_path) for fragment in removed}
        stored = (fragment.begin for key, fragment in self._stored.items() if key not in gone)
        return min([*stored, *(fragment.begin for fragment in self._local.values())], default=Offset(0))

    def covered(self, now_s: int, grace_s: int) -> list[Fragment]:
        """Return stored Fragments that others cover, all stored at least `grace_s` ago: no reader still reads the old
        ones.
        """
        in_conflict = {(f.begin, f.end) for pair in self.conflicts() for f in pair}
        settled = [f for f in self.stored if now_s - f.mod_time >= grace_s]
        kept = {id(fragment) for fragment in minimal_cover(settled)}
        return [f for f in settled if id(f) not in kept and (f.begin, f.end) not in in_conflict]

    def check(self) -> None:
        """Assert every invariant."""
        for one, other in zip(self.cover, self.cover[1:], strict=False):
            assert one.begin < other.begin, (one, other)
            assert one.end < other.end, (one, other)
        assert all(fragment.backing_store for fragment in self._stored.values())
        assert not any(fragment.backing_store for fragment in self._local.values())


def minimal_cover(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return as few Fragments as can cover all that these cover: at each offset the one that reaches furthest."""
    kept: list[Fragment] = []
    ordered = [fragment for fragment in sorted(fragments, key=_order) if fragment.length]
    reached, index = -1, 0
    while index < len(ordered):
        if ordered[index].begin > reached:
            reached = ordered[index].begin  # a hole, or the front
        best: Fragment | None = None
        while index < len(ordered) and ordered[index].begin <= reached:
            if ordered[index].end > reached and (best is None or ordered[index].end > best.end):
                best = ordered[index]
            index += 1
        if best is not None:
            kept.append(best)
            reached = best.end
    return kept


def _gaps(begin: Offset, end: Offset, reset: Offset) -> list[Gap]:
    if begin < reset < end:
        return [Gap(begin, reset, is_jumped=True), Gap(reset, end)]
    return [Gap(begin, end, is_jumped=end <= reset)]


def _order(fragment: Fragment) -> tuple[int, int, str, str]:
    return fragment.begin, -fragment.end, fragment.backing_store, fragment.content_path


def _spans(fragments: Iterable[Fragment]) -> list[tuple[int, int]]:
    """Return the spans that they cover together, with holes between them."""
    spans: list[tuple[int, int]] = []
    for fragment in sorted(fragments, key=_order):
        if spans and fragment.begin <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(spans[-1][1], fragment.end))
        else:
            spans.append((fragment.begin, fragment.end))
    return spans


def _is_within(fragment: Fragment, spans: Sequence[tuple[int, int]]) -> bool:
    index = bisect_right(spans, int(fragment.begin), key=lambda span: span[0]) - 1
    return index >= 0 and fragment.end <= spans[index][1]
