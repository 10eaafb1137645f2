from typing import Annotated

import msgspec
import pytest

from penstock.plumbing.config import Bytes, Declaration, Key, Seconds
from penstock.plumbing.config.declare import declarations


class Pump(msgspec.Struct, frozen=True):
    """Moves water."""

    rest: Annotated[Seconds, Key("How long it rests.", 0.5, 60)] = Seconds(2)
    tank_bytes: Annotated[Bytes, Key("How much it holds.", at_least=1024)] = Bytes(4096)
    blades: Annotated[int, Key("How many.", at_most=9)] = 3
    name: Annotated[str, Key("What it is called.")] = ""


class Works(msgspec.Struct, frozen=True):
    """All of it."""

    pump: Pump = Pump()


@pytest.fixture
def declared() -> dict[str, Declaration]:
    return declarations(Works)


def test_a_declaration_gives_the_key_its_names(declared: dict[str, Declaration]) -> None:
    assert list(declared) == ["pump.rest", "pump.tank_bytes", "pump.blades", "pump.name"]
    assert declared["pump.tank_bytes"].variable == "PENSTOCK_PUMP_TANK_BYTES"


def test_what_is_allowed_is_said_with_units(declared: dict[str, Declaration]) -> None:
    assert [one.allowed for one in declared.values()] == [
        "time, 500ms to 1min",
        "size, at least 1KiB",
        "number, at most 9",
        "text",
    ]


@pytest.mark.parametrize(
    ("name", "good", "bad"), [("rest", "500ms", "499ms"), ("rest", "1min", "61s"), ("blades", "9", "10")]
)
def test_limits_are_inclusive(declared: dict[str, Declaration], name: str, good: str, bad: str) -> None:
    one = declared[f"pump.{name}"]
    one.read(good)
    with pytest.raises(ValueError, match=r"500ms to 1min|at most 9"):
        one.read(bad)
