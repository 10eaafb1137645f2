"""The quorum log of a lake's world: one server in memory, which keeps the contract of `quorum.client.QuorumLog`.

    log = SimulatedLog(server, life)
    await log.append(ops, timeout=10)
    async for offset, txn in log.subscribe(Offset(1), is_gapless=True): ...

What always holds: one order; an acknowledged transaction stays in it; each takes an offset once; subscribers get all of
them in order, perhaps late. Faults: `Unavailable`, and then nothing is written; `Indeterminate`, and it may be written
up to 10 s later; late answers; a history that is trimmed, as docs/internals/quorum-log.md allows.
"""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

from penstock.kernel.errors import Compacted, Indeterminate, PenstockError, Unavailable, Written
from penstock.kernel.ids import Epoch, Offset
from penstock.quorum.records.entry import ClientId, Txn
from penstock_lab.world.ports.answers import Awaited

if TYPE_CHECKING:
    from penstock_lab.world.process import Life
    from penstock_lab.world.scene import Scene

__all__ = ["LogServer", "SimulatedLog"]

NAME: Final = "log"  # of its machine, for links that are cut
COMMIT_NS: Final = (500_000, 4_000_000)
LATE_NS: Final = (1_000_000, 10_000_000_000)
BATCH_MAX: Final = 50


class LogTrouble:
    """The faults of the log now."""

    def __init__(self) -> None:
        self.heal()

    def heal(self) -> None:
        self.is_away = False  # no node leads
        self.unavailable = 0.0
        self.indeterminate = 0.0
        self.lag_ns = 0  # until a subscriber gets a commit


class LogServer:
    """What all nodes together are to a client. It outlives its clients."""

    def __init__(self, scene: "Scene", kept: int = 0) -> None:
        """`kept`: how many transactions it keeps at least; 0: all."""
        self.world = scene.world
        self.links = scene.links
        self.trouble = LogTrouble()
        self.rng = scene.world.random("log")
        self.entries: list[Txn] = []
        self.first = 1  # the oldest offset that it has
        self._kept = kept
        self._parked: list[tuple[str, int, Awaited]] = []

    def write(self, client: str, ops: bytes) -> Offset:
        """Commit a transaction."""
        self.entries.append(Txn(Epoch(1), ClientId(client), self.last + 1, ops))
        self.world.note(NAME, "log", f"commits {self.last}", ops)
        if self._kept and self.last - self.first > 2 * self._kept:
            gone = self.last - self._kept + 1 - self.first
            del self.entries[:gone]
            self.first += gone
        parked, self._parked = self._parked, []
        for name, at, answer in parked:
            self.serve(name, at, answer, is_gapless=True)
        return self.last

    @property
    def last(self) -> Offset:
        return Offset(self.first + len(self.entries) - 1)

    def append(self, name: str, ops: bytes, answer: Awaited, timeout_ns: int) -> None:
        """A request to append has arrived."""
        trouble, rng = self.trouble, self.rng
        if trouble.is_away:
            failed = Unavailable("no node of the log leads", written=Written.NO)
            return self._answer(name, answer, None, failed, rng.randint(COMMIT_NS[0], timeout_ns))
        if rng.random() < trouble.unavailable:
            return self._answer(name, answer, None, Unavailable("the log refused this", written=Written.NO))
        if rng.random() < trouble.indeterminate:
            if rng.random() < 0.7:
                self.world.after(rng.randint(*LATE_NS), self.write, name, ops)
            return self._answer(name, answer, None, Indeterminate("the log did not answer"), timeout_ns)
        self.world.after(rng.randint(*COMMIT_NS), lambda: self._answer(name, answer, self.write(name, ops)))
        return None

    def _answer(
        self, name: str, answer: Awaited, result: object, error: PenstockError | None = None, delay_ns: int = 0
    ) -> None:
        def back() -> None:
            self.links.carry(NAME, name, lambda: answer.arrive(result, error))

        self.world.after(delay_ns + self.links.delay_ns(), back)

    def serve(self, name: str, at: int, answer: Awaited, *, is_gapless: bool) -> None:
        """A subscriber waits for the transactions from an offset on."""
        if answer.process.is_dead:
            return None
        if at < self.first:
            if is_gapless:
                gone = Compacted(f"the log begins at {self.first}, behind {at}")
                return self._answer(name, answer, None, gone)
            at = self.first
        if at > self.last:
            self._parked.append((name, at, answer))
            return None
        found = self.entries[at - self.first :][: self.rng.randint(1, BATCH_MAX)]
        told = [(Offset(at + number), txn) for number, txn in enumerate(found)]
        return self._answer(name, answer, told, None, self.rng.randint(0, max(1, self.trouble.lag_ns)))


class SimulatedLog:
    """The log, as a client in one process sees it."""

    def __init__(self, server: LogServer, process: "Life") -> None:
        self._server = server
        self._process = process

    async def append(self, ops: bytes, *, timeout: float = 5.0) -> Offset:
        """Append a transaction; its offset."""
        server, process, answer = self._server, self._process, Awaited(self._process)
        process.note("log", "append", ops)
        wait_ns = int(timeout * 1e9)
        self._ask(lambda: server.append(process.name, ops, answer, wait_ns))
        answer.arrive(None, Indeterminate("the log did not answer in time"), delay_ns=wait_ns)
        offset: Offset = await answer.future
        return offset

    async def subscribe(
        self, first: Offset, *, follow: bool = True, is_gapless: bool = False
    ) -> AsyncGenerator[tuple[Offset, Txn], None]:
        """Yield every transaction from an offset on."""
        server, process, at = self._server, self._process, int(first)
        while True:
            answer = Awaited(process)
            self._ask(
                lambda at=at, answer=answer, gapless=is_gapless: server.serve(
                    process.name, at, answer, is_gapless=gapless
                )
            )
            for offset, txn in await answer.future:
                yield offset, txn
                at, is_gapless = offset + 1, True

    def _ask(self, call: object) -> None:
        links = self._server.links
        self._server.world.after(links.delay_ns(), links.carry, self._process.name, NAME, call)
