"""Compare the states of members by the hashes that they put on the queue; a minority stops. Design: L14, L17.

At shared positions each member puts the hash of its state on the queue. After a report of another hash a member waits
for the other reports and counts. The hash of more than half of the members is right. Without such a hash all of them
stop. The order of the reports does not matter.
"""

from collections import Counter, OrderedDict
from enum import Enum
from itertools import islice
from typing import Any, Final

__all__ = ["Agreement", "Verdict"]

POSITIONS_MAX: Final = 64  # remembered; a member further behind than that compares nothing


class Verdict(Enum):
    """The result of a count for the own state."""

    AGREED = "agreed"
    WRONG = "wrong"  # more than half have another
    UNKNOWN = "unknown"  # no hash has more than half


class Agreement:
    """The reports that one member has read, and its own hashes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._heard: OrderedDict[int, dict[str, str]] = OrderedDict()
        self._own: OrderedDict[int, str] = OrderedDict()
        self._disputed: set[int] = set()  # not counted yet: their reports are kept

    def own(self, applied: int, hash_: str) -> None:
        """Add the hash of this member's state at a shared position."""
        self._own[applied] = hash_
        self._forget(self._own)

    def heard(self, member: str, applied: int, hash_: str) -> bool:
        """Add a report from the queue. Return True if it begins a dispute, which `count` ends."""
        was_disputed = self._is_disputed(applied)
        self._heard.setdefault(applied, {})[member] = hash_
        begins = self._is_disputed(applied) and not was_disputed
        if begins:
            self._disputed.add(applied)
        self._forget(self._heard)
        return begins

    def count(self, applied: int) -> tuple[Verdict, list[str]]:
        """Return the verdict on this member, and the hashes of this position that lost."""
        self._disputed.discard(applied)
        said = self._said(applied)
        counts = Counter(said.values())
        right = next((each for each, votes in counts.items() if 2 * votes > len(said)), None)
        verdict = Verdict.UNKNOWN if right is None else Verdict.AGREED
        if right is not None and said.get(self._name, right) != right:
            verdict = Verdict.WRONG
        return verdict, sorted(each for each in counts if each != right)

    def _is_disputed(self, applied: int) -> bool:
        return len(set(self._said(applied).values())) > 1

    def _forget(self, positions: OrderedDict[int, Any]) -> None:
        """Drop the oldest positions above the bound. A disputed one stays: without its reports all members stop."""
        excess = len(positions) - POSITIONS_MAX
        if excess > 0:
            settled = (each for each in positions if each not in self._disputed)
            for each in list(islice(settled, excess)):
                del positions[each]

    def _said(self, applied: int) -> dict[str, str]:
        """Return one hash for each member. For this member its own state counts, not its report."""
        said = dict(self._heard.get(applied, {}))
        if applied in self._own:
            said[self._name] = self._own[applied]
        return said
