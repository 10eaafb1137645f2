"""A database of a world, and the store of a shard in it: what `consumers/core/store.py` asks, as a SQL store keeps it.

What always holds: `restore` places its fence before it reads; a commit takes place whole, and only with the newest
fence. Faults: an answer that is lost, after the commit took place or before it; a database that is away.
"""

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.kernel.errors import Fenced, Indeterminate, PenstockError, Unavailable
from penstock_lab.world.ports.answers import Awaited

if TYPE_CHECKING:
    from penstock_lab.world.process import Life
    from penstock_lab.world.scene import Scene

__all__ = ["DatabaseStore", "ShardRow", "State", "WorldDatabase"]

NAME: Final = "db"  # of its machine, for links that are cut
WORK_NS: Final = (100_000, 3_000_000)
ANSWER_S: Final = 5.0
State = dict[str, int]


class ShardRow(msgspec.Struct):
    """The row of a shard."""

    fence: int = 0
    checkpoint: bytes = b""
    state: State = {}
    commits: int = 0


class WorldDatabase:
    """It outlives its clients."""

    def __init__(self, scene: "Scene") -> None:
        self.world = scene.world
        self.links = scene.links
        self.rng = scene.world.random("database")
        self.rows: dict[str, ShardRow] = {}
        self.is_away = False
        self.loses_answers = 0.0

    def heal(self) -> None:
        self.is_away, self.loses_answers = False, 0.0

    def row(self, shard: str) -> ShardRow:
        return self.rows.setdefault(shard, ShardRow())

    def ask(self, process: "Life", what: str, do: Callable[[], Any], data: bytes = b"") -> Awaited:
        """Carry a request there and its answer back. It takes place as one step, or not at all."""
        answer = Awaited(process)
        process.note("database", what, data)

        def arrive() -> None:
            if self.is_away:
                return back(None, Unavailable("the database is away"))
            is_lost = self.rng.random() < self.loses_answers
            if is_lost and self.rng.random() < 0.5:
                return back(None, Indeterminate("the database did not answer"))
            result, error = None, None
            try:
                result = do()
            except PenstockError as refusal:
                error = refusal
            self.world.note(NAME, "database", what, data)
            return back(result, Indeterminate("the database did not answer") if is_lost else error)

        def back(result: Any, error: PenstockError | None) -> None:
            self.world.after(
                self.rng.randint(*WORK_NS), self.links.carry, NAME, process.name, lambda: answer.arrive(result, error)
            )

        self.world.after(self.links.delay_ns(), self.links.carry, process.name, NAME, arrive)
        answer.arrive(None, Indeterminate("the database did not answer in time"), delay_ns=int(ANSWER_S * 1e9))
        return answer


class DatabaseStore:
    """The store of one life of a shard."""

    def __init__(self, database: WorldDatabase, process: "Life", shard: str) -> None:
        self._database = database
        self._process = process
        self._shard = shard
        self._fence = 0
        self._state: State = {}
        self._sealed: tuple[bytes, State] | None = None

    async def fence(self) -> None:
        """Place the fence: older lives commit no more."""

        def place() -> int:
            row = self._database.row(self._shard)
            row.fence += 1
            return row.fence

        self._fence = await self._database.ask(self._process, f"fence {self._shard}", place).future

    async def read(self) -> Checkpoint:
        """Read the row."""

        def read() -> tuple[bytes, State, int]:
            row = self._database.row(self._shard)
            return row.checkpoint, dict(row.state), row.fence

        data, self._state, self._fence = await self._database.ask(self._process, f"read {self._shard}", read).future
        return Checkpoint.decode(data) if data else Checkpoint()

    async def restore(self) -> Checkpoint:
        await self.fence()
        return await self.read()

    async def transaction(self) -> State:
        return self._state

    async def seal(self, checkpoint: Checkpoint) -> None:
        assert self._sealed is None, "the transaction before is not committed"
        self._sealed = (checkpoint.encode(), copy.copy(self._state))

    async def commit(self) -> None:
        assert self._sealed is not None, "nothing is sealed"
        data, state = self._sealed

        def commit() -> None:
            row = self._database.row(self._shard)
            if row.fence != self._fence:
                raise Fenced(f"shard {self._shard} has another process")
            row.checkpoint, row.state = data, state
            row.commits += 1

        await self._database.ask(self._process, f"commit {self._shard}", commit, data).future
        self._sealed = None

    async def close(self) -> None:
        return
