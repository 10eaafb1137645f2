"""Effects and events: frozen values, compared whole, one list of names."""

import doctest

import msgspec
import pytest

from penstock.kernel import effects
from penstock.kernel.effects import Effect, Event, Persist, Send
from penstock.kernel.ids import Lsn, NodeId


def test_effects_are_values() -> None:
    assert Send(NodeId("a"), "x") == Send(NodeId("a"), "x")
    assert Persist(Lsn(1), ("x",)) != Persist(Lsn(2), ("x",))
    with pytest.raises(AttributeError, match="immutable"):
        Send(NodeId("a"), "x").to = NodeId("b")  # type: ignore[misc]


def test_every_effect_and_event_is_exported_and_frozen() -> None:
    kinds = [*Effect.__subclasses__(), *Event.__subclasses__()]
    own = [kind for kind in kinds if kind.__module__ == effects.__name__]
    assert {kind.__name__ for kind in own} == set(effects.__all__) - {"Durable", "Effect", "Event", "in_segments"}
    for kind in own:
        assert msgspec.structs.fields(kind) is not None
        assert kind.__struct_config__.frozen, kind


def test_the_examples_hold() -> None:
    assert doctest.testmod(effects).failed == 0
