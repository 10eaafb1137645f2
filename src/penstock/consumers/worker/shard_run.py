"""One life of a shard: runs its machine (`penstock.consumers.core.shard`), and does what the machine says.

Design: exactly-once.md. The machine decides everything; here are reads, appends, the application, the store and the
timer. What this shell keeps (see `consumers/core/effects.py`):

- Appends of one journal are in order, each until it is acknowledged (`append_lanes.py`).
- Application and store are called one after the other, in the order of the effects, except for `commit`, which runs at
  the same time as the next transaction once its own was sealed.
- A life ends for good: by a failure, with the reason, or because it was asked to end. Nothing of it is left running,
  and its uncommitted work never happened.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from penstock.consumers.core.effects import (
    AppendIntent,
    CommitShard,
    Consume,
    Consumed,
    Failed,
    Finalize,
    Finalized,
    IntentAppended,
    Noticed,
    ReadSource,
    Restore,
    Restored,
    Seal,
    ShardCommitted,
    ShardProgress,
)
from penstock.consumers.core.shard import Shard, ShardSpec
from penstock.consumers.core.stat import Stat, StatResult
from penstock.consumers.core.store import Store
from penstock.consumers.stores.application import Application
from penstock.consumers.worker.append_lanes import AppendLanes, writer_of
from penstock.consumers.worker.consuming import Consuming
from penstock.consumers.worker.source_reader import SourceReader
from penstock.journals.client.journal import Journals
from penstock.kernel.effects import Effect, Event, Reply, Requested, SetTimer, Stop, TimerFired
from penstock.kernel.errors import InternalError, MalformedFrame, NotFound, PenstockError
from penstock.kernel.ids import Instant, Offset, RequestId
from penstock.messages.uuid import ProducerId
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks

__all__ = ["ShardRun", "reason_of"]

REASON_CHARS_MAX: Final = 2_048

log = get_logger()


class ShardRun:
    """One life. `await run()` returns when it was asked to end, and otherwise raises the reason of its end."""

    def __init__(
        self,
        spec: ShardSpec,
        application: Application[Any],
        store: Store[Any],
        journals: Journals,
        producer: ProducerId,
        *,
        on_restored: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = journals.ports.clock
        self.shard = Shard(spec, producer, unix_ns_at_zero=self._clock.time_ns() - self._clock.monotonic_ns())
        self.transactions = 0  # which this life has committed
        self._store = store
        self._consuming = Consuming(application, store)
        self._journals = journals
        self._on_restored = on_restored
        self._readers: dict[str, SourceReader] = {}
        self._lanes = AppendLanes(
            journals, writer_of(spec.shard, producer), appended=self._appended, failed=self._append_failed
        )
        self._tasks = Tasks(self._fail)
        self._work: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()  # for application and store
        self._sealed: dict[int, asyncio.Event] = {}
        self._restored_acks: set[int] = set()  # appends of intents of a former life
        self._timer: asyncio.TimerHandle | None = None
        self._requests: dict[RequestId, asyncio.Future[StatResult]] = {}
        self._last_request = 0
        self._is_draining = False
        self._idle = asyncio.Event()
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # Life

    async def run(self) -> None:
        """Live until asked to end, or until the shard cannot continue: then raise why."""
        try:
            self._tasks.start(self._work_in_order(), "shard's application and store")
            self._perform(self.shard.start())
            await asyncio.shield(self._ended)
        finally:
            await self._close()

    async def drain(self, wait_s: float) -> None:
        """Read no more, finish the transactions under way if that takes no longer than `wait_s`, and end."""
        self._is_draining = True
        self._note_idle()
        try:
            async with asyncio.timeout(wait_s):
                await self._idle.wait()
        except TimeoutError:
            log.info("shard gives up a transaction", shard=self.shard.spec.shard)
        self.end(None)

    async def stat(self, stat: Stat) -> StatResult:
        """Wait for progress, as `Stat` says; or until this life has ended."""
        if self.has_ended:
            return StatResult({}, {}, is_running=False)
        self._last_request += 1
        request = RequestId(self._last_request)
        future: asyncio.Future[StatResult] = asyncio.get_running_loop().create_future()
        self._requests[request] = future
        try:
            self._post(Requested(request, stat))
            return await future
        finally:
            del self._requests[request]

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def end(self, error: BaseException | None) -> None:
        """End this life: in order (None), or for a reason."""
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)
            self._ended.exception()  # retrieved, even if no task waits any more
        if not self.shard.is_stopped:  # clients that wait for a stat get their answer
            self._perform(self.shard.step(Failed(reason_of(error)), self._now))

    def _fail(self, error: BaseException) -> None:
        self.end(error)

    async def _close(self) -> None:
        self.end(None)
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()
        await self._consuming.close()
        await self._lanes.close()
        for reader in self._readers.values():
            await reader.close()
        await self._store.close()

    # The machine

    @property
    def _now(self) -> Instant:
        return Instant(self._clock.monotonic_ns())

    def _post(self, event: Event) -> None:
        if self._ended.done():
            return
        try:
            effects = self.shard.step(event, self._now)
        except PenstockError as error:  # what the application published cannot be framed, say
            self.end(error)
            return
        except Exception as error:
            self.end(InternalError(f"shard {self.shard.spec.shard}: {type(error).__name__}: {error}"))
            raise
        if isinstance(event, Restored):
            self._restored_acks = {effect.number for effect in effects if isinstance(effect, AppendIntent)}
        self._perform(effects)
        self._note_idle()

    def _note_idle(self) -> None:
        if self._is_draining and self.shard.running is None and self.shard.prior is None:
            self._idle.set()

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._perform_one(effect)

    def _perform_one(self, effect: Effect) -> None:  # noqa: C901 (one case each)
        match effect:
            case ReadSource():
                if not self._is_draining:
                    self._tasks.start(self._read(effect), f"reads {effect.journal}")
            case AppendIntent(number, journal, data):
                self._lanes.put(number, journal, data)
            case Restore():
                self._work.put_nowait(self._restore)
            case Consume():
                self._work.put_nowait(lambda: self._consume(effect))
            case Finalize(txn):
                self._work.put_nowait(lambda: self._finalize(txn))
            case Seal():
                self._sealed[effect.txn] = asyncio.Event()
                self._work.put_nowait(lambda: self._seal(effect))
            case CommitShard(txn):
                self._tasks.start(self._commit(txn), "commits")
            case SetTimer(name, at):
                self._set_timer(name, at)
            case Reply(request, result):
                future = self._requests.get(request)
                if future is not None and not future.done():
                    future.set_result(result)
            case Noticed(journal, found):
                log.warning("passed over", shard=self.shard.spec.shard, journal=journal, found=str(found))
            case ShardProgress():
                pass
            case Stop(reason):
                self.end(MalformedFrame(reason))  # of a source: nothing else stops it by itself
            case _:
                raise AssertionError(f"unknown effect {effect}")

    # What effects do

    async def _read(self, wanted: ReadSource) -> None:
        reader = self._readers.get(wanted.journal)
        if reader is None:
            reader = self._readers[wanted.journal] = SourceReader(self._journals, wanted.journal)
        chunk = await reader.read(wanted)
        if not self._is_draining:
            self._post(chunk)

    def _appended(self, number: int, end: Offset) -> None:
        self._post(IntentAppended(number, end))

    def _append_failed(self, number: int, error: PenstockError) -> None:
        if isinstance(error, NotFound) and number in self._restored_acks:
            # No reader can read the messages that they would commit; and a shard must not fail for ever for a journal
            # it once used.
            log.warning("journal of an ACK intent is gone", shard=self.shard.spec.shard, reason=str(error))
            self._appended(number, Offset(0))
        else:
            self.end(error)

    def _set_timer(self, name: str, at: Instant) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, at - self._now) / 1e9
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._post, TimerFired(name))

    # What the application and the store do, one after the other

    async def _work_in_order(self) -> None:
        while True:
            work = await self._work.get()
            await work()

    async def _restore(self) -> None:
        checkpoint = await self._store.restore()
        self._on_restored()
        self._post(Restored(checkpoint))

    async def _consume(self, effect: Consume) -> None:
        self._post(Consumed(await self._consuming.consume(effect.txn, effect.journal, effect.messages)))

    async def _finalize(self, txn: int) -> None:
        self._post(Finalized(await self._consuming.finalize(txn)))

    async def _seal(self, effect: Seal) -> None:
        await self._store.seal(effect.checkpoint)
        self._sealed[effect.txn].set()

    async def _commit(self, txn: int) -> None:
        await self._sealed[txn].wait()
        del self._sealed[txn]
        await self._store.commit()
        self.transactions += 1
        self._post(ShardCommitted(txn))


def reason_of(error: BaseException | None) -> str:
    """Why a life ended, in words."""
    if error is None:
        return "told to stop"
    name = "" if isinstance(error, PenstockError) else f"{type(error).__name__}: "
    return f"{name}{error}"[:REASON_CHARS_MAX]
