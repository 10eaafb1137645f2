"""The book: one payload per id, one committed log, one fold."""

import pytest
from tests.lab.sim.checkers.scene import barrier, entry_id, txn

from penstock.kernel.ids import Epoch, NodeId, Offset
from penstock.quorum.records.entry import Confirm, Entry, Rollback
from penstock_lab.sim.checkers.book import Book
from penstock_lab.sim.checkers.shadow_log import ShadowLog

A, B = (NodeId("a"), 1), (NodeId("b"), 1)


def log_of(*entries: Entry) -> ShadowLog:
    return ShadowLog(entries=entries)


def test_an_id_has_one_payload_and_one_predecessor() -> None:
    book = Book()
    assert book.write(A, 2, txn(1, 1), 1)
    assert not book.write(B, 2, txn(1, 1), 1), "B copies what A wrote"
    with pytest.raises(AssertionError, match="I1"):
        book.write(B, 2, txn(1, 9), 1)
    with pytest.raises(AssertionError, match="two predecessors"):
        book.write(B, 2, txn(1, 1), 0)


def test_an_epoch_has_one_author_in_one_run() -> None:
    book = Book()
    book.write(A, 1, barrier(1), 0)
    with pytest.raises(AssertionError, match="I2"):
        book.write((NodeId("a"), 2), 2, txn(1, 1), 1)


def test_what_is_committed_is_one_log() -> None:
    book = Book()
    assert book.claim("a", log_of(barrier(1), txn(1, 1)), 2)
    assert not book.claim("b", log_of(barrier(1), txn(1, 1), txn(1, 2)), 2)
    with pytest.raises(AssertionError, match="I5"):
        book.claim("c", log_of(barrier(1), barrier(2)), 2)
    with pytest.raises(AssertionError, match="I5"):
        book.claim("c", log_of(barrier(1), barrier(2), txn(2, 1)), 3)


def test_nobody_stops_inside_a_doomed_range() -> None:
    log = log_of(barrier(1), txn(1, 1), txn(1, 2), Rollback(Epoch(1), Offset(2)), txn(1, 3))
    book = Book()
    book.claim("a", log, 4)
    with pytest.raises(AssertionError, match=r"I9.*inside the doomed \[2, 4\)"):
        book.claim("b", log, 3)
    early = Book()
    early.claim("b", log, 2)
    with pytest.raises(AssertionError, match=r"I9.*somebody stopped"):
        early.claim("a", log, 4)


def test_the_fold_leaves_out_what_is_doomed_or_seen_before() -> None:
    doomed = txn(1, 1)
    log = log_of(
        barrier(1), doomed, Rollback(Epoch(1), Offset(2)), txn(1, 2), doomed, txn(1, 2), Confirm(Epoch(1), Offset(4))
    )
    book = Book()
    book.claim("a", log, 7)
    assert book.lists == {b"k": [(4, b"c.2")]}
    assert book.retired == {("c", 1): 2}, "a rolled-back pair never takes effect, not even later"
    assert (book.list_at(b"k", 3), book.list_at(b"k", 4)) == ((), (b"c.2",))
    assert book.state_at(7) == {b"k": [b"c.2"]}


def test_verdicts_rest_on_committed_entries() -> None:
    log = log_of(barrier(1), txn(1, 1), Rollback(Epoch(1), Offset(2)), barrier(3), txn(3, 2))
    book = Book()
    book.claim("a", log, 4)
    verdicts = {
        entry_id(1, 2): "aborted",  # rolled back
        entry_id(2, 4): "aborted",  # another id is at that place
        entry_id(2, 9): "aborted",  # a higher epoch began before
        entry_id(3, 4): "committed",
        entry_id(3, 5): "pending",
        entry_id(4, 5): "pending",
    }
    assert {each: book.verdict(each) for each in verdicts} == verdicts
