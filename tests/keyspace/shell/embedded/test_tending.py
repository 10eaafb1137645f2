"""When a lease is due, and how far history may go: by a clock the test moves."""

from hypothesis import given
from hypothesis import strategies as st
from tests.keyspace.shell.embedded.harness import HandClock

from penstock.kernel.ids import MILLISECOND, Revision
from penstock.keyspace.core.records import KeySpaceStatus, LeaseId
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.queries import LeaseRow
from penstock.keyspace.shell.embedded.tending import DueLeases, KeyHistory


def row(clock: HandClock, ttl_ms: int = 1_000) -> LeaseRow:
    return LeaseRow(LeaseId(1), ttl_ms, clock.id, clock.now_ns() + ttl_ms * MILLISECOND)


def status(revision: int, compacted: int = 0) -> KeySpaceStatus:
    return KeySpaceStatus("test", Revision(revision), Revision(compacted))


def test_a_lease_of_our_clock_is_due_at_its_deadline() -> None:
    clock = HandClock()
    due = DueLeases(clock)
    lease = row(clock)
    clock.move(999)
    assert due.find([lease]) == []
    clock.move(1)
    assert due.find([lease]) == [lease]


@given(st.integers(0, 10**18), st.lists(st.integers(1, 900), max_size=10))
def test_a_lease_of_another_clock_is_due_when_seen_unchanged_for_its_time(start_ns: int, looks: list[int]) -> None:
    """Whatever that clock showed, and however often we look."""
    clock = HandClock("here")
    due = DueLeases(clock)
    lease = row(HandClock("there", start_ns))
    first_seen_ns = clock.now_ns()
    for ms in [0, *looks]:
        clock.move(ms)
        is_due = clock.now_ns() - first_seen_ns >= 1_000 * MILLISECOND
        assert due.find([lease]) == ([lease] if is_due else [])


def test_a_renewal_under_another_clock_begins_the_time_anew() -> None:
    clock, there = HandClock("here"), HandClock("there")
    due = DueLeases(clock)
    for _ in range(5):
        lease = row(there)
        assert due.find([lease]) == []
        clock.move(900)
        assert due.find([lease]) == []
        there.move(1)


def test_a_lease_which_was_away_is_seen_anew() -> None:
    clock = HandClock("here")
    due = DueLeases(clock)
    lease = row(HandClock("there"))
    due.find([lease])
    due.find([])
    clock.move(1_000)
    assert due.find([lease]) == []


def test_history_goes_by_number_in_large_steps() -> None:
    history = KeyHistory(EmbeddedOptions(history_revisions_max=100), HandClock())
    assert history.cut(status(200), 0) is None
    assert history.cut(status(201), 0) == 101
    assert history.cut(status(201, compacted=101), 0) is None


def test_history_goes_by_age() -> None:
    clock = HandClock()
    history = KeyHistory(EmbeddedOptions(history_ms_max=1_600), clock)
    for revision in range(1, 17):  # a hundred milliseconds apart
        assert history.cut(status(revision), 0) is None
        clock.move(100)
    assert history.cut(status(17), 0) == 1
    clock.move(350)
    assert history.cut(status(18, compacted=1), 0) == 4
    assert history.cut(status(18, compacted=4), 0) is None


def test_an_old_mark_is_no_reason_to_compact_what_is_compacted() -> None:
    clock = HandClock()
    history = KeyHistory(EmbeddedOptions(history_ms_max=1_000), clock)
    assert history.cut(status(5), 0) is None
    clock.move(1_000)
    assert history.cut(status(9, compacted=7), 0) is None


def test_history_goes_when_the_file_is_large() -> None:
    history = KeyHistory(EmbeddedOptions(history_bytes_max=1_000), HandClock())
    assert history.cut(status(9), 1_000) is None
    assert history.cut(status(9), 1_001) == 9
    assert history.cut(status(9, compacted=9), 1_001) is None
