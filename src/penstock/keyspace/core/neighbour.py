"""A neighbour: another member, as far as one member can tell whether it answers.

A member that does not answer a question for `silent_s`, or that cannot be connected to, is *suspected*. Wrong
suspicions are safe: epochs see to that. But each costs a synchronization, so a member that flaps is trusted more
slowly each time: after 2 s of answers, then 4, 8, 16 and 30 s.

What always holds: a member is trusted again only after it answered, without a gap, for as long as it is held. The
pauses of a member itself count for none of its neighbours.
"""

from math import inf
from typing import Final

__all__ = ["FORGET_S", "HOLD_S", "HOLD_S_MAX", "Neighbour"]

HOLD_S: Final = 2.0  # of answers before a suspected member is trusted again; doubles up to the next figure
HOLD_S_MAX: Final = 30.0
FORGET_S: Final = 20.0  # without a suspicion: then the next one is a first one


class Neighbour:
    """What one member knows of another. Times are in seconds of any clock that only rises."""

    __slots__ = (
        "_answers_since",
        "_asked_at",
        "_hold_s",
        "_hold_s_min",
        "_is_lost",
        "_silent_s",
        "_trusted_at",
        "is_suspected",
    )

    def __init__(self, silent_s: float, hold_s: float = HOLD_S) -> None:
        self.is_suspected = False
        self._silent_s = silent_s
        self._hold_s_min = hold_s
        self._asked_at: float | None = None  # since when a question has no answer
        self._is_lost = False  # no connection to it can be made
        self._answers_since: float | None = None
        self._hold_s = 0.0
        self._trusted_at = 0.0

    def silent_in(self, now: float) -> float:
        """Return after how long it is suspected, if it does not answer; infinite if nothing waits for its answer."""
        if self._asked_at is None or self.is_suspected:
            return inf
        return max(0.0, self._asked_at + self._silent_s - now)

    def asked(self, now: float) -> None:
        if self._asked_at is None:
            self._asked_at = now

    def answered(self, now: float) -> None:
        """Note an answer of this life of the member."""
        self._asked_at, self._is_lost = None, False
        if self._answers_since is None:
            self._answers_since = now

    def lost(self) -> None:
        """Note that no connection to it can be made."""
        self._is_lost = True

    def paused(self, for_s: float) -> None:
        """Note that this member itself did not run for a while: answers may wait, unread."""
        if self._asked_at is not None:
            self._asked_at += for_s

    def judge(self, now: float) -> bool:
        """Return whether it is suspected now."""
        is_silent = self._asked_at is not None and now - self._asked_at >= self._silent_s
        if self._is_lost or is_silent:
            self._answers_since = None
            if not self.is_suspected:
                self._suspect(now)
        elif self.is_suspected and self._answers_since is not None and now - self._answers_since >= self._hold_s:
            self.is_suspected = False
            self._trusted_at = now
        return self.is_suspected

    def _suspect(self, now: float) -> None:
        self.is_suspected = True
        is_first = not self._hold_s or now - self._trusted_at >= FORGET_S
        self._hold_s = self._hold_s_min if is_first else min(2 * self._hold_s, HOLD_S_MAX)
