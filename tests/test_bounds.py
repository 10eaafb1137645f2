"""Every number that crosses a door has a range in its type, and every text a length. Design: integrity.md D19.

A door is a model that a decoder fills from outside: bodies and queries of REST, stored uploads of S3, requests on
the wire, specs. The allowances are of rooms whose doors are not bounded yet: they only shrink.
"""

import importlib
import pkgutil
from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import inspect

DOORS = (
    "penstock.lake.rest.",
    "penstock.lake.records.sink_batch",
    "penstock.lake.core.refs.retention",
    "penstock.lake.s3.uploads",
    "penstock.lake.s3.store_buckets",
    "penstock.journals.records.protocol",
    "penstock.journals.records.spec",
    "penstock.quorum.records.api",
    "penstock.quorum.records.operator_calls",
    "penstock.consumers.client.definition",
    "penstock.plumbing.wire.protocol.hello",
)
ALLOWANCES = {
    "penstock.journals.records.protocol": 43,
    "penstock.journals.records.spec": 9,
    "penstock.quorum.records.api": 39,
    "penstock.quorum.records.operator_calls": 12,
    "penstock.consumers.client.definition": 9,
    "penstock.plumbing.wire.protocol.hello": 14,
}


def models() -> Iterator[type[msgspec.Struct]]:
    """Return each struct of each door."""
    import penstock

    for module in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not module.name.startswith(DOORS):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.name:
                yield value


def unbounded(kind: inspect.Type) -> bool:
    """Return whether a value of this type has no limit."""
    match kind:
        case inspect.IntType() | inspect.FloatType():
            return (kind.ge is None and kind.gt is None) or (kind.le is None and kind.lt is None)
        case inspect.StrType() | inspect.BytesType():
            return kind.max_length is None
        case inspect.UnionType():
            return any(unbounded(each) for each in kind.types)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return unbounded(kind.item_type)
        case inspect.DictType():
            return unbounded(kind.key_type) or unbounded(kind.value_type)
        case _:
            return False


def test_every_number_and_text_at_a_door_is_bounded() -> None:
    found: Counter[str] = Counter()
    fields: list[str] = []
    for model in models():
        info = inspect.type_info(model)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            if unbounded(field.type):
                found[model.__module__] += 1
                fields.append(f"{model.__module__}.{model.__name__}.{field.name}")
    over = {name: count for name, count in found.items() if count > ALLOWANCES.get(name, 0)}
    assert not over, [each for each in fields if each.startswith(tuple(over))]


def test_the_walk_sees_what_has_no_bound() -> None:
    class Loose(msgspec.Struct):
        amount: int
        half: float | None
        names: list[str]
        labels: dict[str, str]

    info = inspect.type_info(Loose)
    assert isinstance(info, inspect.StructType)
    assert all(unbounded(field.type) for field in info.fields)
