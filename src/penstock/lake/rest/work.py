"""Long work that a request starts: it continues after the answer, and its status can be asked for. Bounded.

A finished work is remembered until `REMEMBERED_MAX` newer ones have come. Work belongs to the member it was started on:
a restart forgets it, and the branch's log tells what became of it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.kernel.errors import NotFound, Overloaded, PenstockError
from penstock.lake.records.service import Commit, Garbage, Progress
from penstock.plumbing.ports.ports import Clocks, Ports, system_ports
from penstock.plumbing.process.defects import defect

__all__ = ["Work", "Works"]

RUNNING_MAX: Final = 100
REMEMBERED_MAX: Final = 1000


@dataclass(slots=True)
class Work:
    """One of them."""

    id: str
    clock: Clocks
    progress: Progress = field(default_factory=lambda: Progress("waiting"))
    updated_at: float = 0.0
    result: Commit | Garbage | None = None
    error: PenstockError | None = None

    @property
    def is_completed(self) -> bool:
        return self.result is not None or self.error is not None

    def watch(self, progress: Progress) -> None:
        self.progress, self.updated_at = progress, self.clock.time_ns() / 1e9


class Works:
    """All work of one server."""

    def __init__(self, ports: Ports | None = None) -> None:
        self._ports = ports or system_ports()
        self._works: OrderedDict[str, Work] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, call: Callable[[Callable[[Progress], None]], Awaitable[Commit | Garbage]]) -> Work:
        """Start a call that reports its progress, and returns a commit or the garbage."""
        if len(self._tasks) >= RUNNING_MAX:
            raise Overloaded(f"{RUNNING_MAX} pieces of work are under way already")
        clock = self._ports.clock
        work = Work(self._ports.chance.token(12).hex(), clock, updated_at=clock.time_ns() / 1e9)
        self._works[work.id] = work
        while len(self._works) > REMEMBERED_MAX:
            self._works.popitem(last=False)
        task = asyncio.get_running_loop().create_task(self._run(work, call), name=f"lake work {work.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return work

    async def _run(self, work: Work, call: Callable[[Callable[[Progress], None]], Awaitable[Commit | Garbage]]) -> None:
        try:
            work.result = await call(work.watch)
        except PenstockError as error:
            work.error = error
        except Exception as error:  # the waiting client would wait for ever
            work.error = defect("lake work", error, request=work.id)
        work.updated_at = self._ports.clock.time_ns() / 1e9

    def get(self, id_: str) -> Work:
        if id_ not in self._works:
            raise NotFound(f"no work has the id {id_[:64]!r} on this member", kind="work")
        return self._works[id_]
