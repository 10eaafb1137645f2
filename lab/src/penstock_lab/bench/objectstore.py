"""What does the object store port cost on a local folder, next to bare file calls?

Sides: `penstock` is the port. `durable files` is the least that keeps the same promise (write, fsync, rename, fsync of
the folder), in threads, without locks. `files` and `obstore` promise nothing about power cuts: they never sync.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, Final, Protocol

import obstore
import uvloop
from obstore.store import LocalStore

from penstock.plumbing.objects import open_store
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION: Final = "What does the object store port cost on a local folder, next to bare file calls?"

SIZES: Final = {"4 KiB": 4 << 10, "1 MiB": 1 << 20, "2 MiB": 2 << 20, "64 MiB": 64 << 20}
CHUNK_BYTES: Final = 1 << 20  # larger objects go through the streams, in chunks of this
COUNT_MAX: Final = 200
BATCH_BYTES: Final = 192 << 20


class Side(Protocol):
    """One way to keep objects. Both calls are for one object, the `number`th."""

    def batch(self, call: Callable[[int], Any], count: int, in_flight: int) -> None: ...
    def put(self, number: int, data: bytes) -> Any: ...
    def get(self, number: int) -> Any: ...
    def close(self) -> None: ...


def run(recorder: RowRecorder, options: Options) -> None:
    """Put and get objects of three sizes; small ones also eight at a time."""
    repeats = 1 if options.quick else max(3, options.repeats)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-"))
        sides = _open_sides(folder)
        for side in sides.values():
            stack.callback(side.close)
        for size_name in ("4 KiB", "1 MiB", "2 MiB" if options.quick else "64 MiB"):
            count = 3 if options.quick else min(COUNT_MAX, BATCH_BYTES // SIZES[size_name])
            for in_flight in (1, 8) if size_name == "4 KiB" else (1,):
                recorder.progress(f"objects of {size_name}, {in_flight} in flight")
                _compare(recorder, sides, size_name, count, in_flight, repeats)


def _compare(
    recorder: RowRecorder, sides: dict[str, Side], size_name: str, count: int, in_flight: int, repeats: int
) -> None:
    data = os.urandom(SIZES[size_name])
    puts = {name: _timed(side, partial(side.put, data=data), count, in_flight) for name, side in sides.items()}
    gets = {name: _timed(side, side.get, count, in_flight) for name, side in sides.items() if name != "durable files"}
    for what, cases in (("put", puts), ("get", gets)):
        for name, seconds in interleave(cases, repeats).items():
            each = seconds / count
            recorder.row(what, name, each * 1e6, "us/object", size=size_name, in_flight=in_flight)
            recorder.row(what, name, len(data) / each / 1e6, "MB/s", size=size_name, in_flight=in_flight)


def _timed(side: Side, call: Callable[[int], Any], count: int, in_flight: int) -> Callable[[], float]:
    def timed() -> float:
        began = time.perf_counter()
        side.batch(call, count, in_flight)
        return time.perf_counter() - began

    return timed


def _open_sides(folder: str) -> dict[str, Side]:
    return {
        "penstock": PortSide(f"{folder}/penstock"),
        "durable files": FilesSide(f"{folder}/durable", durable=True),
        "files": FilesSide(f"{folder}/files", durable=False),
        "obstore": ObstoreSide(f"{folder}/obstore"),
    }


class LoopSide:
    """Calls are coroutines on a uvloop, with some of them in flight."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

    def batch(self, call: Callable[[int], Coroutine[Any, Any, None]], count: int, in_flight: int) -> None:
        numbers = iter(range(count))

        async def worker() -> None:
            for number in numbers:
                await call(number)

        async def workers() -> None:
            await asyncio.gather(*(worker() for _ in range(in_flight)))

        self._runner.run(workers())

    def close(self) -> None:
        self._runner.close()


class PortSide(LoopSide):
    """The port, on a folder."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._store = open_store(f"file://{folder}")

    async def put(self, number: int, data: bytes) -> None:
        if len(data) <= CHUNK_BYTES:
            await self._store.put(f"objects/{number}", data)
            return
        async with self._store.writer(f"objects/{number}") as writer:
            for at in range(0, len(data), CHUNK_BYTES):
                await writer.write(memoryview(data)[at : at + CHUNK_BYTES])

    async def get(self, number: int) -> None:
        meta = (await self._store.get(f"objects/{number}", 0, CHUNK_BYTES)).meta
        if meta.size > CHUNK_BYTES:
            async with self._store.reader(f"objects/{number}", CHUNK_BYTES) as reader:
                async for _ in reader:
                    pass

    def close(self) -> None:
        self._runner.run(self._store.close())
        super().close()


class ObstoreSide(LoopSide):
    """The library on its own folder store, which does not sync."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._store = LocalStore(folder, mkdir=True)

    async def put(self, number: int, data: bytes) -> None:
        await obstore.put_async(self._store, f"objects/{number}", data, use_multipart=False)

    async def get(self, number: int) -> None:
        result = await obstore.get_async(self._store, f"objects/{number}")
        async for _ in result.stream(min_chunk_size=CHUNK_BYTES):
            pass


class FilesSide:
    """Bare calls in threads, as many as are in flight."""

    def __init__(self, folder: str, *, durable: bool) -> None:
        os.makedirs(f"{folder}/objects")
        self._folder = folder
        self._durable = durable

    def batch(self, call: Callable[[int], None], count: int, in_flight: int) -> None:
        if in_flight == 1:
            for number in range(count):
                call(number)
            return
        with ThreadPoolExecutor(in_flight) as threads:
            list(threads.map(call, range(count)))

    def put(self, number: int, data: bytes) -> None:
        staged, path = f"{self._folder}/{number}", f"{self._folder}/objects/{number}"
        with open(staged, "wb", buffering=0) as file:
            file.writelines(memoryview(data)[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
            if self._durable:
                os.fsync(file.fileno())
        os.rename(staged, path)
        if self._durable:
            folder = os.open(f"{self._folder}/objects", os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def get(self, number: int) -> None:
        with open(f"{self._folder}/objects/{number}", "rb", buffering=0) as file:
            while file.read(CHUNK_BYTES):
                pass

    def close(self) -> None:
        pass
