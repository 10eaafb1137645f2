"""Labels and the selectors which match them. Design: gazette.md §1.3, whose text grammar this is.

A `LabelSet` is sorted by name and value, without doubles. A `LabelSelector` matches a set if none of its `exclude`
labels does, and for every name in `include` one of the values listed for it does. An empty value stands for any.

    a = b, c != d, e, !f, g in (x, y), h notin (x, y), i:prefix = pre/
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from penstock.journals.records.names import LABEL_SYMBOLS, PATH_SYMBOLS, check_token
from penstock.kernel.errors import InvalidArgument

__all__ = ["NAME_LABEL", "Label", "LabelSelector", "LabelSet"]

LABEL_NAME_MIN: Final = 2
LABEL_NAME_MAX: Final = 64
LABEL_VALUE_MAX: Final = 1_024
LABELS_MAX: Final = 1_000  # of one set: a bound for what crosses the wire
NAME_LABEL: Final = "name"  # a selector's name for the journal's own name
PREFIX_LABEL: Final = "prefix"  # the older way to say `name:prefix=`
SELECTOR_MAX: Final = 16_384

SINGLE_VALUED: Final = (
    "content-type",
    "app.gazette.dev/instance",
    "app.gazette.dev/managed-by",
    "app.gazette.dev/message-type",
    "app.gazette.dev/message-subtype",
    "app.gazette.dev/region",
)


class Label(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A name with a value. `is_prefix` belongs to selectors: any value which begins like this one."""

    name: str
    value: str = ""
    is_prefix: bool = False

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else self.name

    def fits(self, value: str) -> bool:
        """Return whether this label of a selector matches a value of a set."""
        return not self.value or (value.startswith(self.value) if self.is_prefix else value == self.value)


class LabelSet(msgspec.Struct, frozen=True, array_like=True):
    """Labels, sorted and without doubles: build one with `of`, which sorts and checks.

    >>> LabelSet.of(topic="orders", region="eu").values_of("topic")
    ('orders',)
    """

    labels: tuple[Label, ...] = ()

    @classmethod
    def of(cls, labels: Iterable[Label] | Mapping[str, str] = (), **named: str) -> "LabelSet":
        pairs = [Label(name, value) for name, value in labels.items()] if isinstance(labels, Mapping) else [*labels]
        pairs += [Label(name, value) for name, value in named.items()]
        made = cls(tuple(sorted(set(pairs))))
        made.validate()
        return made

    def __len__(self) -> int:
        return len(self.labels)

    def __str__(self) -> str:
        return ", ".join(map(str, self.labels))

    def values_of(self, name: str) -> tuple[str, ...]:
        start = bisect_left(self.labels, Label(name))
        found: list[str] = []
        for label in self.labels[start:]:
            if label.name != name:
                break
            found.append(label.value)
        return tuple(found)

    def value_of(self, name: str) -> str | None:
        """The first value; None if there is no such label."""
        values = self.values_of(name)
        return values[0] if values else None

    def with_value(self, name: str, value: str) -> "LabelSet":
        """This set, where the label has that value only."""
        labels = self.labels
        first = end = bisect_left(labels, Label(name))
        while end < len(labels) and labels[end].name == name:
            end += 1
        return LabelSet((*labels[:first], Label(name, value), *labels[end:]))

    def union(self, other: "LabelSet") -> "LabelSet":
        """This set with the other's labels; for a name both have, the other's values replace ours."""
        if not other.labels:
            return self
        names = {label.name for label in other.labels}
        kept = [label for label in self.labels if label.name not in names]
        return LabelSet(tuple(sorted([*kept, *other.labels])))

    def subtract(self, other: "LabelSet") -> "LabelSet":
        """This set without the names for which the other has exactly our values."""
        if not other.labels:
            return self
        gone = {label.name for label in other.labels if self.values_of(label.name) == other.values_of(label.name)}
        return LabelSet(tuple(label for label in self.labels if label.name not in gone))

    def validate(self) -> None:
        """Refuse labels that are out of order, double, too long, or have an empty value next to others."""
        if len(self.labels) > LABELS_MAX:
            raise InvalidArgument(f"{len(self.labels)} labels: at most {LABELS_MAX} are allowed")
        before: Label | None = None
        for label in self.labels:
            check_token("label name", label.name, LABEL_SYMBOLS, LABEL_NAME_MIN, LABEL_NAME_MAX)
            check_token(f"value of label {label.name!r}:", label.value, PATH_SYMBOLS, 0, LABEL_VALUE_MAX)
            if before is not None and before >= label:
                raise InvalidArgument(f"labels are not sorted and unique: {before} comes before {label}")
            if before is not None and before.name == label.name and not before.value:
                raise InvalidArgument(f"label {label.name!r} has an empty value and another one, {label.value!r}")
            before = label

    def validate_single_values(self) -> None:
        for name in SINGLE_VALUED:
            values = self.values_of(name)
            if len(values) > 1:
                raise InvalidArgument(f"label {name!r} has {len(values)} values: it may have one")


class LabelSelector(msgspec.Struct, frozen=True):
    """Which sets of labels are meant."""

    include: LabelSet = LabelSet()
    exclude: LabelSet = LabelSet()

    @property
    def is_empty(self) -> bool:
        return not self.include.labels and not self.exclude.labels

    def matches(self, labels: LabelSet, name: str | None = None) -> bool:
        """Return whether it selects this set. `name=` and `prefix=` look at `name`."""
        for label in self.exclude.labels:
            if any(label.fits(value) for value in _values(labels, label, name)):
                return False
        fits: dict[str, bool] = {}
        for label in self.include.labels:
            found = any(label.fits(value) for value in _values(labels, label, name))
            fits[label.name] = fits.get(label.name, False) or found
        return all(fits.values())

    def validate(self) -> None:
        for labels in (self.include, self.exclude):
            for label in labels.labels:
                check_token("label name", label.name, LABEL_SYMBOLS, LABEL_NAME_MIN, LABEL_NAME_MAX)
                check_token(f"value of label {label.name!r}:", label.value, PATH_SYMBOLS, 0, LABEL_VALUE_MAX)

    def __str__(self) -> str:
        """The text which `parse` reads back."""
        return ",".join([*_text(self.include, "", "=", "in"), *_text(self.exclude, "!", "!=", "notin")])

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """Read a selector's text.

        >>> selector = LabelSelector.parse("topic in (orders, returns), region != eu, name:prefix=shop/")
        >>> selector.matches(LabelSet.of(topic="orders", region="us"), name="shop/orders/1")
        True
        """
        if len(text) > SELECTOR_MAX:
            raise InvalidArgument(f"a selector of {len(text)} characters: at most {SELECTOR_MAX} are allowed")
        include: list[Label] = []
        exclude: list[Label] = []
        rest = text.strip()
        while rest:
            found = _REQUIREMENT.match(rest)
            if found is None:
                raise InvalidArgument(
                    f"selector: no label expression at {rest[:60]!r}",
                    next_step="use a=b, a!=b, a, !a, a in (x,y), a notin (x,y), separated by commas",
                )
            _take(found, include, exclude)
            rest = rest[found.end() :]
        made = cls(LabelSet(tuple(sorted(set(include)))), LabelSet(tuple(sorted(set(exclude)))))
        made.validate()
        return made


def _values(labels: LabelSet, label: Label, name: str | None) -> tuple[str, ...]:
    if label.name == NAME_LABEL and name is not None:
        return (name,)
    return labels.values_of(label.name)


_NAME = rf"(?:[^\W]|[{re.escape(LABEL_SYMBOLS)}])+"
_VALUE = rf"(?:[^\W]|[{re.escape(PATH_SYMBOLS)}])+"
_REQUIREMENT = re.compile(
    rf"\s*(?P<not>!)?\s*(?P<name>{_NAME}?)(?P<prefix>:prefix)?"
    rf"(?:\s*(?P<op>!=|==?)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<set>in|not\s?in)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\))?\s*(?:,\s*|$)"
)


def _take(found: re.Match[str], include: list[Label], exclude: list[Label]) -> None:
    name, is_prefix = found["name"], found["prefix"] is not None
    operator = found["op"] or found["set"]
    if found["not"] and operator:
        raise InvalidArgument(f"selector: {found[0].strip()!r} is negated twice, or needs '{name} != ...'")
    if is_prefix and not operator:
        raise InvalidArgument(f"selector: {found[0].strip()!r} needs a value")
    values = re.split(r"\s*,\s*", found["values"]) if found["values"] else [found["value"] or ""]
    if name == PREFIX_LABEL and found["value"]:
        name, is_prefix = NAME_LABEL, True
    is_excluded = bool(found["not"]) or (operator is not None and operator[0] in "!n")
    (exclude if is_excluded else include).extend(Label(name, value, is_prefix) for value in values)


def _text(labels: LabelSet, bang: str, equals: str, membership: str) -> list[str]:
    groups: dict[tuple[str, bool], list[str]] = {}
    for label in labels.labels:
        groups.setdefault((label.name, label.is_prefix), []).append(label.value)
    requirements: list[str] = []
    for (name, is_prefix), values in groups.items():
        shown = f"{name}:prefix" if is_prefix else name
        if values == [""]:
            requirements.append(f"{bang}{name}")
        elif len(values) == 1:
            requirements.append(f"{shown}{equals}{values[0]}")
        else:
            requirements.append(f"{shown} {membership} ({','.join(values)})")
    return requirements
