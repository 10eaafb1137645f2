"""A mirror at work: loads, watches, catches up after a compaction, and lets tasks wait for a revision.

The folding is `penstock.keyspace.core.mirror`; this is the shell around it. Observers run on the event loop, once for
each application, in the order they were added, when the mirror already is at the new state. No task can see it half
done, since nothing awaits in between. Tasks which wait for a revision run after all observers have seen it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Final, Self

from penstock.kernel.errors import (
    AlreadyClosed,
    Compacted,
    Indeterminate,
    InternalError,
    PenstockError,
    ProtocolViolation,
    Unavailable,
)
from penstock.kernel.ids import Revision
from penstock.keyspace.core.mirror import Decoder, Mirror, MirrorChange, MirrorEntry
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger

__all__ = ["KeySpaceMirror"]

Observer = Callable[[MirrorChange], None]

_RETRY_S: Final = 0.1  # after a failed read; doubles up to the next figure
_RETRY_S_MAX: Final = 5.0
_PATIENCE_S: Final = 0.25  # how long a wanted revision may be late before we look why; doubles up to the next figure
_PATIENCE_S_MAX: Final = 10.0

log = get_logger()


class KeySpaceMirror:
    """A live local copy of all keys under a prefix. Make one with `start`.

    `on_failure` is called at most once, when the mirror cannot continue: the KeySpace forgot, failed for good, or an
    observer raised. Its process must then end: what the mirror shows is no longer kept up to date.
    """

    def __init__(
        self,
        keyspace: KeySpace,
        prefix: str,
        decoders: Mapping[str, Decoder] | None = None,
        *,
        on_failure: Callable[[PenstockError], None] = lambda _: None,
    ) -> None:
        self._keyspace = keyspace
        self._mirror = Mirror(prefix, decoders)
        self._on_failure = on_failure
        self._observers: list[Observer] = []
        self._waiting: list[tuple[Revision, int, asyncio.Future[None]]] = []  # a heap, by revision
        self._tickets = count()
        self._failure: PenstockError | None = None
        self._following: asyncio.Task[None] | None = None
        self._catching_up: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        keyspace: KeySpace,
        prefix: str,
        decoders: Mapping[str, Decoder] | None = None,
        *,
        on_failure: Callable[[PenstockError], None] = lambda _: None,
    ) -> Self:
        """Load, and begin to follow. The returned mirror is at some revision of the KeySpace already."""
        mirror = cls(keyspace, prefix, decoders, on_failure=on_failure)
        await mirror._load()
        mirror._following = asyncio.create_task(mirror._follow(), name=f"mirror {prefix}")
        return mirror

    # Asking

    @property
    def revision(self) -> Revision:
        return self._mirror.revision

    def has_revision(self, revision: Revision) -> bool:
        return self._mirror.has_revision(revision)

    def get(self, key: str) -> MirrorEntry | None:
        return self._mirror.get(key)

    def range(self, prefix: str) -> list[MirrorEntry]:
        """Return all entries under a prefix, sorted by key, at `revision`."""
        return self._mirror.range(prefix)

    def __len__(self) -> int:
        return len(self._mirror)

    # Waiting and observing

    async def wait_for_revision(self, revision: Revision) -> None:
        """Wait until the mirror has a revision, whether or not it changed anything under the prefix."""
        if self.has_revision(revision):
            return
        self._check_open()
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (revision, next(self._tickets), reached))
        if self._catching_up is None:
            self._catching_up = asyncio.create_task(self._catch_up(), name="mirror catching up")
        await reached

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call `observer` for every application from now on, until the returned function is called."""
        self._observers.append(observer)

        def stop() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return stop

    # Life

    async def close(self) -> None:
        for task in (self._following, self._catching_up):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._following = self._catching_up = None
        self._fail_waiting(AlreadyClosed("the mirror is closed"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._following is None:
            raise AlreadyClosed("the mirror is closed")

    # Following the KeySpace

    async def _follow(self) -> None:
        try:
            while True:
                try:
                    await self._watch()
                except (Compacted, ProtocolViolation) as lost:
                    log.info("mirror reloaded", prefix=self._mirror.prefix, reason=str(lost))
                    await self._load()
        except PenstockError as error:
            self._fail(error)

    async def _watch(self) -> None:
        async with self._keyspace.watch(self._mirror.prefix, Revision(self.revision + 1)) as watch:
            async for batch in watch:
                self._applied(self._mirror.apply(batch))

    async def _load(self) -> None:
        pause_s = _RETRY_S
        while True:
            try:
                snapshot = await self._keyspace.range(self._mirror.prefix)
            except (Unavailable, Indeterminate) as error:
                log.info("mirror cannot read", prefix=self._mirror.prefix, reason=str(error))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_S_MAX)
            else:
                self._applied(self._mirror.load(snapshot))
                return

    async def _catch_up(self) -> None:
        """Read the KeySpace while a task waits for a revision that it has and that the watch does not show.

        A watch may be silent about revisions which changed nothing under its prefix (etcd's is, for minutes).
        """
        pause_s = _PATIENCE_S
        try:
            while self._waiting:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _PATIENCE_S_MAX)
                self._waiting = sorted(waiting for waiting in self._waiting if not waiting[2].done())
                with contextlib.suppress(Unavailable, Indeterminate):
                    there = (await self._keyspace.status()).revision
                    if self._waiting and there >= self._waiting[0][0]:  # the waiting tasks may be gone by now
                        snapshot = await self._keyspace.range(self._mirror.prefix)
                        if snapshot.revision > self.revision:  # else the watch was faster
                            self._applied(self._mirror.load(snapshot))
        except PenstockError as error:
            self._fail(error)
        finally:
            self._catching_up = None

    def _applied(self, applied: MirrorChange) -> None:
        if self._failure is not None:
            raise self._failure
        if applied.changes:
            self._tell_observers(applied)
        while self._waiting and self.has_revision(self._waiting[0][0]):
            reached = heappop(self._waiting)[2]
            if not reached.done():
                reached.set_result(None)

    def _tell_observers(self, applied: MirrorChange) -> None:
        for observer in tuple(self._observers):
            try:
                observer(applied)
            except Exception as error:
                raise InternalError(f"an observer of the mirror failed: {type(error).__name__}: {error}") from error

    def _fail(self, error: PenstockError) -> None:
        if self._failure is None:
            self._failure = error
            log.error("mirror failed", prefix=self._mirror.prefix, reason=str(error))
            self._fail_waiting(error)
            self._on_failure(error)

    def _fail_waiting(self, error: PenstockError) -> None:
        while self._waiting:
            reached = heappop(self._waiting)[2]
            if not reached.done():
                reached.set_exception(error)
