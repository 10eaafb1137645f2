"""A secret: a string that never shows.

Not in repr, str, format, json, msgpack or a log line: only `reveal()` gives it out, and a search for `.reveal(` finds
every place that does.
"""

import hmac
from typing import NoReturn

__all__ = ["MASK", "Secret"]

MASK = "***"


class Secret:
    """Holds a string and shows `***` instead of it.

    >>> token = Secret("hunter2")
    >>> token, str(token), f"{token:>5}", token.reveal()
    (Secret('***'), '***', '  ***', 'hunter2')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself: for the one place that sends or compares it."""
        return self._value

    def matches(self, candidate: str) -> bool:
        """Return whether the candidate is the secret, in a time that does not depend on where they differ."""
        return hmac.compare_digest(self._value.encode(), candidate.encode())

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return self.matches(other._value) if isinstance(other, Secret) else NotImplemented

    def __hash__(self) -> int:
        return hash((Secret, self._value))

    def __reduce__(self) -> NoReturn:
        # A pickle would carry the value into files and other processes, unseen.
        raise TypeError("a Secret cannot be pickled or copied: pass the object itself")
