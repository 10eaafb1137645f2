"""The index against a model which knows each offset: covers, gaps, and what may be removed without losing a byte."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.fragment import Fragment
from penstock.journals.records.fragment_index import FragmentIndex, Gap, minimal_cover
from penstock.kernel.ids import Offset

STORE = "file:///store/"


def stored(begin: int, end: int, mod_time: int = 0, *, sum_: int = 1, store: str = STORE) -> Fragment:
    return Fragment("a/journal", Offset(begin), Offset(end), bytes([sum_]) * 20, backing_store=store, mod_time=mod_time)


def local(begin: int, end: int) -> Fragment:
    return Fragment("a/journal", Offset(begin), Offset(end), b"\1" * 20)


def index_of(*fragments: Fragment) -> FragmentIndex:
    index = FragmentIndex("a/journal")
    index.end_listing(index.begin_listing(), [f for f in fragments if f.backing_store])
    for fragment in fragments:
        if not fragment.backing_store:
            index.add_local(fragment)
    index.check()
    return index


def offsets(fragments: Iterable[Fragment]) -> set[int]:
    return {offset for fragment in fragments for offset in range(fragment.begin, fragment.end)}


spans = st.tuples(st.integers(0, 30), st.integers(1, 12)).map(lambda span: (span[0], span[0] + span[1]))
some_stored = st.lists(st.tuples(spans, st.integers(0, 50)), max_size=12).map(
    lambda each: [stored(*span, mod_time) for span, mod_time in each]
)
some_local = st.lists(spans, max_size=4).map(lambda each: [local(*span) for span in each])


@given(some_stored, some_local, st.integers(0, 45))
def test_an_offset_is_found_where_something_covers_it(
    remote: list[Fragment], here: list[Fragment], offset: int
) -> None:
    index = index_of(*remote, *here)
    found = index.at(Offset(offset))
    covering = [f for f in [*remote, *here] if f.covers(Offset(offset))]
    assert (None if found is None else found.end) == max((f.end for f in covering), default=None)
    assert offsets(index.cover) == offsets([*remote, *here])
    assert index.end == max(offsets([*remote, *here]), default=-1) + 1


@given(some_stored, some_local)
def test_gaps_are_what_nothing_covers(remote: list[Fragment], here: list[Fragment]) -> None:
    index = index_of(*remote, *here)
    missing = {offset for gap in index.gaps() for offset in range(gap.begin, gap.end)}
    assert missing == set(range(index.end)) - offsets([*remote, *here])
    assert index.gaps() == sorted(index.gaps())


@given(some_stored)
def test_removing_what_is_covered_loses_no_offset(remote: list[Fragment]) -> None:
    index = index_of(*remote)
    removed = index.covered(now_s=100, grace_s=0)
    index.remove_stored(removed)
    assert offsets(index.stored) == offsets(remote)
    assert index.covered(now_s=100, grace_s=0) == []


@given(some_stored)
def test_a_minimal_cover_has_none_that_could_go(remote: list[Fragment]) -> None:
    kept = minimal_cover(remote)
    assert offsets(kept) == offsets(remote)
    for fragment in kept:
        assert offsets(f for f in kept if f is not fragment) != offsets(remote)


@given(some_stored, some_local, st.integers(0, 60), st.integers(1, 60))
def test_retention_removes_from_the_front_and_what_is_old_and_never_the_end(
    remote: list[Fragment], here: list[Fragment], now_s: int, retention_s: int
) -> None:
    index = index_of(*remote, *here)
    removed = index.aged(now_s, 1_000 * retention_s)
    assert all(now_s - fragment.mod_time >= retention_s for fragment in removed)
    end = index.end
    retained = index.retain(removed)
    index.remove_stored(removed)
    assert index.end == end
    assert offsets(removed) <= set(range(retained)), "readers jump over what is gone,"
    assert not offsets([*index.stored, *here]) & set(range(retained)), "and over nothing else"


def test_nothing_is_aged_without_retention() -> None:
    assert index_of(stored(0, 5), stored(5, 9)).aged(10**9, 0) == []


def test_what_was_stored_late_stops_retention_in_front_of_it() -> None:
    index = index_of(stored(0, 5, 0), stored(5, 9, 100), stored(9, 12, 0), stored(12, 14, 0))
    assert index.aged(60, 50_000) == [stored(0, 5, 0)]


def test_covered_fragments_stay_for_a_while() -> None:
    index = index_of(stored(0, 5, 10), stored(0, 9, 80))
    assert index.covered(now_s=100, grace_s=30) == []
    assert index.covered(now_s=120, grace_s=30) == [stored(0, 5, 10)]


def test_one_span_with_two_sums_is_an_alarm_and_neither_is_removed() -> None:
    one, other = stored(0, 5, sum_=1), stored(0, 5, sum_=2)
    index = index_of(one, other, stored(0, 9))
    assert index.conflicts() == [(one, other)]
    assert index.covered(now_s=100, grace_s=0) == []


def test_the_same_content_in_two_stores_is_no_conflict_and_one_of_them_may_go() -> None:
    index = index_of(stored(0, 5), stored(0, 5, store="s3://other/"))
    assert index.conflicts() == []
    assert index.covered(now_s=100, grace_s=0) == [stored(0, 5, store="s3://other/")]


def test_what_is_stored_while_a_listing_runs_is_not_lost() -> None:
    index = FragmentIndex("a/journal")
    index.add_stored(stored(0, 5))
    number = index.begin_listing()
    index.add_stored(stored(5, 9))
    index.end_listing(number, [stored(0, 5)])
    assert index.stored == [stored(0, 5), stored(5, 9)]
    index.end_listing(index.begin_listing(), [stored(0, 5)])
    assert index.stored == [stored(0, 5)], "the next one began after it was stored"


def test_a_listing_which_ends_after_a_later_one_began_says_nothing() -> None:
    index = FragmentIndex("a/journal")
    first, second = index.begin_listing(), index.begin_listing()
    index.end_listing(second, [stored(0, 9)])
    index.end_listing(first, [])
    assert index.stored == [stored(0, 9)]


def test_the_first_listing_is_waited_for() -> None:
    index = FragmentIndex("a/journal")
    assert not index.is_refreshed
    index.end_listing(index.begin_listing(), [])
    assert index.is_refreshed


def test_local_files_may_go_when_stored_fragments_cover_them_together() -> None:
    index = index_of(stored(0, 5), stored(5, 9), local(2, 8), local(8, 12))
    assert index.stored_locals() == [local(2, 8)]


def test_the_current_fragment_stands_behind_the_others() -> None:
    index = index_of(stored(0, 5), local(5, 9))
    assert list(index.fragments(local(9, 11))) == [stored(0, 5), local(5, 9), local(9, 11)]
    assert list(index.fragments(local(9, 9))) == [stored(0, 5), local(5, 9)]
    assert list(index.fragments(local(5, 11))) == [stored(0, 5), local(5, 11)]
    many = index_of(*(stored(at, at + 1) for at in range(20)))
    assert list(many.fragments(local(20, 25)))[-2:] == [stored(19, 20), local(20, 25)]
    assert len(many.fragments(local(20, 25))) == 21


def test_readers_skip_what_was_stored_before_a_time() -> None:
    index = index_of(stored(0, 5, 10), stored(5, 9, 20), stored(12, 15, 30), local(15, 16))
    assert [index.skip_older(Offset(0), since) for since in (0, 15, 25, 99)] == [0, 5, 12, 15]
    assert index.skip_older(Offset(7), 15) == 7
    assert [f.begin for f in index.modified(10, 30)] == [0, 5, 15]
    assert [f.begin for f in index.modified(21)] == [12, 15]


def test_gaps_below_what_retention_left_are_none() -> None:
    index = index_of(stored(5, 9), stored(12, 15))
    assert index.gaps() == [Gap(Offset(0), Offset(5)), Gap(Offset(9), Offset(12))]
    index.retained_from = Offset(5)
    assert index.gaps() == [Gap(Offset(9), Offset(12))]


def test_a_gap_below_a_reset_is_one_which_stays() -> None:
    index = index_of(stored(0, 5), stored(20, 25))
    assert index.gaps(reset=Offset(20)) == [Gap(Offset(5), Offset(20), is_jumped=True)]
    assert index.gaps(reset=Offset(12)) == [
        Gap(Offset(5), Offset(12), is_jumped=True),
        Gap(Offset(12), Offset(20)),
    ]
    assert index.gaps(local(30, 31)) == [Gap(Offset(5), Offset(20)), Gap(Offset(25), Offset(30))]
