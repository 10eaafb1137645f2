"""Whatever a record says, it has a result, and the state stays sound: no record on the queue ends a member."""

from random import Random
from typing import Any

import msgspec
import pytest
from tests.lake.core.staging.lakes import Lake

from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.areas.entry_columns import batch_of, batch_to_bytes
from penstock.lake.core.staging.checkpoint import dump, load
from penstock.lake.core.staging.machine import StagingMachine

KINDS = [type_.cls for type_ in msgspec.inspect.type_info(r.Record).types]  # type: ignore[attr-defined]
STRINGS = (*["b1"] * 5, *["r1"] * 4, "t0", "t1", "c0", "c1", "a", "b", "", "main", "dev", "\0", "\U0010ffff", "é")
INTEGERS = (-(2**63), -1, 0, 1, 1, 2, 3, 2**31, 2**62, 2**63, 2**64 - 1)
BATCHES = (b"", b"no arrow", batch_to_bytes(batch_of([("a", None)])))


class Made:
    """Random values of a type, out of few, so that they meet."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.ids = 0

    def record(self) -> r.Record:
        record: r.Record = self.value(msgspec.inspect.type_info(self.rng.choice(KINDS)))
        return r.codec.decode(r.codec.encode(record))

    def value(self, kind: msgspec.inspect.Type) -> Any:
        rng = self.rng
        match kind:
            case msgspec.inspect.StructType():
                return self._struct(kind)
            case msgspec.inspect.UnionType():
                return self.value(rng.choice(kind.types))
            case msgspec.inspect.VarTupleType():
                return tuple(self.value(kind.item_type) for _ in range(rng.randint(0, 2)))
            case msgspec.inspect.IntType():
                return rng.choice(INTEGERS)
            case msgspec.inspect.StrType():
                return rng.choice(STRINGS)
            case msgspec.inspect.BytesType():
                return rng.choice(BATCHES)
            case msgspec.inspect.BoolType():
                return rng.random() < 0.5
            case _:
                assert isinstance(kind, msgspec.inspect.NoneType), kind
                return None

    def _struct(self, kind: msgspec.inspect.StructType) -> Any:
        if kind.cls is r.Request:
            self.ids += self.rng.random() < 0.8
            return r.Request(f"request{self.ids}", self.rng.choice(INTEGERS) if self.rng.random() < 0.1 else 1)
        if kind.cls is r.Limits:
            return r.Limits()
        return kind.cls(**{field.name: self.value(field.type) for field in kind.fields if self._is_given(field)})

    def _is_given(self, field: msgspec.inspect.Field) -> bool:
        return field.required or self.rng.random() < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_every_record_has_a_result(seed: int) -> None:
    made, lake = Made(seed), Lake()
    seen: set[tuple[str, str]] = set()
    for _ in range(500):
        record = made.record()
        result = lake(record)
        seen.add((type(record).__name__, result.status.value))
    assert len(seen) > 40, "of all the ways a record can end, too few were met"
    lake.stamp = 2**64 - 1
    lake(r.Tick())
    loaded = load(dump(lake.machine), StagingMachine)
    assert loaded.state_hash() == lake.machine.state_hash()
