"""Tells the allocator what journals cost: the primary measures how much is appended, and writes it down now and then.

Design: gazette.md §5.1 (Gazette's #237: balance by load, not by the number of journals); `journal/allocation.py` reads
it. Rates are smoothed over some minutes and rounded to powers of two, and a journal's rate is written only when it is
another one: so that a steady cluster writes nothing, and noise moves no journal.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Final, Self

import structlog

from penstock.base.errors import PenstockError
from penstock.journal.allocation import encode_load
from penstock.keyspace.limits import OPERATIONS_MAX
from penstock.keyspace.mirror import Entry
from penstock.keyspace.transaction import Delete, Operation, Put
from penstock.runtime.keyspace.port import KeySpace

__all__ = ["LoadReporter", "rounded"]

INTERVAL_S: Final = 60.0
_MEMORY: Final = 0.7  # of the rate so far, in each new one: half of it is forgotten in two intervals
_SLACK: Final = 1.6  # how far a rate may be from what was told: more than half way to the next power of two
_LEAST: Final = 1 << 16  # bytes per second; what is below costs nothing worth telling

log = structlog.get_logger()


def rounded(rate: float) -> float:
    """The nearest power of two; nothing, if it is not worth telling.

    >>> rounded(1_000), rounded(1_000_000), rounded(1_500_000)
    (0.0, 1048576.0, 2097152.0)
    """
    return 2.0 ** round(math.log2(rate)) if rate >= _LEAST else 0.0


class LoadReporter:
    """Counts for all journals of a broker. `get` is its mirror's; `is_primary` says which journals are its to tell."""

    def __init__(
        self,
        keyspace: KeySpace,
        root: str,
        get: Callable[[str], Entry | None],
        is_primary: Callable[[str], bool],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._keyspace = keyspace
        self._loads = f"{root}/loads/"
        self._get = get
        self._is_primary = is_primary
        self._interval_s = interval_s
        self._bytes: dict[str, int] = {}  # appended since the last report
        self._rates: dict[str, float] = {}
        self._told: dict[str, float] = {}  # by us, while we are primary
        self._task: asyncio.Task[None] | None = None

    def start(self) -> Self:
        """Report from time to time, until it is closed."""
        self._task = asyncio.create_task(self._run(), name="reports loads")
        return self

    def note(self, journal: str, size: int) -> None:
        """So many bytes were appended."""
        self._bytes[journal] = self._bytes.get(journal, 0) + size

    async def report(self) -> int:
        """Write the rates which have changed; return how many. Called every `interval_s` by itself."""
        counted, self._bytes = self._bytes, {}
        changed: dict[str, float] = {}
        for journal in sorted({*counted, *self._rates}):
            if not self._is_primary(journal):
                self._rates.pop(journal, None)
                self._told.pop(journal, None)
                continue
            rate = counted.get(journal, 0) / self._interval_s
            self._rates[journal] = _MEMORY * self._rates.get(journal, rate) + (1 - _MEMORY) * rate
            known, load = self._known(journal), rounded(self._rates[journal])
            if load != known and not known / _SLACK <= self._rates[journal] <= known * _SLACK:
                changed[journal] = load
            elif not load and journal not in self._told:
                del self._rates[journal]  # idle, and nobody thinks otherwise
        await self._write(changed)
        return len(changed)

    def _known(self, journal: str) -> float:
        """What the allocator goes by, as far as we know."""
        if journal not in self._told:
            entry = self._get(self._loads + journal)
            self._told[journal] = 0.0 if entry is None else -1.0  # what another primary told may be anything
        return self._told[journal]

    async def _write(self, changed: dict[str, float]) -> None:
        for first in range(0, len(changed), OPERATIONS_MAX):
            part = dict(list(changed.items())[first : first + OPERATIONS_MAX])
            await self._keyspace.transact(then=[self._operation(*each) for each in part.items()])
            self._told.update(part)
        for journal, load in changed.items():
            if not load:
                self._rates.pop(journal, None)
                self._told.pop(journal, None)

    def _operation(self, journal: str, load: float) -> Operation:
        key = self._loads + journal
        return Put(key, encode_load(load)) if load else Delete(key)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.report()
            except PenstockError as error:
                log.info("loads not reported", reason=str(error))  # the next report says it again

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
