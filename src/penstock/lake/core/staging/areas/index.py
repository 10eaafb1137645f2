"""One merged index over all staging areas of a branch: path to newest change. Design: lake.md L6; lakefs.md §1.3.

Without it a read would ask every sealed area in turn, and a list would walk over every tombstone. The index is derived
from the areas: it is in no checkpoint and in no hash, and members may build it differently.

Levels hold sorted paths with a locator each (which run, which row; negative for a tombstone). A level is at least
`FANOUT` times as long as the next newer one, so there are few: a read asks each once. A level knows which of its rows
are shown: no tombstones, and nothing that a newer level has. So a list goes from shown row to shown row, however many
others are between them. The rows of the last area's memtable are on top of the levels. As long as all runs together
are small there are no levels: the index is a dict.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import cast

import numpy as np
import pyarrow as pa

from penstock.lake.core.staging.areas.entry_columns import entries_at, entry_at
from penstock.lake.core.staging.areas.levels import IndexLevel, LevelCursor
from penstock.lake.core.staging.areas.run import SMALL_ROWS_MAX, Run, find
from penstock.lake.core.staging.areas.small_overlay import SmallOverlay
from penstock.lake.core.staging.entry import Change, Entry

__all__ = ["Block", "Index", "Overlay"]

FANOUT = 4
BLOCK_ROWS_MIN = 16
BLOCK_ROWS_MAX = 65_536
_TOMBSTONE = -1
_ROW_BITS = 32
_MEMTABLE = 1 << 30  # the number of the run which the memtable would be
_ROW_MASK = (1 << _ROW_BITS) - 1

Memtable = Mapping[str, Entry | None]


class Index:
    """The index of a branch, kept up while runs are added. The machine owns it; readers take `overlay`."""

    def __init__(self, runs: Iterable[Run] = (), *, small_rows_max: int = SMALL_ROWS_MAX) -> None:
        self._small: dict[str, Entry | None] | None = {}  # all rows, while they are few; then there are levels
        self._small_rows_max = small_rows_max
        self._rows = 0
        self._runs: dict[int, Run] = {}
        self._levels: tuple[IndexLevel, ...] = ()  # oldest first
        for run in runs:
            self.add(run)

    def add(self, run: Run) -> None:
        """A run newer than all before."""
        if not len(run):
            return
        number = len(self._runs)
        self._rows += len(run)
        self._runs = {**self._runs, number: run}  # a new dict: overlays taken before keep theirs
        if self._small is None:
            self._add_level(number, run)
        elif self._rows <= self._small_rows_max:
            self._small = {**self._small, **run.rows}
        else:
            self._small = None
            for number, run in self._runs.items():
                self._add_level(number, run)

    def _add_level(self, number: int, run: Run) -> None:
        locators = np.arange(len(run), dtype=np.int64) + (number << _ROW_BITS)
        locators[~run.live()] = _TOMBSTONE
        levels = [*self._levels, IndexLevel(run.paths, locators)]
        while len(levels) > 1 and len(levels[-2]) < FANOUT * len(levels[-1]):
            newer = levels.pop()
            levels[-1] = levels[-1].merged(newer)
        older = [level.hidden_by(run.paths) for level in levels[:-1]]
        self._levels = (*older, levels[-1])

    def overlay(self, memtable: Memtable) -> "Overlay | SmallOverlay":
        """Return the present uncommitted changes. The memtable must not change afterwards."""
        if self._small is not None:
            return SmallOverlay(self._small, memtable)
        return Overlay(self._runs, self._levels, memtable)

    @property
    def depth(self) -> int:
        return len(self._levels)


class Overlay:
    """All uncommitted changes of a branch at one position; they never change. Any thread may use it."""

    def __init__(self, runs: Mapping[int, Run], levels: Sequence[IndexLevel], memtable: Memtable) -> None:
        self._runs = runs
        self._levels = levels
        self._memtable = memtable

    @cached_property
    def _all_levels(self) -> list[IndexLevel]:
        """With the memtable as the newest level."""
        if not self._memtable:
            return list(self._levels)
        rows = sorted(self._memtable)
        locators = [_TOMBSTONE if self._memtable[path] is None else _MEMTABLE << _ROW_BITS for path in rows]
        top = IndexLevel(pa.array(rows, pa.large_string()), np.array(locators, dtype=np.int64))
        return [*self._levels, top]

    def find(self, path: str) -> tuple[Entry | None] | None:
        """The newest change of a path: (entry,), (None,) for a tombstone, None if nothing is staged."""
        if path in self._memtable:
            return (self._memtable[path],)
        for level in reversed(self._levels):
            row = find(level.paths, path)
            if row is not None:
                return (self._load(int(level.locators[row])),)
        return None

    def covers(self, paths: Sequence[str]) -> list[bool]:
        """Return which of these paths have an uncommitted change, an entry or a tombstone, which hides the committed
        entry.
        """
        asked = pa.array(paths, pa.large_string())
        covered = np.zeros(len(paths), dtype=np.bool_)
        for level in self._all_levels:
            covered |= level.has(asked)
        return cast("list[bool]", covered.tolist())

    def entries(self, start: str = "", stop: str | None = None) -> Iterator[tuple[str, Entry]]:
        """Staged entries (no tombstones) in [start, stop), sorted."""
        for block in self.blocks(start, stop):
            yield from zip(block.paths, block.entries(range(len(block.paths))), strict=True)

    def blocks(self, start: str = "", stop: str | None = None) -> "Iterator[Block]":
        """The same, some paths at a time; entries are made of those that are asked for."""
        for paths, locators in self._blocks(start, stop):
            yield Block(self, paths, locators)

    def changed_in(self, start: str, stop: str | None) -> int:
        """Return how many changes there are in [start, stop), or more: those under newer ones may count too."""
        return sum((len(each) if stop is None else each.row(stop)) - each.row(start) for each in self._all_levels)

    def changes_from(self, start: str, count: int) -> list[Change]:
        """Return the first changes from a path on, tombstones included, sorted: at most `count`, none at the end."""
        found: dict[str, int] = {}
        for level in self._all_levels:  # newer ones last; the first `count` of all are among the first of each
            row = level.row(start)
            paths: list[str] = level.paths.slice(row, count).to_pylist()
            found.update(zip(paths, level.locators[row : row + count].tolist(), strict=True))
        shown = sorted(found)[:count]
        live = [path for path in shown if found[path] >= 0]
        entries = dict(zip(live, self.load(live, [found[path] for path in live]), strict=True))
        return [(path, entries.get(path)) for path in shown]

    def _blocks(self, start: str, stop: str | None) -> Iterator[tuple[list[str], list[int]]]:
        """Live rows of all levels, merged, in blocks which grow."""
        levels = self._all_levels
        cursors = [LevelCursor(level, start, stop) for level in levels]
        count = BLOCK_ROWS_MIN
        while any(cursor.is_open for cursor in cursors):
            blocks = [cursor.peek(count) for cursor in cursors]
            ends = [block[-1].as_py() for cursor, block in zip(cursors, blocks, strict=True) if cursor.has_more(count)]
            bound = min(ends, default=None)
            found: list[tuple[str, int]] = []
            for cursor, block in zip(cursors, blocks, strict=True):
                paths, locators = cursor.take(block, bound)
                is_top = cursor is cursors[-1] and bool(self._memtable)
                found += (
                    (path, locator)
                    for path, locator in zip(paths.to_pylist(), locators.tolist(), strict=True)
                    if is_top or path not in self._memtable
                )
            found.sort()
            yield [path for path, _ in found], [locator for _, locator in found]
            count = min(4 * count, BLOCK_ROWS_MAX)

    def changes(self) -> Iterator[Change]:
        """Everything staged, tombstones included, sorted; row by row: for small overlays and for tests."""
        batch = self.batch()
        for row, path in enumerate(batch.column(0)):
            yield path.as_py(), entry_at(batch, row)

    def batch(self) -> pa.RecordBatch:
        """Everything staged, tombstones included, as sorted columns: what a commit writes."""
        return newest([*self._runs.values(), Run.of(self._memtable.items())]).batch

    def top(self) -> pa.RecordBatch:
        """The rows of the memtable."""
        return Run.of(self._memtable.items()).batch

    def _load(self, locator: int) -> Entry | None:
        if locator < 0:
            return None
        return entry_at(self._runs[locator >> _ROW_BITS].batch, locator & _ROW_MASK)

    def load(self, paths: list[str], locators: list[int]) -> list[Entry]:
        """The entries of live rows: run by run, not row by row."""
        places: dict[int, list[int]] = {}
        for place, locator in enumerate(locators):
            places.setdefault(locator >> _ROW_BITS, []).append(place)
        entries: list[Entry | None] = [None] * len(paths)
        loaded: Sequence[Entry | None]
        for number, mine in places.items():
            if number == _MEMTABLE:
                loaded = [self._memtable[paths[place]] for place in mine]
            else:
                loaded = entries_at(self._runs[number].batch, [locators[place] & _ROW_MASK for place in mine])
            for place, entry in zip(mine, loaded, strict=True):
                entries[place] = entry
        return cast("list[Entry]", entries)


class Block:
    """Paths of staged entries, sorted, and where their entries are."""

    def __init__(self, overlay: Overlay, paths: list[str], locators: list[int]) -> None:
        self.paths = paths
        self._overlay = overlay
        self._locators = locators

    def entries(self, rows: Sequence[int]) -> list[Entry]:
        """Return the entries of some of the paths."""
        return self._overlay.load([self.paths[row] for row in rows], [self._locators[row] for row in rows])


def newest(runs: Sequence[Run]) -> Run:
    """The newest change of each path of some runs, oldest run first, as one run."""
    if sum(map(len, runs)) <= SMALL_ROWS_MAX:
        return Run.of({path: entry for run in runs for path, entry in run.rows.items()}.items())
    levels: list[IndexLevel] = []
    base = 0
    for run in runs:
        levels.append(IndexLevel(run.paths, np.arange(len(run), dtype=np.int64) + base))
        base += len(run)
    while len(levels) > 1:  # neighbours in pairs: each row is moved log(runs) times
        pairs = [older.merged(newer) for older, newer in zip(levels[::2], levels[1::2], strict=False)]
        levels = pairs + levels[len(levels) & ~1 :]
    table = pa.Table.from_batches([run.batch for run in runs]).take(pa.array(levels[0].locators))
    (batch,) = table.combine_chunks().to_batches()
    return Run(batch)
