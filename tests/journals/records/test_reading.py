"""Reads: J16 in cases, and the cover set against a naive model."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.head import EMPTY_TABLE, EpochStart, HeadTable
from penstock.journals.records.reading import HEAD, Found, Jump, Wait, cover, find
from penstock.kernel.ids import Offset, Revision

NAME = "a/journal"
RESET = HeadTable((EpochStart(PipelineEpoch(Revision(4), 1), Offset(100), is_reset=True),))


def local(begin: int, end: int) -> Fragment:
    return Fragment(NAME, Offset(begin), Offset(end))


def stored(begin: int, end: int, mod_time: int = 0) -> Fragment:
    return Fragment(NAME, Offset(begin), Offset(end), backing_store="file:///x/", mod_time=mod_time)


def at(offset: int, *fragments: Fragment, mark: int = 0, table: HeadTable = EMPTY_TABLE) -> Found | Jump | Wait:
    return find(Offset(offset), Offset(mark), cover(fragments), table, is_refreshed=True)


def test_only_what_is_below_the_mark_is_served_from_the_spool() -> None:
    assert at(3, local(0, 10), mark=5) == Found(Offset(3), local(0, 10), Offset(5))
    assert at(5, local(0, 10), mark=5) == Wait(Offset(5))


def test_what_is_stored_is_served_whatever_the_mark_is() -> None:
    assert at(3, stored(0, 10)) == Found(Offset(3), stored(0, 10), Offset(10))


def test_a_later_fragment_in_the_store_proves_nothing_about_an_earlier_one() -> None:
    """F10: the first Fragment is still being uploaded, a later one is stored already."""
    assert at(0, stored(10, 20), mark=20) == Wait(Offset(0))


def test_a_gap_below_a_reset_is_jumped() -> None:
    assert at(20, stored(0, 10), stored(100, 110), table=RESET) == Jump(Offset(20), Offset(100))
    assert at(20, stored(0, 10), table=RESET) == Jump(Offset(20), Offset(100)), "nothing is behind it yet"
    assert at(100, stored(0, 10), table=RESET) == Wait(Offset(100))


def test_what_retention_removed_is_jumped() -> None:
    fragments = cover([stored(10, 20)])
    found = find(Offset(0), Offset(20), fragments, EMPTY_TABLE, is_refreshed=True, retained_from=Offset(10))
    assert found == Jump(Offset(0), Offset(10))


def test_a_mirror_of_foreign_content_jumps_as_gazette_does() -> None:
    fragments = cover([stored(10, 20), stored(30, 40, mod_time=1_000)])

    def at_time(offset: int, now_ms: int = 0) -> Found | Jump | Wait:
        return find(Offset(offset), Offset(0), fragments, EMPTY_TABLE, is_refreshed=True, is_mirror=True, now_ms=now_ms)

    assert at_time(0) == Jump(Offset(0), Offset(10))
    assert at_time(25, now_ms=2_000_000) == Wait(Offset(25))
    assert at_time(25, now_ms=30_000_000) == Jump(Offset(25), Offset(30))


def test_the_head_is_known_only_after_the_first_refresh() -> None:
    fragments = cover([stored(0, 10)])
    assert find(HEAD, Offset(0), fragments, EMPTY_TABLE, is_refreshed=False) == Wait(HEAD)
    assert find(HEAD, Offset(0), fragments, EMPTY_TABLE, is_refreshed=True) == Wait(Offset(10))
    assert find(HEAD, Offset(15), fragments, EMPTY_TABLE, is_refreshed=True) == Wait(Offset(15))


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=8)


@given(SPANS)
def test_the_cover_set_covers_what_its_fragments_cover(spans: list[tuple[int, int]]) -> None:
    fragments = [stored(begin, begin + length) for begin, length in spans]
    covered = cover(fragments)
    for offset in range(30):
        expected = any(fragment.covers(Offset(offset)) for fragment in fragments)
        assert any(fragment.covers(Offset(offset)) for fragment in covered) is expected
    assert covered == sorted(covered, key=lambda one: one.begin)
    for one in covered:
        for other in covered:
            assert one is other or not (one.begin <= other.begin and other.end <= one.end)
