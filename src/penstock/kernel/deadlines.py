"""Deadlines of appends: one timer for all of them, and no more memory than there are appends."""

from collections.abc import Collection
from heapq import heapify, heappop, heappush

from penstock.kernel.effects import Effect, SetTimer
from penstock.kernel.ids import Instant, RequestId

__all__ = ["NEVER", "RequestDeadlines"]

NEVER = Instant((1 << 63) - 1)
TIMER = "deadline"


class RequestDeadlines:
    """Which request is due next. Deadlines that have ended are forgotten when it is cheap."""

    def __init__(self) -> None:
        self._heap: list[tuple[Instant, RequestId]] = []
        self._armed_at = NEVER

    def add(self, deadline: Instant, request: RequestId, alive: Collection[RequestId], out: list[Effect]) -> None:
        heap = self._heap
        if len(heap) > 64 + 2 * len(alive):
            heap[:] = [entry for entry in heap if entry[1] in alive]
            heapify(heap)
        heappush(heap, (deadline, request))
        if deadline < self._armed_at:
            self._arm(deadline, out)

    def take_due(self, now: Instant, alive: Collection[RequestId], out: list[Effect]) -> list[RequestId]:
        """Return the ones that are due by now; the timer is set for the next."""
        self._armed_at = NEVER
        due: list[RequestId] = []
        while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in alive):
            _, request = heappop(self._heap)
            if request in alive:
                due.append(request)
        if self._heap:
            self._arm(self._heap[0][0], out)
        return due

    def _arm(self, deadline: Instant, out: list[Effect]) -> None:
        if deadline < self._armed_at:
            self._armed_at = deadline
            out.append(SetTimer(TIMER, deadline))
