"""Stores of the exactly-once workload: one per shard, shared by all processes which ever run it.

`Truth` is the committed state: how often each message was applied, sums, and the checkpoint. It is the judge's, and
takes every commit in the moment at which it is decided. A `SimSession` is one process's way to the store:
`TableSession` is a database with a fence row; in `exactly_once_log.py` is an embedded store with a recovery log.
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
from penstock_lab.sim.world import World

__all__ = ["SimSession", "Staged", "TableSession", "Truth"]


class Staged(msgspec.Struct):
    """What a transaction has staged."""

    applied: list[str] = msgspec.field(default_factory=list)  # ids of messages
    sums: dict[str, int] = msgspec.field(default_factory=dict)

    def apply(self, id_: str, key: str, amount: int) -> None:
        self.applied.append(id_)
        self.sums[key] = self.sums.get(key, 0) + amount


class Truth:
    """The committed state."""

    def __init__(self) -> None:
        self.checkpoint = Checkpoint().encode()
        self.applied: dict[str, int] = {}  # id -> the commit which applied it
        self.sums: dict[str, int] = {}
        self.commits = 0

    def commit(self, staged: Staged, checkpoint: bytes) -> None:
        self.commits += 1
        self.checkpoint = checkpoint
        for id_ in staged.applied:
            assert id_ not in self.applied, f"{id_} was applied in commit {self.applied[id_]} and {self.commits}"
            self.applied[id_] = self.commits
        for key, amount in staged.sums.items():
            self.sums[key] = self.sums.get(key, 0) + amount


class SimSession(Protocol):
    """One run of one process, using the store."""

    open: Staged

    def restore(self, then: Callable[[Checkpoint], None]) -> None:
        """Fence out everybody else, and read the checkpoint."""
        ...

    def seal(self, checkpoint: Checkpoint) -> None: ...

    def commit(self, then: Callable[[bool], None]) -> None:
        """Commit the sealed transaction; False if another process has taken the store over."""
        ...


class Table:
    """A shard's row in a database."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.fence = 0


class TableSession:
    """A connection to a database. Requests that it has sent arrive, also if its process dies meanwhile."""

    def __init__(self, world: World, table: Table, delay: Callable[[], int], *, is_fenced: bool) -> None:
        self.open = Staged()
        self._world = world
        self._table = table
        self._delay = delay
        self._is_fenced = is_fenced
        self._fence = 0
        self._sealed: tuple[Staged, bytes] | None = None

    def restore(self, then: Callable[[Checkpoint], None]) -> None:
        self._world.after(self._delay(), lambda: self._restore(then))

    def _restore(self, then: Callable[[Checkpoint], None]) -> None:
        self._table.fence += 1
        self._fence = self._table.fence
        checkpoint = Checkpoint.decode(self._table.truth.checkpoint)
        self._world.after(self._delay(), lambda: then(checkpoint))

    def seal(self, checkpoint: Checkpoint) -> None:
        assert self._sealed is None, "the transaction before is not committed"
        self._sealed = (self.open, checkpoint.encode())
        self.open = Staged()

    def commit(self, then: Callable[[bool], None]) -> None:
        self._world.after(self._delay(), lambda: self._commit(then))

    def _commit(self, then: Callable[[bool], None]) -> None:
        assert self._sealed is not None, "nothing is sealed"
        is_mine = self._fence == self._table.fence or not self._is_fenced
        if is_mine:
            self._table.truth.commit(*self._sealed)
            self._sealed = None
        self._world.after(self._delay(), lambda: then(is_mine))
