"""Flags that take a length of time: a number with a unit, or a bare number of seconds."""

from collections.abc import Sequence
from typing import Any, Final

from cyclopts import Parameter

__all__ = ["duration", "read_duration"]


def read_duration(text: str) -> float:
    """Return the seconds of a text.

    >>> read_duration("250ms"), read_duration("2min"), read_duration("30"), read_duration("2.5")
    (0.25, 120.0, 30.0, 2.5)
    """
    from penstock.plumbing.config.values import Seconds, kind_of  # `penstock --help` does not need it

    number = text.removeprefix("+")
    if number.replace(".", "", 1).isdigit():
        return float(number)
    return float(kind_of(Seconds).read(text))


def _convert(_: Any, tokens: Sequence[Any]) -> float:
    return read_duration(tokens[0].value)


def _written(value: float | None) -> str | None:
    """Return the seconds with a unit, for the default on a help page."""
    if value is None:
        return None
    for unit, seconds in _UNITS.items():
        if value % seconds == 0 and value:
            return f"{value / seconds:.0f}{unit}"
    return f"{value * 1_000:.0f}ms"


_UNITS: Final = {"min": 60, "s": 1}


def duration(help: str, *, name: str | None = None) -> Parameter:
    """Return the parameter of a flag for a length of time."""
    return Parameter(name=name, help=help, metavar="DURATION", converter=_convert, show_default=_written)
