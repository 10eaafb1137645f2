"""State machines: deterministic, total, equal after a snapshot."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.ids import EntryId, Epoch, Offset
from penstock.quorum.core.machines.builtin import (
    MACHINES,
    AppendTo,
    CompareAndSet,
    Delete,
    Get,
    MapMachine,
    Put,
    ScanKeys,
    encode_op,
    make_machine,
)

ENTRY = EntryId(Epoch(1), Offset(1))
keys = st.sampled_from(["a", "b", "ab"])
values = st.binary(max_size=3)
ops = st.one_of(
    st.builds(Put, keys, values),
    st.builds(Delete, keys),
    st.builds(CompareAndSet, keys, st.none() | values, values),
    st.builds(AppendTo, keys, values),
)


def apply(machine: MapMachine, op: object) -> object:
    return machine.apply(ENTRY, encode_op(op))


def test_a_map_answers_what_was_there() -> None:
    machine = MapMachine()
    assert apply(machine, Put("a", b"1")) is None
    assert apply(machine, Put("a", b"2")) == b"1"
    assert apply(machine, CompareAndSet("a", b"1", b"3")) == [False, b"2"]
    assert apply(machine, CompareAndSet("a", b"2", b"3")) == [True, b"2"]
    assert apply(machine, CompareAndSet("b", None, b"x")) == [True, None]
    assert apply(machine, AppendTo("b", b"yz")) == 3
    assert machine.query(encode_op(ScanKeys())) == [("a", b"3"), ("b", b"xyz")]
    assert apply(machine, Delete("a")) == b"3"
    assert machine.query(encode_op(Get("a"))) is None


@given(st.lists(ops, max_size=20))
def test_a_map_is_a_dict_and_survives_its_snapshot(history: list[object]) -> None:
    machine, model = MapMachine(), dict[str, bytes]()
    for op in history:
        apply(machine, op)
        match op:
            case Put(key, value):
                model[key] = value
            case Delete(key):
                model.pop(key, None)
            case CompareAndSet(key, expected, value) if model.get(key) == expected:
                model[key] = value
            case AppendTo(key, value):
                model[key] = model.get(key, b"") + value
            case _:
                pass
    assert machine.query(encode_op(ScanKeys())) == sorted(model.items())
    twin = MapMachine()
    twin.restore(machine.snapshot())
    assert (twin.checksum(), twin.snapshot()) == (machine.checksum(), machine.snapshot())
    rebuilt = MapMachine()
    for key, value in sorted(model.items()):
        apply(rebuilt, Put(key, value))
    assert rebuilt.checksum() == machine.checksum(), "equal maps have equal checksums, however they came about"


@given(st.binary())
def test_any_bytes_are_a_transaction_with_a_result(data: bytes) -> None:
    for name in MACHINES:
        machine = make_machine(name)
        machine.apply(ENTRY, data)
        machine.query(data)
        machine.restore(b"")
        assert machine.checksum() == 0
