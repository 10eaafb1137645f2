"""Tells the allocator what journals cost: the primary measures how much is appended, and writes it down now and then.

Design: gazette.md §5.1 (Gazette's #237: balance by load, not by the number of journals);
`journals/core/allocation.py` reads it. Rates are smoothed over some minutes and rounded to powers of two, and a
journal's rate is written only when it is another one: so that a steady cluster writes nothing, and noise
moves no journal.
"""

import asyncio
import contextlib
import math
from collections.abc import Callable
from typing import Final, Self

from penstock.journals.core.allocation import decode_load, encode_load
from penstock.kernel.errors import PenstockError
from penstock.keyspace.core.limits import OPERATIONS_MAX
from penstock.keyspace.core.mirror import MirrorEntry
from penstock.keyspace.core.transaction import DeleteKey, Operation, PutKey
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.process.logs import get_logger

__all__ = ["LoadReporter", "rounded"]

INTERVAL_S: Final = 60.0
_MEMORY: Final = 0.7  # of the rate so far, in each new one: half of it is forgotten in two intervals
_SLACK: Final = 1.6  # how far a rate may be from the reported one: more than half way to the next power of two
_LEAST: Final = 1 << 16  # bytes per second; smaller rates are not worth a report

log = get_logger()


def rounded(rate: float) -> float:
    """The nearest power of two; nothing, if it is not worth telling.

    >>> rounded(1_000), rounded(1_000_000), rounded(1_500_000)
    (0.0, 1048576.0, 2097152.0)
    """
    return 2.0 ** round(math.log2(rate)) if rate >= _LEAST else 0.0


class LoadReporter:
    """Counts for all journals of a broker. `is_primary` says for which journals it reports; the report of a journal
    that no longer exists is removed by the first broker that sees it.

    `find` is its mirror's `range`: the rates that the allocator uses now, whichever broker reported them.
    """

    def __init__(
        self,
        keyspace: KeySpace,
        root: str,
        find: Callable[[str], list[MirrorEntry]],
        is_primary: Callable[[str], bool],
        exists: Callable[[str], bool] = lambda _: True,
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._keyspace = keyspace
        self._loads = f"{root}/loads/"
        self._find = find
        self._is_primary = is_primary
        self._exists = exists
        self._interval_s = interval_s
        self._bytes: dict[str, int] = {}  # appended since the last report
        self._rates: dict[str, float] = {}  # of journals which are not idle
        self._task: asyncio.Task[None] | None = None

    def start(self) -> Self:
        """Report from time to time, until it is closed."""
        self._task = asyncio.create_task(self._run(), name="reports loads")
        return self

    def note(self, journal: str, size: int) -> None:
        """Count appended bytes."""
        self._bytes[journal] = self._bytes.get(journal, 0) + size

    async def report(self) -> int:
        """Write the rates which have changed; return how many. Called every `interval_s` by itself."""
        counted, self._bytes = self._bytes, {}
        before, self._rates = self._rates, {}
        told = {entry.key[len(self._loads) :]: decode_load(entry.stored.value) for entry in self._find(self._loads)}
        changed: dict[str, float] = {}
        for journal in filter(self._is_primary, sorted({*counted, *before, *told})):
            rate = counted.get(journal, 0) / self._interval_s
            rate = _MEMORY * before.get(journal, rate) + (1 - _MEMORY) * rate
            if rate >= _LEAST:
                self._rates[journal] = rate
            known, load = told.get(journal, 0.0), rounded(rate)
            if load != known and not known / _SLACK <= rate <= known * _SLACK:
                changed[journal] = load
        changed.update({journal: 0.0 for journal in told if not self._exists(journal)})  # no broker is its primary
        await self._write(changed)
        return len(changed)

    async def _write(self, changed: dict[str, float]) -> None:
        operations = [self._operation(journal, load) for journal, load in changed.items()]
        for first in range(0, len(operations), OPERATIONS_MAX):
            await self._keyspace.transact(then=operations[first : first + OPERATIONS_MAX])

    def _operation(self, journal: str, load: float) -> Operation:
        key = self._loads + journal
        return PutKey(key, encode_load(load)) if load else DeleteKey(key)

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
