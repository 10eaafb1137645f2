"""The simulated disk of one node: a log of records and one small state, with the durable part kept apart from the rest.

Operations take effect in order. A crash keeps a random prefix of those not yet durable, the last of them perhaps in
part (a torn tail; the real WAL's chained checksums turn any reordering of unsynced blocks into just that). A failed
operation tells its owner that the content of the disk is unknown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.kernel.effects import Durable, Effect, Persist, SaveState, TrimLog, TruncateLog
from penstock.kernel.ids import MICROSECOND, Instant, Lsn

__all__ = ["DiskContent", "DiskFaults", "SimDisk"]


FIRST_LSN = Lsn(1)


@dataclass(slots=True, frozen=True)
class DiskContent:
    """What a process finds when it starts: its state (None at the very first start) and its records from `first` on."""

    first: Lsn
    records: tuple[Any, ...]
    state: Any


@dataclass(slots=True)
class DiskFaults:
    """How bad the disk is."""

    latency_min_ns: int = 20 * MICROSECOND
    latency_mean_ns: int = 100 * MICROSECOND
    slow_factor: int = 1  # multiplies the latency while the disk is slow
    fail: float = 0.0  # the chance that an operation fails


@dataclass(slots=True)
class SimDisk:
    """A log and a state, and the operations on their way to it."""

    rng: Random
    faults: DiskFaults = field(default_factory=DiskFaults)
    first: Lsn = FIRST_LSN
    records: list[Any] = field(default_factory=list)
    state: Any = None
    has_failed: bool = False  # its content is unknown until the next recovery
    on_durable: Callable[[Effect], None] = lambda _: None  # called for every operation when it has reached the platter
    _pending: list[Effect] = field(default_factory=list)
    _busy_until: int = 0

    @property
    def last(self) -> Lsn:
        return Lsn(self.first + len(self.records) - 1)

    def submit(self, now: Instant, operation: Durable) -> tuple[Instant, bool]:
        """Queue an operation; return when it ends, and whether it then succeeds."""
        faults = self.faults
        latency = (faults.latency_min_ns + int(self.rng.random() * 2 * faults.latency_mean_ns)) * faults.slow_factor
        self._busy_until = max(self._busy_until, now + latency)
        self._pending.append(operation)
        return Instant(self._busy_until), not (faults.fail and self.rng.random() < faults.fail)

    def complete(self, operation: Durable) -> None:
        """The oldest operation is durable now."""
        assert self._pending[0] is operation, "operations end in the order they were submitted"
        del self._pending[0]
        self._apply(operation)

    def trim(self, operation: TrimLog) -> None:
        keep_from = min(operation.lsn, Lsn(self.last + 1))
        if keep_from > self.first:
            del self.records[: keep_from - self.first]
            self.first = Lsn(keep_from)

    def crash(self) -> None:
        """Power is gone: a random prefix of the operations under way reached the platter."""
        survivors = self.rng.randint(0, len(self._pending)) if self._pending else 0
        for operation in self._pending[:survivors]:
            self._apply(operation)
        if survivors < len(self._pending):
            torn = self._pending[survivors]
            if isinstance(torn, Persist):
                part = torn.records[: self.rng.randint(0, len(torn.records))]
                self._apply(Persist(torn.first, part))
        self._pending.clear()
        self._busy_until = 0
        self.has_failed = False

    def wipe(self) -> None:
        """The disk is lost, and replaced by an empty one."""
        self.first, self.state = FIRST_LSN, None
        self.records.clear()
        self._pending.clear()

    @property
    def pending(self) -> Sequence[Effect]:
        """The operations under way, oldest first."""
        return self._pending

    def recover(self) -> DiskContent:
        assert not self._pending, "recovery comes after a crash"
        return DiskContent(self.first, tuple(self.records), self.state)

    def _apply(self, operation: Effect) -> None:
        match operation:
            case Persist(first, records):
                self._append(first, records)
            case TruncateLog(lsn):
                assert self.first - 1 <= lsn <= self.last, (self.first, lsn, self.last)
                del self.records[lsn - self.first + 1 :]
            case SaveState(state):
                self.state = state
            case _:
                raise AssertionError(f"not a durable effect: {operation}")
        self.on_durable(operation)

    def _append(self, first: Lsn, records: Sequence[Any]) -> None:
        if not self.records:
            self.first = first  # a log emptied by a truncation or a snapshot may start anywhere
        assert first == self.last + 1, f"record {first} behind {self.last}: a hole in the log"
        self.records.extend(records)
