"""Drives the wire benchmark: a server and a client process per side, and the measurements that a client makes on
request.

A client process takes orders over a pipe and answers each with one figure, so that the sides can take turns while all
of them stay connected.
"""

import asyncio
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType
from typing import Any, Final

import msgspec

__all__ = ["Figure", "Order", "WireSide", "WireWork", "answer"]

SECONDS_MAX: Final = 120.0  # for one answer of a client
_spawn = multiprocessing.get_context("spawn")


class Order(msgspec.Struct, frozen=True):
    """What to measure, for how long, and how much is under way at once."""

    what: str  # "requests" per second, "latency" p50 in us, "messages" per second, "bulk" in MB/s
    seconds: float
    in_flight: int = 1


class Figure(msgspec.Struct, frozen=True):
    """The figure; requests that failed are not counted in the value."""

    value: float
    failed: int = 0


class WireWork(msgspec.Struct, frozen=True):
    """What a client can do: the same for every side."""

    request: Callable[[], Awaitable[object]]
    failure: type[Exception]  # what a failed request raises
    messages: Callable[[Order], Awaitable[int]]  # how many were echoed
    bulk: Callable[[Order], Awaitable[int]]  # how many bytes arrived


class WireSide:
    """A server and a client process of one kind, for as long as the block lasts."""

    def __init__(self, server: Callable[[Connection], None], client: Callable[[Connection], None]) -> None:
        self._server = _Child(server)
        self._client = _Child(client)
        self._is_introduced = False
        self.failed = 0  # requests, in all that was measured

    def __enter__(self) -> "WireSide":
        """Start both. That takes a moment, which the first order waits for: many sides can start at once."""
        self._server.start()
        self._client.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop()
        self._server.stop()

    def measure(self, order: Order) -> float:
        if not self._is_introduced:
            self._client.tell(self._server.hear())  # the server's address
            self._is_introduced = True
        self._client.tell(order)
        figure: Figure = self._client.hear()
        self.failed += figure.failed
        return figure.value


class _Child:
    """A process with a pipe to it."""

    def __init__(self, main: Callable[[Connection], None]) -> None:
        self._main = main
        self._process: SpawnProcess | None = None
        self._pipe, self._far_end = _spawn.Pipe()

    def start(self) -> None:
        self._process = _spawn.Process(target=self._main, args=(self._far_end,), daemon=True)
        self._process.start()
        self._far_end.close()

    def tell(self, what: Any) -> None:
        self._pipe.send(what)

    def hear(self) -> Any:
        if not self._pipe.poll(SECONDS_MAX):
            raise TimeoutError(f"{self._main.__name__} said nothing for {SECONDS_MAX:.0f} s")
        return self._pipe.recv()

    def stop(self) -> None:
        self._pipe.close()
        if self._process is not None:
            self._process.terminate()
            self._process.join()


async def answer(pipe: Connection, work: WireWork) -> None:
    """In a client process: measure what the driver orders, until it closes the pipe."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            order = await loop.run_in_executor(None, pipe.recv)
        except (EOFError, OSError):
            return
        pipe.send(await _measure(work, order))


async def _measure(work: WireWork, order: Order) -> Figure:
    begin = time.perf_counter()
    match order.what:
        case "requests":
            return await _requests_per_second(work, order)
        case "latency":
            return await _p50_us(work, order)
        case "messages":
            count = await work.messages(order)
            return Figure(count / (time.perf_counter() - begin))
        case _:
            size = await work.bulk(order)
            return Figure(size / (time.perf_counter() - begin) / 1e6)


async def _requests_per_second(work: WireWork, order: Order) -> Figure:
    begin = time.perf_counter()
    end = begin + order.seconds
    request, failure = work.request, work.failure
    done = failed = 0

    async def keep_asking() -> None:
        nonlocal done, failed
        while time.perf_counter() < end or done == 0:
            try:
                await request()
                done += 1
            except failure:
                failed += 1

    await asyncio.gather(*(keep_asking() for _ in range(order.in_flight)))
    return Figure(done / (time.perf_counter() - begin), failed)


async def _p50_us(work: WireWork, order: Order) -> Figure:
    samples: list[float] = []
    end = time.perf_counter() + order.seconds
    while (begin := time.perf_counter()) < end or not samples:
        await work.request()
        samples.append(time.perf_counter() - begin)
    return Figure(statistics.median(samples) * 1e6)
