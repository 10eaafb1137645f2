"""Values with small numbers for names, so that a whole world is a handful of integers."""

from typing import Generic, TypeVar

__all__ = ["Interned"]

T = TypeVar("T")


class Interned(Generic[T]):
    """Each distinct value once, numbered from 0 in the order in which they came.

    >>> words = Interned[str]()
    >>> [words.id_of(word) for word in ("a", "b", "a")], words[1]
    ([0, 1, 0], 'b')
    """

    __slots__ = ("_ids", "_values")

    def __init__(self) -> None:
        self._ids: dict[T, int] = {}
        self._values: list[T] = []

    def id_of(self, value: T) -> int:
        known = self._ids.get(value)
        if known is None:
            known = self._ids[value] = len(self._values)
            self._values.append(value)
        return known

    def __getitem__(self, id_: int) -> T:
        return self._values[id_]

    def __len__(self) -> int:
        return len(self._values)
