"""A shard of this process: stands by or consumes; lives again after each failure, later each time, and says why.

A life (`shard_run.py`) ends by a failure of the application, the store or a journal. The next one begins with a newly
opened store, whose fence ends the transactions of other processes. A life that was fenced waits longer: another process
serves now, and the KeySpace is about to say so.
"""

import asyncio
import traceback
from collections.abc import Callable
from random import Random
from typing import Any, Final, Protocol, runtime_checkable

from penstock.consumers.client.status import ShardCode, ShardStatus
from penstock.consumers.core.shard import ShardSpec
from penstock.consumers.core.stat import Stat, StatResult
from penstock.consumers.core.store import Store
from penstock.consumers.stores.application import Application, ShardContext
from penstock.consumers.worker.shard_run import ShardRun, reason_of
from penstock.journals.client.journal import Journals
from penstock.kernel.errors import Fenced, PenstockError, Unavailable
from penstock.messages.uuid import producer_id
from penstock.plumbing.process.logs import get_logger

__all__ = ["ShardHost"]

PAUSE_S: Final = (0.1, 30.0)  # before the second life; doubles up to the next figure
FENCED_PAUSE_S: Final = 2.0
DRAIN_S: Final = 5.0

log = get_logger()


@runtime_checkable
class HotStore(Protocol):
    """A store which has something to prepare for a restore."""

    async def standby(self) -> None:
        """Return when it is ready, and stay so until it is restored or closed."""
        ...


class ShardHost:
    """Runs a shard until it is closed. Use it as an async context manager.

    `may_live` is asked before each life. `on_status` is called with each new status, on the event loop.
    """

    def __init__(
        self,
        spec: ShardSpec,
        application: Application[Any],
        journals: Journals,
        *,
        context: ShardContext | None = None,
        is_primary: bool = True,
        may_live: Callable[[], bool] = lambda: True,
        on_status: Callable[[ShardStatus], None] = lambda _: None,
        random: Random | None = None,
    ) -> None:
        self.spec = spec
        self.status = ShardStatus()
        self.transactions = 0  # committed by all lives
        self._application = application
        self._journals = journals
        self._context = context or ShardContext(spec.shard, journals)
        self._may_live = may_live
        self._on_status = on_status
        self._random = random or journals.ports.chance.generator()
        self._run: ShardRun | None = None
        self._last_failure = ""  # why the life before has ended: this one may fail the same way
        self._changed = asyncio.Event()  # another one after each change
        self._restart = asyncio.Event()
        self._promoted = asyncio.Event()
        if is_primary:
            self._promoted.set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "ShardHost":
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def start(self) -> None:
        self._task = asyncio.create_task(self._live(), name=f"shard {self.spec.shard}")

    async def close(self, *, drain_s: float = DRAIN_S) -> None:
        """Finish the transaction which is under way, if that is soon done; then end."""
        task, self._task = self._task, None
        if task is None:
            return
        if self._run is not None:
            await self._run.drain(drain_s)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self._say(ShardStatus())

    @property
    def is_primary(self) -> bool:
        return self._promoted.is_set()

    def promote(self) -> None:
        """Stand by no longer: consume."""
        self._promoted.set()

    def restart(self) -> None:
        """Begin a new life now, whether this one runs or waits after a failure."""
        self._restart.set()
        if self._run is not None:
            self._run.end(Unavailable("a restart was asked for"))

    async def stat(self, stat: Stat, *, timeout: float = 30.0) -> StatResult:
        """Wait until everything before these offsets has taken its full effect, through failures if there are any."""
        result = None
        try:
            async with asyncio.timeout(timeout):
                while result is None or not result.is_running:
                    result = await (await self._running()).stat(stat)
        except TimeoutError:
            goes_on = self._run is not None and self._run.transactions > 0
            why = f": {self._last_failure}" if self._last_failure and not goes_on else ""
            raise Unavailable(
                f"shard {self.spec.shard} has not come so far within {timeout:g} s{why}",
                next_step=f"penstock shards stat {self.spec.shard}",
            ) from None
        return result

    async def wait_for_status(self, *codes: ShardCode) -> ShardStatus:
        """Wait until the status is one of these."""
        while self.status.code not in codes:
            await self._changed.wait()
        return self.status

    async def _running(self) -> ShardRun:
        while self.status.code is not ShardCode.PRIMARY or self._run is None or self._run.has_ended:
            await self._changed.wait()
        return self._run

    # Lives

    async def _live(self) -> None:
        failures = 0
        while True:
            self._restart.clear()
            # A zombie which does not know it yet must not fence its successor.
            while not self._may_live():  # noqa: ASYNC110 (time decides it)
                await asyncio.sleep(PAUSE_S[0])
            before = self.transactions
            error = await self._live_once()
            if error is None:
                return
            failures = 1 if self.transactions > before else failures + 1
            pause_s = self._pause_s(failures, error)
            reason = self._last_failure = reason_of(error)
            self._say(ShardStatus(ShardCode.FAILED, reason, failures))
            where = "" if isinstance(error, PenstockError) else _where(error)
            log.warning("shard failed", shard=self.spec.shard, reason=reason, again_s=round(pause_s, 2), where=where)
            try:
                async with asyncio.timeout(pause_s):
                    await self._restart.wait()
            except TimeoutError:
                pass

    async def _live_once(self) -> Exception | None:
        """Live one life; None: it was asked to end."""
        producer = producer_id(self._random.getrandbits(48))
        try:
            store = self._application.open_store(self._context)
            if not self.is_primary:
                await self._stand_by(store)
            self._run = ShardRun(
                self.spec, self._application, store, self._journals, producer,
                on_restored=lambda: self._say(ShardStatus(ShardCode.PRIMARY)),
            )  # fmt: skip
            await self._run.run()
        except Exception as error:
            return error
        finally:
            if self._run is not None:
                self.transactions += self._run.transactions
            self._run = None
        return None

    async def _stand_by(self, store: Store[Any]) -> None:
        """Have the store ready for when it is wanted."""
        try:
            if isinstance(store, HotStore):
                await store.standby()
            self._say(ShardStatus(ShardCode.STANDBY))
            await self._promoted.wait()
        except BaseException:
            await store.close()
            raise

    def _pause_s(self, failures: int, error: Exception) -> float:
        least, most = PAUSE_S
        pause_s = min(most, least * float(1 << min(failures - 1, 16))) * self._random.uniform(0.5, 1.0)
        return max(FENCED_PAUSE_S, pause_s) if isinstance(error, Fenced) else pause_s

    def _say(self, status: ShardStatus) -> None:
        self.status = status
        self._on_status(status)
        self._changed.set()
        self._changed = asyncio.Event()


def _where(error: BaseException) -> str:
    """Return where an application raised: its innermost lines."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in reversed(frames))
