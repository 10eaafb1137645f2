"""Mutants of the consumers' shells and cores. `forgets-sources` puts M-4 back."""

import asyncio
from typing import Any, Final

import msgspec

from penstock.consumers.core.effects import Restored
from penstock.consumers.core.shard import Shard
from penstock.consumers.core.store import Store
from penstock.consumers.worker.append_lanes import AppendLanes
from penstock.consumers.worker.shard_run import ShardRun
from penstock.consumers.worker.source_reader import SourceReader
from penstock.kernel.errors import PenstockError
from penstock_lab.world.mutants import Patch, WorldMutant

__all__ = ["MUTANTS", "SCHEDULED"]

KILLS: Final = ("freeze", "session", "cut")
FENCE_S: Final = 5.0


def _starts_before_its_fence(patch: Patch) -> None:
    """A life reads its checkpoint and works under the fence of the life before; its own fence comes later."""

    async def restore(self: ShardRun) -> None:
        store: Any = self._store
        checkpoint = await store.read()
        self._on_restored()
        self._post(Restored(checkpoint))
        self._tasks.start(late(store), "fence")

    async def late(store: Any) -> None:
        await asyncio.sleep(FENCE_S)
        await store.fence()

    patch.set(ShardRun, "_restore", restore)


def _commit_failures_are_swallowed(patch: Patch) -> None:
    """The next life's checkpoint lacks what this one told as done."""

    async def commit(self: ShardRun, txn: int) -> None:
        await self._sealed[txn].wait()
        store: Any = self._store
        swallows: Any = _Swallows(store)
        self._store = swallows
        try:
            await done(self, txn)
        finally:
            self._store = store

    done = patch.set(ShardRun, "_commit", commit)


class _Swallows:
    """A store whose failed commits look like good ones."""

    def __init__(self, store: Store[Any]) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self) -> None:
        try:
            await self._store.commit()
        except PenstockError:
            self._store._sealed = None  # type: ignore[attr-defined]


def _commits_twice(patch: Patch) -> None:
    """Each message is handed to the application twice."""
    from penstock.consumers.worker.consuming import Consuming

    async def consume(self: Consuming, txn: int, journal: str, messages: Any) -> Any:
        return await before(self, txn, journal, (*messages, messages[-1]))

    before = patch.set(Consuming, "consume", consume)


def _reader_skips_a_piece(patch: Patch) -> None:
    """A reader that is ahead drops one of the pieces it holds."""

    def take(self: SourceReader) -> Any:
        if len(self._ahead) > 2:
            content = self._ahead[1][1]
            del self._ahead[1]
            self._ahead_bytes -= len(content)
        return before(self)

    before = patch.set(SourceReader, "_take", take)


def _intents_are_not_restored(patch: Patch) -> None:
    """A new life does not append the ACKs that its checkpoint promises: readers never see these messages."""

    def post(self: ShardRun, event: Any) -> None:
        if isinstance(event, Restored):
            event = Restored(msgspec.structs.replace(event.checkpoint, ack_intents={}))
        before(self, event)

    before = patch.set(ShardRun, "_post", post)


def _lanes_swallow_failures(patch: Patch) -> None:
    """An append that failed counts as done."""

    def init(self: AppendLanes, journals: Any, writer: Any, *, appended: Any, failed: Any) -> None:
        before(self, journals, writer, appended=appended, failed=lambda number, error: appended(number, 0))

    before = patch.set(AppendLanes, "__init__", init)


def _forgets_sources(patch: Patch) -> None:
    """M-4: a checkpoint holds the sources that are read now, and no others."""

    def close(self: Shard, txn: Any) -> Any:
        self.left = {}
        return before(self, txn)

    before = patch.set(Shard, "_close", close)


MUTANTS: Final[dict[str, WorldMutant]] = {
    "starts-before-its-fence": WorldMutant("a life reads before its fence", "E", _starts_before_its_fence, KILLS),
    "commit-failures-swallowed": WorldMutant(
        "a failed commit looks like a good one", "E", _commit_failures_are_swallowed
    ),
    "consumes-twice": WorldMutant("a message is consumed twice", "E7", _commits_twice, ()),
    "reader-skips": WorldMutant("a reader drops a piece", "E", _reader_skips_a_piece),
    "intents-not-restored": WorldMutant("ACKs of the former life are not appended", "E", _intents_are_not_restored),
    "lanes-swallow": WorldMutant("a failed append counts as done", "E", _lanes_swallow_failures),
}
SCHEDULED: Final[dict[str, WorldMutant]] = {
    "forgets-sources": WorldMutant("M-4: a checkpoint forgets sources", "E7", _forgets_sources),
}
