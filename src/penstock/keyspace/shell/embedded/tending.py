"""What every process looks after now and then: leases which are due, and history which is old enough to go.

Both decide by a `LeaseClock` alone, and only from their own observations by it.
"""

from collections import deque
from collections.abc import Iterable

from penstock.kernel.ids import MILLISECOND, Revision
from penstock.keyspace.core.records import KeySpaceStatus, LeaseId
from penstock.keyspace.shell.embedded.clock import LeaseClock
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.queries import LeaseRow

__all__ = ["DueLeases", "KeyHistory"]


class DueLeases:
    """Which leases have ended. The rule is described in writes.py."""

    def __init__(self, clock: LeaseClock) -> None:
        self._clock = clock
        self._foreign: dict[LeaseId, tuple[LeaseRow, int]] = {}  # of another clock, and since when we see it so

    def find(self, rows: Iterable[LeaseRow]) -> list[LeaseRow]:
        """Return the stored leases that are due. Call it often: leases of another clock are timed by our
        observations.
        """
        rows = list(rows)
        self._foreign = {row.id: (row, self._seen_since(row)) for row in rows if row.clock != self._clock.id}
        return [row for row in rows if self.remaining_ns(row) <= 0]

    def remaining_ns(self, row: LeaseRow) -> int:
        now_ns = self._clock.now_ns()
        if row.clock == self._clock.id:
            return row.deadline_ns - now_ns
        return self._seen_since(row) + row.ttl_ms * MILLISECOND - now_ns

    def _seen_since(self, row: LeaseRow) -> int:
        seen, since_ns = self._foreign.get(row.id, (None, 0))
        return since_ns if seen == row else self._clock.now_ns()


class KeyHistory:
    """How far the history may be compacted, by number, by age and by size."""

    def __init__(self, options: EmbeddedOptions, clock: LeaseClock) -> None:
        self._options = options
        self._clock = clock
        self._marks: deque[tuple[int, Revision]] = deque()  # when a revision was seen to be the newest

    def cut(self, status: KeySpaceStatus, used_bytes: int) -> Revision | None:
        """The revision to compact to now, if it is worth it."""
        options = self._options
        cut: int = max(status.compacted, self._old_revision(status.revision))
        if status.revision - status.compacted > 2 * options.history_revisions_max:
            cut = max(cut, status.revision - options.history_revisions_max)
        if used_bytes > options.history_bytes_max:
            cut = status.revision
        return Revision(cut) if cut > status.compacted else None

    def _old_revision(self, newest: Revision) -> Revision:
        """The newest revision which is old enough. Marks are a sixteenth of the age apart, so there are few."""
        now_ns = self._clock.now_ns()
        age_ns = self._options.history_ms_max * MILLISECOND
        if not self._marks or now_ns - self._marks[-1][0] >= age_ns // 16:
            self._marks.append((now_ns, newest))
        old = Revision(0)
        while self._marks and now_ns - self._marks[0][0] >= age_ns:
            old = self._marks.popleft()[1]
        return old
