"""Registers: virgin, written and lost ones, changes, and the record of a transaction."""

import pytest

from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.registers import (
    LOST_REGISTERS,
    NO_REGISTERS,
    Origin,
    RegisterChange,
    Registers,
    Txn,
    TxnRecord,
)
from penstock.kernel.errors import InvalidArgument
from penstock.kernel.ids import Offset

MINE = LabelSelector.parse("author=me")
EMPTY = LabelSelector()
SET_AUTHOR = RegisterChange(union=LabelSet.of(author="me"))


def test_checks_pass_on_virgin_registers_and_fail_on_lost_ones() -> None:
    assert NO_REGISTERS.matches(MINE)
    assert not LOST_REGISTERS.matches(MINE)
    assert LOST_REGISTERS.matches(EMPTY), "who checks nothing may write"
    assert LOST_REGISTERS.changed(SET_AUTHOR).matches(MINE)


def test_registers_which_were_taken_away_again_are_not_virgin() -> None:
    """Gazette would let any check pass: a fenced writer gets in when its successor has tidied up."""
    written = NO_REGISTERS.changed(SET_AUTHOR)
    emptied = written.changed(RegisterChange(subtract=LabelSet.of(author="me")))
    assert emptied == Registers(LabelSet(), Origin.WRITTEN)
    assert not emptied.matches(MINE)


def test_an_append_without_a_change_leaves_them_as_they_are() -> None:
    assert NO_REGISTERS.changed(RegisterChange()) is NO_REGISTERS
    assert LOST_REGISTERS.changed(RegisterChange()) is LOST_REGISTERS


def test_subtract_comes_before_union() -> None:
    change = RegisterChange(union=LabelSet.of(author="you"), subtract=LabelSet.of(author="me"))
    assert NO_REGISTERS.changed(SET_AUTHOR).changed(change).labels == LabelSet.of(author="you")


def test_a_transaction_leaves_what_it_wrote() -> None:
    txn = Txn("loader-1", 7)
    txn.validate()
    registers = NO_REGISTERS.with_txn(txn, Offset(10), Offset(30), b"s" * 20)
    registers.labels.validate()
    assert registers.txn_record(txn) == TxnRecord(7, Offset(10), Offset(30), b"s" * 20)
    assert registers.txn_record(Txn("loader-2", 7)) is None
    assert TxnRecord.parse("7 by hand") is None


@pytest.mark.parametrize("txn", [Txn("", 1), Txn("x" * 61, 1), Txn("a b", 1), Txn("ok", 0), Txn("ok", 1 << 63)])
def test_bad_transactions_are_refused(txn: Txn) -> None:
    with pytest.raises(InvalidArgument):
        txn.validate()
