"""Each invariant of the ledger, contradicted once: a ledger which believes everything would pass all searches."""

import pytest

from penstock.kernel.ids import EntryId, Epoch, NodeId, Offset
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.entry import Barrier, ClientId, Confirm, Entry, Rollback, Txn
from penstock.quorum.records.resolution import Resolution
from penstock_lab.explorer.facts import (
    AppendFact,
    Applies,
    CommitFact,
    Crashes,
    Exposes,
    Fact,
    Holds,
    Knows,
    Lands,
    Opens,
    Tells,
)
from penstock_lab.explorer.ledger import EMPTY, Ledger

A, B = NodeId("A"), NodeId("B")


def barrier(epoch: int = 1) -> Barrier:
    return Barrier(Epoch(epoch))


def txn(seq: int, epoch: int = 1, *, is_sync: bool = True) -> Txn:
    return Txn(Epoch(epoch), ClientId("c"), seq, b"", is_sync)


def confirm(upto: int, epoch: int = 1) -> Confirm:
    return Confirm(Epoch(epoch), Offset(upto))


def rollback(first: int, epoch: int = 1) -> Rollback:
    return Rollback(Epoch(epoch), Offset(first))


def opens(node: NodeId = A, epoch: int = 1, *log: Entry) -> Opens:
    return Opens(node, Epoch(epoch), 1, log)


def appends(first: int, *entries: Entry, node: NodeId = A, epoch: int = 1, commit: int = 0) -> AppendFact:
    return AppendFact(node, Epoch(epoch), first, entries, Offset(commit))


def commits(upto: int, node: NodeId = A, epoch: int = 1) -> CommitFact:
    return CommitFact(node, Epoch(epoch), upto, (), 0)


def tells(fate: Fate, request: int, offset: int, epoch: int = 1) -> Tells:
    return Tells(A, fate, request, Epoch(epoch), Offset(offset))


LED = (opens(), appends(1, barrier()))
WITH_TXN = (*LED, appends(2, txn(1)))
COMMITTED = (*WITH_TXN, commits(2))
ROLLED_BACK = (*WITH_TXN, appends(3, rollback(2)), commits(3))
ASYNC = (*LED, commits(1), appends(2, txn(1), txn(2, is_sync=False)), tells(Fate.ACKNOWLEDGED, 2, 3))
SECOND = (opens(B, 2, barrier()), appends(2, barrier(2), node=B, epoch=2))  # B leads 2, with nothing but A's barrier

CONTRADICTIONS: list[tuple[str, tuple[Fact, ...]]] = [
    ("I1", (*LED, appends(1, barrier()))),
    ("I1", (*WITH_TXN, Holds(B, 1, (barrier(), txn(2))))),
    ("I1", (*WITH_TXN, *SECOND, Holds(A, 1, (barrier(), txn(1), barrier(2))))),
    ("I2", (opens(A), opens(B))),
    ("I2", (opens(A), appends(1, barrier(), node=B))),
    ("I2", (appends(1, barrier()),)),
    ("I2", (*LED, Crashes(A), appends(2, txn(1)))),
    ("I2", (Holds(B, 1, (barrier(),)),)),
    ("I3", (opens(), appends(1, txn(1)))),
    ("I3", (*LED, appends(2, barrier()))),
    ("I3", (*LED, appends(2, txn(1, epoch=2)))),
    ("I4", (*LED, commits(2))),
    ("I4", (commits(1),)),
    ("I4", (opens(A, 2, barrier(), txn(1)), commits(2, epoch=2))),
    ("I5", (*COMMITTED, opens(B, 2, barrier()))),
    ("I5", (*WITH_TXN, opens(B, 2, barrier()), commits(2))),
    ("I5", (*COMMITTED, Knows(B, 2, 1, (barrier(), txn(2))))),
    ("I6", (*LED, appends(2, confirm(2)))),
    ("I6", (*LED, appends(2, confirm(1)))),
    ("I6", (*LED, commits(1), appends(2, confirm(1), commit=1), appends(3, confirm(1), commit=1))),
    ("I6", (*LED, commits(1), appends(2, confirm(1), commit=1), commits(2), appends(3, confirm(2), commit=2))),
    ("I7", (*LED, appends(2, confirm(1), commit=1))),
    ("I7", (*LED, Knows(B, 1, 1, (barrier(),)))),
    ("I8", (*LED, appends(2, rollback(1)))),
    ("I8", (*COMMITTED, appends(3, rollback(2), commit=2))),
    ("I8", (*LED, appends(2, txn(1, is_sync=False)), appends(3, rollback(2)))),
    ("I8", (*WITH_TXN, appends(3, txn(2)), appends(4, rollback(2)), appends(5, rollback(3)))),
    ("I8", (opens(A, 2, barrier(), txn(1)), appends(3, barrier(2), epoch=2), appends(4, rollback(2, 2), epoch=2))),
    ("I9", (*WITH_TXN, appends(3, rollback(2)), commits(2))),
    ("I9", (*ROLLED_BACK, Lands(A, 2))),
    ("I10", (*WITH_TXN, Applies(A, 1, (barrier(), txn(1)), ()))),
    ("I10", (*COMMITTED, Applies(A, 1, (barrier(), txn(2)), ()))),
    ("I10", (*ROLLED_BACK, Applies(A, 1, (barrier(), txn(1), rollback(2)), ()))),
    ("I10", (*COMMITTED, Applies(A, 1, (barrier(), txn(1)), (Offset(2),)))),
    ("I11", (Exposes(A, 2), Crashes(A), Exposes(A, 1))),
    ("I12", (*WITH_TXN, tells(Fate.COMMITTED, 1, 2))),
    ("I12", (*ROLLED_BACK, tells(Fate.COMMITTED, 1, 2))),
    ("I12", (*COMMITTED, tells(Fate.COMMITTED, 2, 2))),
    ("I13", (*WITH_TXN, appends(3, rollback(2)), tells(Fate.ABORTED, 1, 2))),
    ("I13", (*COMMITTED, tells(Fate.ABORTED, 1, 2))),
    ("I13", (*WITH_TXN, tells(Fate.ABORTED, 1, 0))),
    ("I13", (*LED, tells(Fate.NOT_LEADER, 1, 0), appends(2, txn(1)))),
    ("I15", (*COMMITTED, tells(Fate.COMMITTED, 1, 2), tells(Fate.COMMITTED, 1, 2))),
    ("I16", (*ASYNC, appends(4, rollback(2), commit=1))),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "facts"), CONTRADICTIONS)
def test_a_contradiction_is_noticed(invariant: str, facts: tuple[Fact, ...]) -> None:
    before = EMPTY.note(facts[:-1])
    with pytest.raises(AssertionError, match=rf"^{invariant}\b"):
        before.note(facts[-1:])


def test_what_must_be_noticed_is_noticed_at_the_last_fact_only() -> None:
    assert {invariant for invariant, _ in CONTRADICTIONS} >= {f"I{number}" for number in range(1, 14)}


def test_a_committed_log_grows_and_stays() -> None:
    ledger = EMPTY.note(COMMITTED).note([tells(Fate.COMMITTED, 1, 2), Applies(A, 1, (barrier(), txn(1)), ())])
    assert ledger.committed == (barrier(), txn(1))
    assert ledger.committed_in == (1, 1)
    later = ledger.note([opens(B, 2, barrier(), txn(1)), appends(3, barrier(2), node=B, epoch=2)])
    later = later.note([commits(3, B, 2)])
    assert later.committed == (barrier(), txn(1), barrier(2))
    assert later.committed_in == (1, 1, 2)


def test_a_leader_who_learns_late_of_its_commit_committed_first() -> None:
    second = (opens(B, 2, barrier(), txn(1)), appends(3, barrier(2), node=B, epoch=2), commits(3, B, 2))
    ledger = EMPTY.note(WITH_TXN).note(second)
    assert ledger.committed_in == (2, 2, 2)
    assert ledger.note([commits(2)]).committed_in == (1, 1, 2)


@pytest.mark.parametrize(
    ("facts", "id_", "verdict"),
    [
        (WITH_TXN, (1, 2), Resolution.PENDING),
        (COMMITTED, (1, 2), Resolution.COMMITTED),
        (ROLLED_BACK, (1, 2), Resolution.ABORTED),
        (COMMITTED, (2, 2), Resolution.ABORTED),
        ((*LED, *SECOND, commits(2, B, 2)), (1, 3), Resolution.ABORTED),
    ],
)  # fmt: skip
def test_verdicts_rest_on_the_committed_log(facts: tuple[Fact, ...], id_: tuple[int, int], verdict: Resolution) -> None:
    assert EMPTY.note(facts).verdict(EntryId(Epoch(id_[0]), Offset(id_[1]))) is verdict


def test_equal_histories_are_equal_ledgers() -> None:
    one: Ledger = EMPTY.note(COMMITTED)
    two: Ledger = EMPTY.note(COMMITTED)
    assert one == two
    assert hash(one) == hash(two)
