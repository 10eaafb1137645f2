"""Durable state comes back whole: `recover(save(x)) == x` over all fields, and no field is forgotten (J-26)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journals.core import spool as spool_module
from penstock.journals.core.spool import Spool, SpoolState
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.point import Point
from penstock.journals.records.registers import NO_REGISTERS, Origin, Registers, Txn, TxnRecord
from penstock.kernel.codec import Codec
from penstock.kernel.ids import Incarnation, Offset, Revision

JOURNAL = "shop/orders"
STATE = Codec[SpoolState](SpoolState)
# fields of a Spool that a restart loses on purpose
VOLATILE = {
    "journal": "it names the folder",
    "out": "effects of the step that runs",
    "is_kept": "a recovered Spool is kept",
    "start": "where this run of the process began to lead; after a reset it is the end",
    "pending": "content without a proposal is dropped",
}
OFFSETS = st.integers(0, 1 << 40).map(Offset)
EPOCHS = st.builds(PipelineEpoch, st.integers(0, 1 << 40).map(Revision), st.integers(0, 1 << 20))
TEXTS = st.text("abc", min_size=2, max_size=5)
LABELS = st.dictionaries(TEXTS, TEXTS, max_size=3).map(LabelSet.of)
REGISTERS = st.builds(Registers, LABELS, st.sampled_from(Origin))
POINTS = st.builds(
    lambda begin, size, sum_, registers, codec, postfix: Point(
        begin, Offset(begin + size), sum_, registers=registers, codec=codec, path_postfix=postfix
    ),
    OFFSETS,
    st.integers(0, 1 << 30),
    st.binary(min_size=20, max_size=20),
    REGISTERS,
    st.sampled_from(CompressionCodec),
    st.sampled_from(["", "date=2026-11-19"]),
)
STATES = st.builds(
    SpoolState,
    TEXTS.map(Incarnation),
    st.integers(0, 1 << 40).map(Revision),
    EPOCHS,
    EPOCHS,
    OFFSETS,
    st.lists(POINTS, min_size=1, max_size=4).map(tuple),
    st.none() | EPOCHS,
)


def recovered(state: SpoolState) -> Spool:
    return Spool.recover(JOURNAL, STATE.decode(STATE.encode(state)), [])


@given(STATES)
def test_a_spool_comes_back_as_it_was_saved(state: SpoolState) -> None:
    assert recovered(state).state == state


@given(STATES)
def test_each_field_of_a_spool_is_durable_or_named_as_volatile(state: SpoolState) -> None:
    spool = recovered(state)
    durable = set(SpoolState.__struct_fields__)
    assert set(vars(spool)) == durable | set(VOLATILE)
    again = recovered(spool.state)
    for field in durable:
        assert getattr(again, field) == getattr(spool, field), field


@pytest.mark.parametrize("field", SpoolState.__struct_fields__)
def test_a_forgotten_field_is_noticed(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant for each field: its argument is left out, as `reset_from` was."""
    first: dict[str, Any] = {
        "incarnation": Incarnation("other"),
        "create_revision": Revision(7),
        "epoch": PipelineEpoch(Revision(7), 1),
        "promised": PipelineEpoch(Revision(7), 1),
        "mark": Offset(7),
        "points": (Point(Offset(7), Offset(7)),),
        "reset_from": PipelineEpoch(Revision(7), 1),
    }
    empty = Spool(JOURNAL, Incarnation("i"), [], is_kept=True).state

    def forget(*values: Any) -> SpoolState:
        named = dict(zip(SpoolState.__struct_fields__, values, strict=True))
        return SpoolState(**{**named, field: getattr(empty, field)})

    state = SpoolState(**first)
    spool = recovered(state)
    monkeypatch.setattr(spool_module, "SpoolState", forget)
    assert spool.state != state


@given(TEXTS, st.integers(1, 1 << 40), OFFSETS, st.integers(0, 1 << 20), st.binary(min_size=20, max_size=20))
def test_the_register_of_a_writer_comes_back(writer: str, seq: int, begin: Offset, size: int, sum_: bytes) -> None:
    txn = Txn(writer, seq)
    registers = NO_REGISTERS.with_txn(txn, begin, Offset(begin + size), sum_)
    record = registers.txn_record(txn)
    assert record is not None
    assert TxnRecord.parse(str(record)) == record
