"""The persister: brings final Fragments from Spools into stores. Design: gazette.md §2.4, journals.md J11.

A primary stores a Fragment at once; replicas wait, and then store it only if no other did: so each is stored once while
all is well. When another primary leads they wait no longer: it need not have the earlier content. Failures are tried
again, for ever, ever more slowly: until then the file stays, and readers are served from it. A broker which exits
hastens all that waits, and waits for it.

The core decides what to store: only Fragments that its effects named ever come here.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, Self

import msgspec

from penstock.journals.broker.spools.spool_file import SpoolFile
from penstock.journals.broker.spools.unstored import Unstored
from penstock.journals.records.fragment import Fragment
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import PenstockError
from penstock.plumbing.process.logs import get_logger

__all__ = ["Persister", "PersisterOptions"]

_JITTER: Final = 0.25  # of a replica's delay, so that not all come at one time

log = get_logger()

Stored = Callable[[Fragment], None]  # told with its store and time


class PersisterOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are Gazette's."""

    in_flight_max: int = 32
    late_ms: int = 120_000  # how long a replica leaves it to the primary
    attempt_ms_max: int = 300_000
    retry_ms: int = 1_000  # after a failure; doubles up to the next figure
    retry_ms_max: int = 60_000


class _Job:
    """One Fragment on its way."""

    def __init__(self, fragment: Fragment, file: SpoolFile, urls: tuple[str, ...], on_stored: Stored) -> None:
        self.fragment = fragment
        self.file = file
        self.urls = urls
        self.on_stored = on_stored
        self.hurry = asyncio.Event()
        self.failures = 0
        self.task: asyncio.Task[Fragment] | None = None

    @property
    def url(self) -> str:
        """New Fragments go to the first store. A broker that exits tries the others too, rather than to wait."""
        return self.urls[self.failures % len(self.urls) if self.hurry.is_set() else 0]


class Persister:
    """Shared by all journals of a broker. `close` it before the stores."""

    def __init__(
        self,
        stores: FragmentStores,
        random: Random,
        options: PersisterOptions | None = None,
        unstored: Unstored | None = None,
    ) -> None:
        """`unstored` counts what waits."""
        self._stores = stores
        self._unstored = unstored
        self._options = options or PersisterOptions()
        self._random = random
        self._gate = asyncio.Semaphore(self._options.in_flight_max)
        self._jobs: dict[str, dict[str, _Job]] = {}  # journal → content path → job

    def submit(
        self, fragment: Fragment, file: SpoolFile, urls: tuple[str, ...], *, is_late: bool, on_stored: Stored
    ) -> None:
        """Store a Fragment from its file, which the caller holds for us, and tell when that is done.

        `is_late`: this broker is a replica. A Fragment which is on its way already is not stored twice.
        """
        assert urls, "a journal without stores keeps its fragments"
        jobs = self._jobs.setdefault(fragment.journal, {})
        if fragment.content_path in jobs:
            file.release()
            return
        job = jobs[fragment.content_path] = _Job(fragment, file, urls, on_stored)
        delay_s = self._options.late_ms / 1e3 * (1 + _JITTER * self._random.random()) if is_late else 0.0
        job.task = asyncio.create_task(self._persist(job, delay_s), name=f"storing {fragment.content_path}")
        job.task.add_done_callback(partial(self._ended, job))
        if self._unstored is not None:
            self._unstored.submitted(fragment.length)

    def hasten(self, journal: str | None = None) -> None:
        """Do not wait any longer: this broker is the primary now, or exits. Without a name: all journals."""
        for job in self._of(journal):
            job.hurry.set()

    def cancel(self, journal: str) -> None:
        """Cancel the uploads of a deleted journal."""
        for job in self._of(journal):
            assert job.task is not None
            job.task.cancel()

    async def stored(self, journal: str | None = None) -> None:
        """Wait until nothing is on its way any more."""
        while jobs := self._of(journal):
            await asyncio.wait([job.task for job in jobs if job.task is not None])
            await asyncio.sleep(0)  # callbacks of their end come later

    def waiting(self, journal: str | None = None) -> list[Fragment]:
        """Return the Fragments that are not in their store yet."""
        return sorted((job.fragment for job in self._of(journal)), key=lambda each: (each.journal, each.begin))

    async def close(self) -> None:
        """Give up uploads under way; the next run finds the files of kept Spools again."""
        tasks = [job.task for job in self._of(None) if job.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _of(self, journal: str | None) -> list[_Job]:
        chosen = self._jobs.values() if journal is None else [self._jobs.get(journal, {})]
        return [job for jobs in chosen for job in jobs.values()]

    async def _persist(self, job: _Job, delay_s: float) -> Fragment:
        await _pause(job, delay_s)
        while (stored := await self._attempt(job)) is None:
            await _pause(job, self._retry_s(job))
        return stored

    def _ended(self, job: _Job, task: asyncio.Task[Fragment]) -> None:
        """Also of a task which was cancelled before it ran at all."""
        job.file.release()
        jobs = self._jobs[job.fragment.journal]
        del jobs[job.fragment.content_path]
        if self._unstored is not None:
            self._unstored.ended(job.fragment.length, is_stored=not task.cancelled())
        if not jobs:
            del self._jobs[job.fragment.journal]
        if not task.cancelled():
            job.on_stored(task.result())

    async def _attempt(self, job: _Job) -> Fragment | None:
        url = job.url
        try:
            async with self._gate, asyncio.timeout(self._options.attempt_ms_max / 1e3):
                return await self._stores.upload(job.fragment, job.file, url)
        except (PenstockError, TimeoutError) as error:
            job.failures += 1
            if self._unstored is not None:
                self._unstored.failed(str(error) or "it took too long")
            log.warning(
                "fragment not stored",
                fragment=job.fragment.content_path,
                store=url,
                failures=job.failures,
                reason=str(error) or "it took too long",
            )
            return None

    def _retry_s(self, job: _Job) -> float:
        doubled = self._options.retry_ms << min(job.failures - 1, 30)
        return min(doubled, self._options.retry_ms_max) / 1e3


async def _pause(job: _Job, pause_s: float) -> None:
    """Wait, unless there is a hurry; after a failure in a hurry, a little."""
    if job.hurry.is_set():
        await asyncio.sleep(min(pause_s, 0.1 * job.failures))
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(pause_s):
            await job.hurry.wait()
