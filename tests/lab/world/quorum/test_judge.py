"""Each rule of the judge fires: a judge that never does would call everything clean."""

import pytest

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.client.quorum import Appended
from penstock.quorum.records.answers import Fate
from penstock_lab.world.quorum.judge import judge_quorum
from penstock_lab.world.quorum.ledger import QuorumLedger, SentAppend, ShownTxn, ValueRead


@pytest.fixture
def book() -> QuorumLedger:
    """Return a ledger: transactions of key a that were committed, acknowledged and refused, then one of b."""
    ledger = QuorumLedger()
    first, second = ledger.record("a", 20), ledger.record("a", 20, is_sync=False)
    third, fourth = ledger.record("a", 20), ledger.record("b", 20)
    answered(ledger, first, 4, result=20)
    answered(ledger, second, 5, fate=Fate.ACKNOWLEDGED)
    third.fate = "refused"
    answered(ledger, fourth, 6)
    return ledger


def answered(
    ledger: QuorumLedger, sent: SentAppend, offset: int, *, fate: Fate = Fate.COMMITTED, result: int | None = None
) -> None:
    ledger.answered(sent, Appended(EntryId(Epoch(2), Offset(offset)), fate, result), offset * 10)


def value(book: QuorumLedger, *numbers: int) -> bytes:
    return b"".join(book.sent[number].record for number in numbers)


def verdict(book: QuorumLedger, a: bytes, b: bytes | None = None) -> str:
    return str(judge_quorum(book, {"a": a, "b": value(book, 3) if b is None else b}))


def shown(book: QuorumLedger, *numbers: int) -> list[ShownTxn]:
    sent = [book.sent[number] for number in numbers]
    return [ShownTxn(10 + at, "c", 1, each.key, each.record) for at, each in enumerate(sent)]


def test_what_happened_as_it_was_told_is_clean(book: QuorumLedger) -> None:
    book.reads += [ValueRead("a", b"", 0, 1), ValueRead("a", value(book, 0), 45, 46)]
    book.subscriptions += [shown(book, 0, 1, 3), shown(book, 1), []]
    assert verdict(book, value(book, 0, 1)) == "None"


def test_effects(book: QuorumLedger) -> None:
    assert verdict(book, value(book, 1)).startswith("E1: transaction 0")
    assert "was acknowledged and is lost" in verdict(book, value(book, 0))
    assert verdict(book, value(book, 0), b"").startswith("E1: transaction 3")
    assert "got the result 20" in verdict(book, value(book, 1, 0))
    assert verdict(book, value(book, 0, 1, 2)).startswith("E2: transaction 2")
    assert "took effect twice" in verdict(book, value(book, 0, 1, 0))
    assert verdict(book, value(book, 0, 1) + b"?").startswith("E3: a has bytes")
    assert "a record of b" in verdict(book, value(book, 0, 1, 3))


@pytest.mark.parametrize(
    ("read", "why"),
    [
        ((1,), "never was"),
        ((), "is older than transaction 0"),
    ],
)
def test_reads(book: QuorumLedger, read: tuple[int, ...], why: str) -> None:
    book.reads.append(ValueRead("a", value(book, *read), 45, 46))
    assert why in verdict(book, value(book, 0, 1))


def test_a_read_is_never_older_than_one_before(book: QuorumLedger) -> None:
    book.sent[0].at_ns = 100
    book.reads += [ValueRead("a", value(book, 0), 10, 20), ValueRead("a", b"", 30, 40, is_linearizable=False)]
    assert verdict(book, value(book, 0, 1)) == "None"
    book.reads.append(ValueRead("a", b"", 30, 40))
    assert "older than an earlier read" in verdict(book, value(book, 0, 1))


def test_subscriptions(book: QuorumLedger) -> None:
    whole = value(book, 0, 1)
    for numbers, why in (((0, 2), "no effect"), ((1, 0), "changed the order"), ((0, 0), "changed the order")):
        book.subscriptions[:] = [shown(book, *numbers)]
        assert why in verdict(book, whole)
    fifth = book.record("a", 20)
    book.subscriptions[:] = [shown(book, 0, fifth.number)]
    assert "left something out" in verdict(book, value(book, 0, 1, fifth.number))
