"""Machines as values: a copy which shares nothing that changes, and a key which compares.

Frozen values are shared. What belongs to the design's own classes is copied attribute by attribute, each object once.
"""

from collections import deque
from enum import Enum
from typing import Any

import msgspec

from penstock.journals.records.route import Topology

__all__ = ["cloned", "key_of"]

_OURS = ("penstock.journals", "penstock.kernel.retrying", "penstock.kernel.deadlines", "penstock_lab")
# the same in every copy, or of no consequence where no time passes
_SKIPPED = frozenset(
    ("out", "now", "waits_for", "config", "me", "journal", "_deadlines", "contents", "timers", "cached_key")
)
_SHARED = frozenset(("contents", "config"))
_ATOM, _LIST, _DICT, _TUPLE, _OBJECT = range(5)
_shapes: dict[type, int] = {list: _LIST, deque: _LIST, dict: _DICT, tuple: _TUPLE}


def _shape_of(kind: type) -> int:
    """Return how to copy values of a type; asked once per type."""
    is_ours = kind.__module__.startswith(_OURS) and not issubclass(kind, msgspec.Struct | Enum)
    shape = _shapes[kind] = _OBJECT if is_ours else _ATOM
    return shape


def cloned(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A copy of a machine."""
    kind = type(value)
    shape = _shapes.get(kind)
    if shape is None:
        shape = _shape_of(kind)
    if shape == _ATOM:
        return value
    memo = {} if memo is None else memo
    copy: Any = memo.get(id(value))
    if copy is not None:
        return copy
    if shape == _OBJECT:
        copy = memo[id(value)] = object.__new__(kind)
        for name in getattr(kind, "__slots__", ()):
            setattr(copy, name, cloned(getattr(value, name), memo))
        for name, item in getattr(value, "__dict__", {}).items():
            is_same = _shapes.get(type(item)) == _ATOM or name in _SHARED
            copy.__dict__[name] = item if is_same else cloned(item, memo)
    elif shape == _TUPLE:
        copy = tuple([cloned(item, memo) for item in value])
    elif shape == _LIST:
        copy = memo[id(value)] = kind()
        copy.extend([cloned(item, memo) for item in value])
    else:
        copy = memo[id(value)] = {}
        copy.update([(cloned(key, memo), cloned(item, memo)) for key, item in value.items()])
    return copy


def key_of(value: Any, seen: dict[int, int] | None = None) -> Any:
    """A machine's state as something that can be compared."""
    kind = type(value)
    if kind is Topology:
        return value.revision  # the world's key has the history
    shape = _shapes.get(kind)
    if shape is None:
        shape = _shape_of(kind)
    if shape == _ATOM:
        return value
    seen = {} if seen is None else seen
    if shape in (_LIST, _TUPLE):
        return tuple([key_of(item, seen) for item in value])
    if shape == _DICT:
        return tuple([(key_of(key, seen), key_of(item, seen)) for key, item in value.items()])
    if id(value) in seen:
        return ("again", seen[id(value)])
    seen[id(value)] = len(seen)
    slots = [key_of(getattr(value, name), seen) for name in getattr(kind, "__slots__", ())]
    fields = getattr(value, "__dict__", {})
    return (*slots, *[key_of(item, seen) for name, item in fields.items() if name not in _SKIPPED])
