"""Stat: how far a shard has come, for clients that want to read the effect of their own messages.

A writer who appended up to an offset asks for progress through it; the answer comes when everything before that offset
has taken its full effect: committed in the store, and acknowledged downstream. It also says up to where (`publish_at`)
the next shard of a chain must have read to have seen all that came of it: ask there with that, and so on.
"""

import msgspec

from penstock.kernel.effects import Effect, Reply
from penstock.kernel.ids import Offset, RequestId

__all__ = ["Stat", "StatResult", "Stats"]


class Stat(msgspec.Struct, frozen=True):
    """Wait for progress through these offsets. Journals which are no sources of the shard do not count."""

    read_through: dict[str, Offset] = {}


class StatResult(msgspec.Struct, frozen=True):
    """How far the shard has come. Not `is_running`: it stopped, and nothing more will come of it here."""

    read_through: dict[str, Offset]
    publish_at: dict[str, Offset]
    is_running: bool = True


class Stats:
    """The waiting clients, and their conditions."""

    def __init__(self, sources: frozenset[str], waiting_max: int = 10_000) -> None:
        self._sources = sources
        self._waiting_max = waiting_max
        self._waiting: dict[RequestId, Stat] = {}
        self.read_through: dict[str, Offset] = {}
        self.publish_at: dict[str, Offset] = {}

    def ask(self, request: RequestId, stat: Stat) -> list[Effect]:
        """Answer at once, or when the time has come. When too many wait, the oldest gets the state so far."""
        if self._is_reached(stat):
            return [Reply(request, self._result())]
        self._waiting[request] = stat
        if len(self._waiting) <= self._waiting_max:
            return []
        oldest = next(iter(self._waiting))
        del self._waiting[oldest]
        return [Reply(oldest, self._result())]

    def advance(self, read_through: dict[str, Offset]) -> list[Effect]:
        """Everything before these offsets has taken its full effect."""
        self.read_through = read_through
        ready = [request for request, stat in self._waiting.items() if self._is_reached(stat)]
        for request in ready:
            del self._waiting[request]
        return [Reply(request, self._result()) for request in ready]

    def published(self, journal: str, end: Offset) -> None:
        """An ACK is in a journal, which ends there, or did then."""
        self.publish_at[journal] = max(end, self.publish_at.get(journal, end))

    def stop(self) -> list[Effect]:
        """End all waiting requests, because the shard stops."""
        result = msgspec.structs.replace(self._result(), is_running=False)
        waiting, self._waiting = self._waiting, {}
        return [Reply(request, result) for request in waiting]

    def _is_reached(self, stat: Stat) -> bool:
        read = self.read_through
        return all(
            read.get(journal, Offset(-1)) >= offset
            for journal, offset in stat.read_through.items()
            if journal in self._sources
        )

    def _result(self) -> StatResult:
        return StatResult(dict(self.read_through), dict(self.publish_at))
