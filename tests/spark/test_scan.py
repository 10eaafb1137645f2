"""States which are made again: however the journal came in chunks, they are those of a plain reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.messages.histories import WILD, Line, Reading, journal_of, orderly, tame

from penstock.kernel.ids import Offset
from penstock.messages.columns import Chunk, Columns
from penstock.messages.read_state import ReadState
from penstock.messages.reader import OnBad
from penstock.messages.row_decoder import RawRows
from penstock.spark.journals.ranges import Scan
from penstock.spark.shared.states import HORIZON

HISTORIES = st.one_of(orderly(), tame(), WILD)


def scanned(journal: bytes, chunk: int, on_bad: OnBad, front_bytes: int) -> Scan:
    scan = Scan(RawRows(), ReadState(), on_bad, front_bytes=front_bytes)
    for at in range(0, len(journal), chunk):
        scan.feed(at, journal[at : at + chunk])
        assert scan.fed_upto == min(at + chunk, len(journal))
    return scan


@given(HISTORIES, st.integers(20, 4000), st.sampled_from([1, 16, 100, 1 << 16]), st.integers(0, 20))
def test_any_chunks_give_the_state_of_a_plain_reader(
    history: list[Line], chunk: int, front_bytes: int, cut: int
) -> None:
    journal = journal_of(history)
    journal = journal[: max(0, len(journal) - cut)]
    plain = Reading(journal, HORIZON, 8, 1000).run()
    assert scanned(journal, chunk, OnBad.FAIL, front_bytes).state() == plain.state


@pytest.mark.parametrize("front_bytes", [1, 16, 1 << 16])
@given(before=tame(), behind=orderly(), chunk=st.integers(20, 2000))
def test_nothing_is_sequenced_behind_what_is_bad_unless_it_is_skipped(
    front_bytes: int, before: list[Line], behind: list[Line], chunk: int
) -> None:
    good, more = journal_of(before), journal_of([Line(line.producer + 3, line.clock, line.flags) for line in behind])
    journal = good + b"rubbish which is no frame" + more
    assert scanned(journal, chunk, OnBad.FAIL, front_bytes).state() == scanned(good, 1000, OnBad.FAIL, 1000).state()
    skipping = Scan(RawRows(), ReadState(), OnBad.SKIP)
    skipping.feed(0, journal)
    assert scanned(journal, chunk, OnBad.SKIP, front_bytes).state() == skipping.state()


def test_a_frame_which_a_gap_cuts_off_is_forgotten() -> None:
    frame = Line(0, 5, 1).frame(0)
    scan = Scan(RawRows(), ReadState(), OnBad.FAIL)
    scan.feed(0, frame + frame[:10])
    scan.feed(1000, Line(1, 7, 1).frame(0))
    assert [(each.producer, each.begin) for each in scan.state().producers] == [(1, 0), (2, 1000)]
    assert scan.state().offset == Offset(1000 + len(frame))


def test_what_is_behind_a_bad_message_is_not_looked_at() -> None:
    class Counting(RawRows):
        looked_at = 0

        def columns(self, data: Chunk) -> Columns:
            self.looked_at += len(data)
            return super().columns(data)

    decoder = Counting()
    scan = Scan(decoder, ReadState(), OnBad.FAIL)
    for number in range(100):
        scan.feed(25 * number, b"rubbish which is no frame")
    assert decoder.looked_at <= 100
    assert (scan.fed_upto, scan.state().offset) == (2500, 0)
