"""The request table: what became of each request, so that none takes effect twice. Design: lake.md L2.

The table is bounded, so it forgets: the oldest recorded entry first. A forgotten entry raises the floor, and a request
not above the floor is refused. Whatever the bound, a copy is either answered from the table or refused: never applied
again.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from penstock.lake.core.staging.areas.state_hash import StateSum
from penstock.lake.core.staging.records import Limits, Request
from penstock.lake.core.staging.results import Result

__all__ = ["Recorded", "RequestTable"]

AGED_AT_ONCE_MAX: Final = 16  # entries that one record may evict by age


class Recorded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request's final result, and when it was recorded."""

    request: Request
    result: Result
    at: int


class RequestTable:
    """Final results in the order they were recorded."""

    def __init__(self, total: StateSum, recorded: Iterable[Recorded] = (), floor: int = -1) -> None:
        self.floor = floor  # requests issued at or before this are forgotten, if they are not in the table
        self._table: dict[str, Recorded] = {}
        self._order: deque[Recorded] = deque()  # a dict walks over its deleted slots to find the oldest entry
        self._total = total
        for entry in recorded:
            self._add(entry)

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Recorded]:
        return iter(self._order)

    def get(self, id_: str) -> Result | None:
        entry = self._table.get(id_)
        return None if entry is None else entry.result

    def is_forgotten(self, request: Request) -> bool:
        """Return whether an entry of this request might have been evicted."""
        return request.issued <= self.floor

    def record(self, request: Request, result: Result, now: int) -> None:
        assert request.id not in self._table
        self._add(Recorded(request, result, now))

    def evict(self, limits: Limits, now: int) -> None:
        """Keep to the bounds, by count and by age."""
        excess = len(self._order) - max(1, limits.requests_max)
        oldest = now - limits.request_age_ns
        for left in range(max(excess, AGED_AT_ONCE_MAX)):
            if not self._order or not (left < excess or self._order[0].at < oldest):
                break
            entry = self._order.popleft()
            del self._table[entry.request.id]
            self._total.remove("request", entry)
            self.raise_floor(entry)

    def raise_floor(self, evicted: Recorded) -> None:
        self.floor = max(self.floor, evicted.request.issued)

    def _add(self, entry: Recorded) -> None:
        self._table[entry.request.id] = entry
        self._order.append(entry)
        self._total.add("request", entry)
