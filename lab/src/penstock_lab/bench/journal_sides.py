"""The side of the journal benchmark which is ours: a cluster of real broker processes, loaded from this process."""

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import LIMITS, Journals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import Offset
from penstock.server.cluster.local import LocalCluster

__all__ = ["JOURNAL", "READY_S", "JournalWatch", "Ours", "bench_folder", "cluster_of", "load"]

JOURNAL: Final = "bench/journal"
COLD: Final = "bench/cold"
READY_S: Final = 120.0
FRAGMENT_BYTES: Final = 16 << 30  # so long that nothing is stored while appends are measured
PATIENT: Final = msgspec.structs.replace(LIMITS, pong_ms=60_000)  # a busy machine is not a dead broker
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Ours:
    """A running cluster of Penstock."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    @property
    def pids(self) -> list[int]:
        return list(self._cluster.plan.pids.values())

    def journals(self, *, is_direct: bool = False) -> Journals:
        return Journals(self._cluster.addresses("broker"), limits=PATIENT, direct=is_direct)

    def append(self, size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        """Appends per second, and how long each took."""
        return uvloop.run(self._append(size, in_flight, seconds))

    def serve(self, size: int, publishers: int, seconds: float) -> tuple[float, list[float]]:
        """The same through the append service: small ones become few large ones."""
        return uvloop.run(self._serve(size, publishers, seconds))

    def tail(self, size: int, in_flight: int, seconds: float) -> float:
        """Return the bytes per second of a reader that follows the appends, until it had all."""
        return uvloop.run(self._tail(size, in_flight, seconds))

    def read_spools(self, size: int) -> float:
        """Bytes per second of a read from the start of what the brokers' Spools hold."""
        return uvloop.run(self._read(JOURNAL, Offset(size)))

    def store(self, size: int) -> None:
        """Have this number of bytes of a journal in the store, and nowhere else."""
        uvloop.run(self._store(size))

    def read_stored(self, size: int, *, is_direct: bool) -> float:
        """Bytes per second of a read from the start of those: by this client itself, or through a broker."""
        return uvloop.run(self._read(COLD, Offset(size), is_direct=is_direct))

    def stream(self, size: int) -> float:
        """Bytes per second of one append which is so long."""
        return uvloop.run(self._stream(size))

    async def _append(self, size: int, in_flight: int, seconds: float) -> tuple[float, list[float]]:
        async with self.journals() as journals:
            await journals.append(JOURNAL, b"warm", timeout=READY_S)
            return await load(lambda data: journals.append(JOURNAL, data, timeout=READY_S), size, in_flight, seconds)

    async def _serve(self, size: int, publishers: int, seconds: float) -> tuple[float, list[float]]:
        async with self.journals() as journals, AppendService(journals, writer="bench") as service:
            await service.append(JOURNAL, b"warm")
            return await load(lambda data: service.append(JOURNAL, data), size, publishers, seconds)

    async def _tail(self, size: int, in_flight: int, seconds: float) -> float:
        async with self.journals() as journals:
            warm = await journals.append(JOURNAL, b"warm", timeout=READY_S)
            got, has_more = warm.begin, asyncio.Event()

            async def follow() -> None:
                nonlocal got
                async for chunk in journals.read(JOURNAL, warm.begin, follow=True):
                    got = chunk.end
                    has_more.set()

            async def until(offset: Offset) -> None:
                while got < offset and not following.done():
                    has_more.clear()
                    await has_more.wait()

            following = asyncio.create_task(follow())
            following.add_done_callback(lambda _: has_more.set())
            await until(warm.end)  # so that it is ready when the appends begin
            began = time.perf_counter()
            await load(lambda data: journals.append(JOURNAL, data, timeout=READY_S), size, in_flight, seconds)
            await until((await journals.stat(JOURNAL)).write_head)
            took = time.perf_counter() - began
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            return (got - warm.end) / took

    async def _read(self, journal: str, end: Offset, *, is_direct: bool = False) -> float:
        async with self.journals(is_direct=is_direct) as journals:
            began, size = time.perf_counter(), 0
            async for chunk in journals.read(journal, 0, end=end):
                size += len(chunk.content)
            return size / (time.perf_counter() - began)

    async def _store(self, size: int) -> None:
        brokers = self._cluster.addresses("broker")
        fragment = FragmentSpec(length=max(1 << 20, size // 4), refresh_interval_ms=1_000)
        async with self.journals() as journals:
            await journals.create(JournalSpec(name=COLD, replication=len(brokers), fragment=fragment))
            end = Offset(0)
            while end < size + fragment.length:  # the last Fragment stays open
                end = (await journals.append(COLD, b"x" * (256 << 10), timeout=READY_S)).end
            wanted = [(broker, at) for broker in brokers for at in range(0, size, fragment.length)]
            while wanted:
                if await self._is_stored(journals, *wanted[-1]):
                    wanted.pop()
                else:
                    await asyncio.sleep(0.05)

    async def _is_stored(self, journals: Journals, broker: str, at: int) -> bool:
        fragment = (await journals.stat(COLD, at, address=broker)).fragment
        return fragment is not None and fragment.backing_store != ""

    async def _stream(self, size: int) -> float:
        piece = b"x" * (1 << 20)

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(size // len(piece)):
                yield piece

        async with self.journals() as journals:
            await journals.append(JOURNAL, b"warm", timeout=READY_S)
            began = time.perf_counter()
            await journals.append(JOURNAL, pieces(), timeout=3600.0)
            return size / (time.perf_counter() - began)


async def load(
    append: Callable[[bytes], Awaitable[object]], size: int, in_flight: int, seconds: float
) -> tuple[float, list[float]]:
    """Appends per second, and how long each took: at least one by each writer, however busy the machine is."""
    data, times = b"x" * size, list[float]()
    end = time.perf_counter() + seconds

    async def writer() -> None:
        now = 0.0
        while now < end:
            start = time.perf_counter()
            await append(data)
            now = time.perf_counter()
            times.append(now - start)

    began = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(in_flight)))
    return len(times) / (time.perf_counter() - began), times


class JournalWatch:
    """Looks at processes from outside: their memory, its peak, and their processor time."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._is_over = threading.Event()
        self._peaks = self.memory_bytes()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def memory_bytes(self) -> list[int]:
        """Resident memory of each."""
        return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES for pid in self._pids]

    def cpu_s(self) -> float:
        """Processor time which all of them together have used so far."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(stat[11]) + int(stat[12]) for stat in stats) / _TICKS_PER_S

    @contextmanager
    def peaks(self) -> Iterator[list[int]]:
        """The list holds the largest memory of each process, during the block and after it."""
        self._thread.start()
        try:
            yield self._peaks
        finally:
            self._is_over.set()
            self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.02):
            self._peaks[:] = map(max, self._peaks, self.memory_bytes())


@contextmanager
def cluster_of(folder: Path, brokers: int) -> Iterator[Ours]:
    """Broker processes which end with the block, and a journal on all of them."""
    cluster = LocalCluster.create(folder, nodes=0, brokers=brokers, lease_ms=20_000)
    try:
        cluster.start_all()
        asyncio.run(_until_it_answers(cluster, brokers))
        yield Ours(cluster)
    finally:
        cluster.stop_all()


async def _until_it_answers(cluster: LocalCluster, replicas: int) -> None:
    async with Journals(cluster.addresses("broker")) as journals:
        spec = JournalSpec(name=JOURNAL, replication=replicas, fragment=FragmentSpec(length=FRAGMENT_BYTES))
        await _patiently(lambda: journals.create(spec))
        await _patiently(lambda: journals.append(JOURNAL, b"warm", timeout=READY_S / 4))


async def _patiently(ask: Callable[[], Awaitable[object]]) -> None:
    """Until it succeeds: brokers which have just started do not know each other yet."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            await ask()
            return
        except PenstockError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)


@contextmanager
def bench_folder() -> Iterator[Path]:
    """Next to the work, not in /tmp, which is memory on many machines."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-journal-", dir=Path.cwd()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
