"""A staging area: uncommitted changes of a branch under one staging token. Design: lake.md L4, L7, L12, L17.

Its rows are runs, oldest first, with a small memtable on top. Only the last area of a branch takes changes; sealing one
turns its memtable into a run, and then nothing in it changes any more under that token (I5). When the memtable becomes
a run is a matter of row counts alone, so every member has the same runs.
"""

from collections.abc import Iterable

from penstock.lake.core.staging.areas.index import newest
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.areas.state_hash import item
from penstock.lake.core.staging.entry import Change, Entry

__all__ = ["MEMTABLE_ROWS_MAX", "StagingArea"]

MEMTABLE_ROWS_MAX = 1024


class StagingArea:
    """The changes of one token."""

    __slots__ = ("_is_shared", "_memtable", "_run_rows", "instance", "rows_sum", "runs", "token")

    def __init__(self, instance: str, token: str, runs: Iterable[Run] = ()) -> None:
        self.instance = instance
        self.token = token
        self.runs: tuple[Run, ...] = tuple(runs)
        self._run_rows = sum(map(len, self.runs))
        self.rows_sum = 0  # of the hashes of the memtable's rows
        self._memtable: dict[str, Entry | None] = {}
        self._is_shared = False  # a snapshot holds the memtable: the next change goes into a copy

    def __len__(self) -> int:
        """Return how many rows it holds, overwritten ones included."""
        return self._run_rows + len(self._memtable)

    @property
    def memtable(self) -> dict[str, Entry | None]:
        """To look at, not to keep."""
        return self._memtable

    def share(self) -> dict[str, Entry | None]:
        """The memtable as it is now, for as long as one likes."""
        self._is_shared = True
        return self._memtable

    def put(self, path: str, entry: Entry | None) -> int:
        """Write one row; the change of the state's sum."""
        if self._is_shared:
            self._memtable, self._is_shared = self._memtable.copy(), False
        memtable = self._memtable
        change = self._row_hash(path, entry)
        if path in memtable:
            change -= self._row_hash(path, memtable[path])
        memtable[path] = entry
        self.rows_sum += change
        return change

    @property
    def is_full(self) -> bool:
        return len(self._memtable) >= MEMTABLE_ROWS_MAX

    def flush(self) -> tuple[Run | None, int]:
        """Turn the memtable into a run; that run, and the change of the state's sum."""
        if not self._memtable:
            return None, 0
        run = Run.of(self._memtable.items())
        change = -self.rows_sum
        self._memtable, self._is_shared, self.rows_sum = {}, False, 0
        return run, change + self.add_run(run)

    def add_run(self, run: Run) -> int:
        """Put a run on top; the memtable must be empty."""
        assert not self._memtable
        self.runs = (*self.runs, run)
        self._run_rows += len(run)
        return self._run_hash(len(self.runs) - 1, run)

    def find(self, path: str) -> tuple[Entry | None] | None:
        """The change of a path in this area alone."""
        if path in self._memtable:
            return (self._memtable[path],)
        for run in reversed(self.runs):
            if path in run:
                return (run.get(path),)
        return None

    def changes(self) -> dict[str, Entry | None]:
        """Return all of it as a dict: for tests and small areas."""
        rows: dict[str, Entry | None] = dict(self._newest())
        return rows | self._memtable

    def _newest(self) -> list[Change]:
        return newest(self.runs).changes()

    def sum(self) -> int:
        """The area's part of the state's sum, from its content alone."""
        rows = sum(self._row_hash(path, entry) for path, entry in self._memtable.items())
        return rows + sum(self._run_hash(place, run) for place, run in enumerate(self.runs))

    def _row_hash(self, path: str, entry: Entry | None) -> int:
        return item("row", self.instance, self.token, path, entry)

    def _run_hash(self, place: int, run: Run) -> int:
        return item("run", self.instance, self.token, place, run.digest)
