"""Embedded KeySpaces to test: a folder of their own, and a clock which the test moves."""

from contextlib import AsyncExitStack
from pathlib import Path

from penstock.kernel.ids import MILLISECOND
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace

QUICK = EmbeddedOptions(poll_ms=5)


class HandClock:
    """A clock that moves only by hand."""

    def __init__(self, name: str = "by hand", now_ns: int = 10**12) -> None:
        self.id = name
        self._now_ns = now_ns

    def now_ns(self) -> int:
        return self._now_ns

    def move(self, ms: int) -> None:
        self._now_ns += ms * MILLISECOND


class EmbeddedHarness:
    """One folder; every client is a KeySpace of its own, as in a process of its own."""

    prefix = "test/"
    lease_ms = 2_000

    def __init__(self, folder: Path, opened: AsyncExitStack, options: EmbeddedOptions = QUICK) -> None:
        self.folder = folder
        self.clock = HandClock()
        self._opened = opened
        self._options = options

    async def open(self) -> EmbeddedKeySpace:
        keyspace = await EmbeddedKeySpace.open(self.folder, self._options, clock=self.clock)
        return await self._opened.enter_async_context(keyspace)

    async def let_time_pass(self, ms: int) -> None:
        self.clock.move(ms)

    async def restart(self) -> None:
        """Do nothing: there is no server that could go away, only a file."""
