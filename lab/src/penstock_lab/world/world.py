"""One world: virtual time, one heap of calls to come, one digest of all that happened. Rules: rooms.md §2.

What always holds: calls run in the order of (time, number); nothing of the machine's time, memory addresses or hash
seed decides anything, so that a seed gives one digest everywhere (W9). The first failure ends the world.
"""

import gc
import sys
import warnings
from asyncio import events
from collections.abc import Callable
from hashlib import blake2b
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from penstock_lab.world.process import Life

__all__ = ["EPOCH_NS", "World", "WorldFailed"]

EPOCH_NS: Final = 1_780_000_000_000_000_000  # the time of day at which a world begins
STORY_LINES_MAX: Final = 200_000


class WorldFailed(AssertionError):
    """What a world found: the rule that was broken, with the time and the process."""


class World:
    """Everything of one seed."""

    def __init__(
        self,
        seed: int | str,
        *,
        story_of: str | None = None,
        epoch_ns: int = EPOCH_NS,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """`without`: occurrences of faults, and processes, that are left out."""
        self.seed = seed
        self.without = without
        self.happened: list[str] = []  # what could be left out
        self.now_ns = 0
        self.epoch_ns = epoch_ns
        self.rng = self.random("world")
        self.failure: str | None = None
        self.is_over = False
        self.ends_ns: int | None = None  # stop there, well
        self.turns = 0
        self.processes: list[Life] = []  # the dead too: their tasks must not end before the world does
        self.story: list[str] = []
        self.story_of = story_of
        self._hash = blake2b(digest_size=8)
        self._heap: list[tuple[int, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._number = 0
        self._tasks = 0

    def random(self, name: str) -> Random:
        """Return a generator of its own for a part of the world: parts do not disturb each other's draws."""
        return Random(f"{self.seed}/{name}")

    def next_number(self) -> int:
        """Return the number of a task or a future, which is its hash (W4)."""
        self._tasks += 1
        return self._tasks

    # Time

    def at(self, time_ns: int, call: Callable[..., Any], *args: Any) -> None:
        """Do something at a time; in the order of asking, if several are due."""
        self._number += 1
        heappush(self._heap, (max(time_ns, self.now_ns), self._number, call, args))

    def after(self, delay_ns: int, call: Callable[..., Any], *args: Any) -> None:
        self.at(self.now_ns + delay_ns, call, *args)

    def step(self) -> bool:
        """Do the next thing. False if there is none."""
        if not self._heap or self.failure is not None:
            return False
        self.now_ns, _, call, args = heappop(self._heap)
        call(*args)
        return True

    def run(self, is_done: Callable[[], bool], *, until_ns: int) -> bool:
        """Run until something holds, or a time has come. Raise `WorldFailed` if the world fails first."""
        heap = self._heap
        if self.ends_ns is not None:
            until_ns = min(until_ns, self.ends_ns)
        while not is_done() and self.failure is None and heap and heap[0][0] <= until_ns:
            self.now_ns, _, call, args = heappop(heap)
            call(*args)
        self.check()
        if not is_done():
            self.now_ns = max(self.now_ns, until_ns)
            if self.now_ns == self.ends_ns:
                raise WorldFailed("stopped")
        return is_done()

    # What happened

    def note(self, process: str, port: str, operation: str, data: bytes | bytearray | memoryview = b"") -> None:
        """Add a port's call to the digest, and to the story if this process is watched."""
        line = f"{self.now_ns} {process} {port} {operation} {crc32(data):08x}"
        self._hash.update(line.encode())
        if self.story_of is not None:
            self.tell(process, f"{port:8} {operation}" + (f" {len(data)} bytes {crc32(data):08x}" if data else ""))

    def tell(self, process: str, line: str) -> None:
        """Add a line to the story, which is no part of the digest."""
        if self.story_of in (process, "*") and len(self.story) < STORY_LINES_MAX:
            self.story.append(f"{self.now_ns / 1e9:13.6f} {process:10} {line}")

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    # The end

    def fail(self, reason: str) -> None:
        """End the world. The first reason counts, and none after the end."""
        if self.failure is None and not self.is_over:
            self.failure = f"{self.now_ns / 1e9:.6f} s: {reason}"
            self.tell(self.story_of or "", f"world    {reason}")

    def check(self) -> None:
        """Raise what ended this world, if something did."""
        if self.failure is not None:
            raise WorldFailed(self.failure)

    def end(self) -> None:
        """Stop everything. Ports answer nothing from now on: what tasks do when they are let go reaches nothing."""
        if self.is_over:
            return
        self.is_over = True
        self._heap.clear()
        lives, self.processes = self.processes, []
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # a coroutine may await while it is ended
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loop = None
                while lives:
                    loop = lives.pop().loop
                    loop.let_go()
                # Garbage may start tasks: they must not land on a real loop of this thread.
                events._set_running_loop(loop)
                gc.collect()
                events._set_running_loop(None)
                if loop is not None:
                    loop.let_go()
        finally:
            self._heap.clear()
            sys.unraisablehook = hook
