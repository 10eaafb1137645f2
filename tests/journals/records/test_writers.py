"""Registers of writers: the newest are kept, and the floor holds the numbers of the others."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.records.labels import Label, LabelSet
from penstock.journals.records.registers import (
    LOST_REGISTERS,
    NO_FLOOR,
    NO_REGISTERS,
    REGISTERS_BYTES_MAX,
    TIMES_FROM,
    WRITERS_BYTES_MAX,
    WRITERS_MAX,
    Floor,
    RegisterChange,
    Registers,
    Txn,
    floor_of,
    has_room,
    may_be_repeat,
    registers_bytes,
    trimmed,
    with_floor,
    without_others,
    writers_of,
)
from penstock.kernel.ids import Offset

SUM = b"s" * 20
TIME = TIMES_FROM + 1_000_000


def written(registers: Registers, txn: Txn, end: int) -> Registers:
    return trimmed(registers.with_txn(txn, Offset(end - 1), Offset(end), SUM), txn.register)


def names_of(registers: Registers) -> list[str]:
    return [label.name for label in writers_of(registers.labels)]


def test_ten_thousand_writers_leave_no_more_than_fit() -> None:
    registers = NO_REGISTERS.changed(RegisterChange(LabelSet.of(author="me", zone="a")))
    for number in range(1, 10_001):
        writer = f"{number:016x}"
        registers = written(registers, Txn(writer, TIME + number), number)
        assert f"txn.{writer}" in names_of(registers)
    kept = names_of(registers)
    assert WRITERS_MAX * 3 // 4 <= len(kept) <= WRITERS_MAX
    assert kept == [f"txn.{number:016x}" for number in range(10_001 - len(kept), 10_001)], "the newest"
    assert floor_of(registers) == Floor(time=TIME + 10_000 - len(kept))
    assert len(msgspec.msgpack.encode(registers)) < WRITERS_BYTES_MAX + 1_000
    assert without_others(registers).labels == LabelSet.of(author="me", zone="a")
    registers.labels.validate()


def test_writers_with_long_names_are_fewer() -> None:
    registers = NO_REGISTERS
    for number in range(1, 1_000):
        registers = written(registers, Txn(f"{number:060}", TIME + number), number)
    assert sum(len(label.name) + len(label.value) for label in writers_of(registers.labels)) <= WRITERS_BYTES_MAX
    assert len(names_of(registers)) > 300


writers = st.integers(1, 9).map(lambda number: f"w{number}")
seqs = st.one_of(st.integers(1, 50), st.integers(TIMES_FROM, TIMES_FROM + 50))


@given(st.lists(st.tuples(writers, seqs, st.sets(writers)), max_size=60))
def test_no_repeat_is_ever_taken_for_new(appends: list[tuple[str, int, set[str]]]) -> None:
    """Whatever is dropped, and when: a pair that took effect is known, or below the floor."""
    registers, done = NO_REGISTERS, set[Txn]()
    for at, (writer, seq, idle) in enumerate(appends, start=1):
        txn, record = Txn(writer, seq), registers.txn_record(Txn(writer, seq))
        is_new = not may_be_repeat(registers, txn) if record is None else record.seq < seq
        if is_new:
            assert txn not in done, "a second effect"
            done.add(txn)
            registers = registers.with_txn(txn, Offset(at), Offset(at + 1), SUM)
            registers = trimmed(registers, txn.register, lambda name, idle=idle: name[4:] in idle)  # type: ignore[misc]
            assert registers.txn_record(txn) is not None


def test_each_kind_of_number_has_its_own_floor() -> None:
    floor = NO_FLOOR.raised(7).raised(TIME).raised(3)
    assert floor == Floor(7, TIME)
    assert [floor.covers(seq) for seq in (7, 8, TIME, TIME + 1)] == [True, False, True, False]
    assert Floor.parse(str(floor)) == floor
    assert Floor.parse("by hand") == Floor.parse("") == NO_FLOOR


def test_after_a_reset_only_later_times_are_new() -> None:
    lost = with_floor(LOST_REGISTERS, Floor(time=TIME))
    assert may_be_repeat(lost, Txn("w", TIME))
    assert not may_be_repeat(lost, Txn("w", TIME + 1))
    assert may_be_repeat(lost, Txn("w", 1))
    assert may_be_repeat(LOST_REGISTERS, Txn("w", TIME)), "the time of the reset is unknown"
    after = lost.with_txn(Txn("w", TIME + 1), Offset(0), Offset(1), SUM)
    assert may_be_repeat(after, Txn("v", 1)), "they are still lost"


def test_registers_of_users_have_a_bound_on_the_result() -> None:
    part = [LabelSet.of({f"{name}{number}": "x" * 1_000 for number in range(100)}) for name in ("aa", "bb")]
    once = NO_REGISTERS.changed(RegisterChange(union=part[0]))
    assert has_room(NO_REGISTERS, RegisterChange(union=part[0]))
    assert not has_room(once, RegisterChange(union=part[1]))
    assert has_room(once, RegisterChange(union=part[0])), "it replaces what is there"
    both = once.changed(RegisterChange(union=part[1]))
    assert registers_bytes(both) > REGISTERS_BYTES_MAX
    assert has_room(both, RegisterChange(subtract=LabelSet.of(aa1="x" * 1_000))), "the way back"


@pytest.mark.parametrize("own", ["", "txn.b"])
def test_an_answer_quotes_no_other_writer(own: str) -> None:
    labels = LabelSet.of({"author": "me", "txn.a": "1", "txn.b": "2", "txz": "3"})
    quoted = without_others(with_floor(Registers(labels), Floor(1, TIME)), own).labels.labels
    assert quoted == (Label("author", "me"), *([Label("txn.b", "2")] if own else []), Label("txz", "3"))
