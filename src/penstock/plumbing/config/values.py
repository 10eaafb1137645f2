"""Values of configuration keys: from what a person writes to what the program uses, and back.

A kind reads text (from a flag or the environment) or a TOML value, and writes the value as a person would. What a kind
cannot read raises ValueError whose message completes the sentence "expected …". Always: read(write(value)) == value.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin

import msgspec

from penstock.plumbing.config.secret import MASK, Secret

__all__ = ["Address", "Bytes", "Names", "Seconds", "Table", "ValueKind", "kind_of"]

Seconds = NewType("Seconds", float)  # a length of time; written "250ms", "15s", "2min", "1h"
Names = NewType("Names", tuple[str, ...])  # written ["a", "b"] in a file, a,b in a flag
Table = NewType("Table", tuple[tuple[str, str], ...])  # written { a = "x" } in a file, a=x in a flag
Bytes = NewType("Bytes", int)  # a size; written "512", "64KiB", "64MiB", "1GiB"

_SECONDS_PER = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES_PER = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTES_PER |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_MEASURE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Address(msgspec.Struct, frozen=True, order=True):
    """Where to listen, or whom to reach.

    >>> str(Address.read("[::1]:7070")), Address.read("broker-a:7070")
    ('[::1]:7070', Address(host='broker-a', port=7070))
    """

    host: str
    port: int

    @classmethod
    def read(cls, text: str) -> "Address":
        host, colon, port = text.strip().rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        well_formed = host and colon and port.isascii() and port.isdigit() and int(port) <= 65535
        if not well_formed or (":" in host) != bracketed or any(c.isspace() or c in "[]/" for c in host):
            raise ValueError('host:port, like "127.0.0.1:7070" or "[::1]:7070", with a port up to 65535')
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ValueKind(msgspec.Struct, frozen=True):
    """How values of one type are read and written, and what a person may write (`hint`)."""

    hint: str
    read: Callable[[Any], Any]
    write: Callable[[Any], str] = str
    choices: tuple[str, ...] = ()
    secret: bool = False
    optional: bool = False
    quoted: bool = True  # whether TOML wants the written value in quotes


def _read_seconds(raw: Any) -> float:
    match = _MEASURE.fullmatch(raw) if isinstance(raw, str) else None
    if match is not None and match[2] in _SECONDS_PER:
        return float(match[1]) * _SECONDS_PER[match[2]]
    if raw in (0, "0"):
        return 0.0
    # A bare number would leave the reader of a file guessing between seconds and milliseconds.
    raise ValueError('a length of time with its unit (us, ms, s, min, h, d), like "250ms" or "15s"')


def _write_seconds(value: float) -> str:
    for unit in ("d", "h", "min", "s", "ms", "us"):
        count = f"{value / _SECONDS_PER[unit]:.0f}"
        if count != "0" and float(count) * _SECONDS_PER[unit] == value:
            return count + unit
    # Not a whole number of any unit: without an exponent, and exact enough to read back as the same float.
    return f"{value:.24f}".rstrip("0").rstrip(".") + "s"


def _read_bytes(raw: Any) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool) and raw >= 0:
        return raw
    match = _MEASURE.fullmatch(raw) if isinstance(raw, str) else None
    if match is not None and (match[2] or "B") in _BYTES_PER:
        size = Fraction(match[1]) * _BYTES_PER[match[2] or "B"]
        if size.denominator == 1:
            return int(size)
    raise ValueError('a whole number of bytes, bare or with a unit (KB, MB, GB, KiB, MiB, GiB), like "64MiB"')


def _write_bytes(value: int) -> str:
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if value and value % _BYTES_PER[unit] == 0:
            return f"{value // _BYTES_PER[unit]}{unit}"
    return f"{value}B"


def _read_int(raw: Any) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", raw.strip().replace("_", "")):
        return int(raw)
    raise ValueError("a whole number")


def _read_bool(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.strip().lower() in _BOOLEANS:
        return _BOOLEANS[raw.strip().lower()]
    raise ValueError("true or false")


def _read_text(raw: Any) -> str:
    if isinstance(raw, str) and "\x00" not in raw:
        return raw
    raise ValueError("text")


def _read_secret(raw: Any) -> Secret:
    text = _read_text(raw)
    if not text.startswith("file:"):
        return Secret(text)
    path = Path(text.removeprefix("file:")).expanduser()
    try:
        return Secret(path.read_text(encoding="utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ValueError(f"a secret, or file:PATH of a readable file; {path} cannot be read: {reason}") from None


def _read_address(raw: Any) -> Address:
    return Address.read(raw if isinstance(raw, str) else "")


def _read_names(raw: Any) -> tuple[str, ...]:
    parts = raw.split(",") if isinstance(raw, str) else raw
    if isinstance(parts, list | tuple) and all(isinstance(each, str) for each in parts):
        names = tuple(each.strip() for each in parts if each.strip())
        if len(set(names)) == len(names):
            return names
    raise ValueError('a list of different texts, like ["a", "b"], or a,b in a flag')


def _read_table(raw: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(raw, str):
        pairs = [each.partition("=") for each in raw.split(",") if each.strip()]
        raw = {key.strip(): value.strip() for key, equals, value in pairs if equals} if pairs else {}
        if len(raw) != len(pairs):
            raw = None
    if isinstance(raw, dict) and all(isinstance(value, str) for value in raw.values()):
        return tuple(raw.items())
    raise ValueError('a table of texts, like { a = "x", b = "y" }, or a=x,b=y in a flag')


def _one_of(choices: tuple[str, ...]) -> Callable[[Any], str]:
    def read(raw: Any) -> str:
        if isinstance(raw, str) and raw.strip().lower() in choices:
            return raw.strip().lower()
        raise ValueError("one of " + ", ".join(choices))

    return read


_KINDS: dict[Any, ValueKind] = {
    bool: ValueKind("true or false", _read_bool, lambda value: "true" if value else "false", quoted=False),
    int: ValueKind("number", _read_int, quoted=False),
    str: ValueKind("text", _read_text),
    Path: ValueKind("path", lambda raw: Path(_read_text(raw)).expanduser()),
    Seconds: ValueKind("time", _read_seconds, _write_seconds),
    Bytes: ValueKind("size", _read_bytes, _write_bytes),
    Address: ValueKind("host:port", _read_address),
    Names: ValueKind("list of texts", _read_names, ",".join, quoted=True),
    Table: ValueKind("table of texts", _read_table, lambda value: ",".join(f"{k}={v}" for k, v in value)),
    Secret: ValueKind("secret, or file:PATH", _read_secret, lambda _: MASK, secret=True),
}


def kind_of(annotation: Any) -> ValueKind:
    """The kind of a key's type. `X | None` is optional: an empty text means none.

    >>> kind_of(Seconds).read("250ms"), kind_of(Bytes).write(67108864), kind_of(Path | None).read("")
    (0.25, '64MiB', None)
    """
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return ValueKind(" | ".join(choices), _one_of(choices), choices=choices)
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (kind_of(part) for part in get_args(annotation) if part is not NoneType)
        return msgspec.structs.replace(
            inner,
            read=lambda raw: None if raw == "" else inner.read(raw),
            write=lambda value: "" if value is None else inner.write(value),
            optional=True,
        )
    return _KINDS[annotation]
