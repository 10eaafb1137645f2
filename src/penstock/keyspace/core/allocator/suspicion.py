"""Suspicions: which members the others cannot reach.

    {root}/suspects/{member}#{by}     `by` cannot reach `member`; under the lease of `by`

A member is *away* while more than half of the others, and at least two of them, say so. It keeps its key and its lease;
it is given nothing, and another member allocates in its place. One member alone cannot tell whether the other or itself
is cut off, so its word changes nothing.
"""

from collections.abc import Iterable
from typing import Final

from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.mirror import MirrorEntry

__all__ = ["Suspicions", "leader_of", "suspicion_key"]

_VOICES_MIN: Final = 2


def suspicion_key(layout: Layout, member: str, by: str) -> str:
    return f"{layout.suspects}{member}#{by}"


class Suspicions:
    """Which member suspects which."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._entries: dict[str, dict[str, MirrorEntry]] = {}  # member → the members that cannot reach it

    @classmethod
    def of(cls, layout: Layout, entries: Iterable[MirrorEntry]) -> "Suspicions":
        suspicions = cls(layout)
        for entry in entries:
            suspicions.note(entry.key, entry)
        return suspicions

    def note(self, key: str, entry: MirrorEntry | None) -> None:
        """Take the present value of a key; None if it is gone."""
        parts = key[len(self._layout.suspects) :].split("#")
        if len(parts) != 4:
            return
        member, by = f"{parts[0]}#{parts[1]}", f"{parts[2]}#{parts[3]}"
        if entry is not None:
            self._entries.setdefault(member, {})[by] = entry
        elif member in self._entries:
            self._entries[member].pop(by, None)
            if not self._entries[member]:
                del self._entries[member]

    def away(self, members: Iterable[str]) -> frozenset[str]:
        """Return the members, of these, that more than half of the others cannot reach."""
        present = frozenset(members)
        if not self._entries:
            return frozenset()
        needed = max(_VOICES_MIN, (len(present) - 1) // 2 + 1)
        return frozenset(name for name in present if len(self._voices(name, present)) >= needed)

    def _voices(self, member: str, present: frozenset[str]) -> list[str]:
        return [by for by in self._entries.get(member, ()) if by in present and by != member]

    def entries(self, member: str) -> list[MirrorEntry]:
        """Return the keys that say that this member is away."""
        return list(self._entries.get(member, {}).values())


def leader_of(
    members: Iterable[MirrorEntry], away: frozenset[str] = frozenset(), prefix: str = ""
) -> MirrorEntry | None:
    """Return the oldest member that is not away: it alone acts. If all are away, none is.

    Members made by one transaction lead in the order of their keys. `prefix` comes before a member's name in its key.
    """
    known = list(members)
    here = [entry for entry in known if entry.key[len(prefix) :] not in away]
    return min(here or known, key=lambda entry: (entry.stored.create_revision, entry.key), default=None)
