"""The state hash: a sum over everything in the state, kept while it changes. Design: lake.md L17.

Each item of the state (a row, a run, a request, a branch …) has a hash of its own, and the state's hash is their sum:
new items are added, old ones subtracted, and order plays no part. Members compare it at equal positions.
"""

from hashlib import blake2b
from typing import Any

import msgspec

__all__ = ["StateSum", "item"]

_MODULUS = 1 << 128
_encode = msgspec.msgpack.Encoder().encode


def item(*parts: Any) -> int:
    """The hash of one item: of its kind, its key and its value."""
    return int.from_bytes(blake2b(_encode(parts), digest_size=16).digest(), "big")


class StateSum:
    """The running sum."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, *parts: Any) -> None:
        self.change(item(*parts))

    def remove(self, *parts: Any) -> None:
        self.change(-item(*parts))

    def change(self, by: int) -> None:
        self.value = (self.value + by) % _MODULUS
