"""The declaration of a key: its type, default, documentation and limits have one place, which all else reads.

    class Log(msgspec.Struct, frozen=True):
        level: Annotated[Literal["debug", "info"], Key("The least severe event that is logged.")] = "info"

From this come the checks of a value, the environment's name, `penstock config keys` and the reference page.
"""

import typing
from typing import Any

import msgspec

from penstock.plumbing.config.values import ValueKind, kind_of

__all__ = ["Declaration", "Key", "declarations"]

ENVIRONMENT_PREFIX = "PENSTOCK_"


class Key(msgspec.Struct, frozen=True):
    """What a key means, and its limits (inclusive, in the unit of the value)."""

    doc: str
    at_least: float | None = None
    at_most: float | None = None


class Declaration(msgspec.Struct, frozen=True):
    """A key as the rest of the program sees it."""

    section: str
    key: str
    doc: str
    kind: ValueKind
    default: Any
    at_least: float | None
    at_most: float | None

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"{ENVIRONMENT_PREFIX}{self.section}_{self.key}".upper()

    @property
    def allowed(self) -> str:
        """Describe the values that a person may write: the kind, and the limits if there are any."""
        low = None if self.at_least is None else self.kind.write(self.at_least)
        high = None if self.at_most is None else self.kind.write(self.at_most)
        match low, high:
            case None, None:
                return self.kind.hint
            case _, None:
                return f"{self.kind.hint}, at least {low}"
            case None, _:
                return f"{self.kind.hint}, at most {high}"
            case _:
                return f"{self.kind.hint}, {low} to {high}"

    def read(self, raw: Any) -> Any:
        """Return the value, or raise ValueError whose message names the expected form."""
        value = self.kind.read(raw)
        if value is None:
            return None
        too_low = self.at_least is not None and value < self.at_least
        too_high = self.at_most is not None and value > self.at_most
        if too_low or too_high:
            raise ValueError(self.allowed)
        return value

    def write(self, value: Any) -> str:
        return self.kind.write(value)


def declarations(root: type[msgspec.Struct]) -> dict[str, Declaration]:
    """Every key of a tree of sections, by its dotted name, in the order of declaration."""
    found = {}
    for section, section_type in typing.get_type_hints(root).items():
        hints = typing.get_type_hints(section_type, include_extras=True)
        for field in msgspec.structs.fields(section_type):
            annotation, key = typing.get_args(hints[field.name])
            assert isinstance(key, Key), f"{section}.{field.name} has no Key(...)"
            declared = Declaration(
                section, field.encode_name, key.doc, kind_of(annotation), field.default, key.at_least, key.at_most
            )
            found[declared.name] = declared
    return found
