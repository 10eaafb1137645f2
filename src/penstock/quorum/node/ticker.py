"""Appends the ticks of a leader to its own log, for a machine that has leases. The rules are in `lease_ticks.py`."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import SECOND, Instant, Offset
from penstock.quorum.core.machines.lease_ticks import TICK_EVERY_NS, LeaseTicks
from penstock.quorum.records.answers import Answers
from penstock.quorum.records.effects import AppendRequest
from penstock.quorum.records.entry import ClientId
from penstock.quorum.records.keyspace import KEYSPACE_OP

if TYPE_CHECKING:
    from penstock.quorum.node.host import ReplicaHost

__all__ = ["Ticker", "WantsTicks"]

LOOK_S: Final = TICK_EVERY_NS / SECOND / 4
TIMEOUT_NS: Final = 5 * SECOND


@runtime_checkable
class WantsTicks(Protocol):
    """A state machine whose leases end by the time that a leader tells it."""

    @property
    def wants_ticks(self) -> bool: ...


class Ticker:
    """The ticks of one replica: a session without a client."""

    def __init__(self, host: "ReplicaHost", machine: WantsTicks, client: ClientId) -> None:
        self._host = host
        self._machine = machine
        self._client = client
        self._ticks = LeaseTicks()
        self._seq = 0

    async def run(self) -> None:
        """Look for a tick that is due, until the replica fails."""
        host = self._host
        while not host.failed:
            leader = host.node.leader
            epoch = host.node.epoch if leader is not None else None
            now = Instant(host.clock.monotonic_ns())
            tick = self._ticks.due(now, epoch, is_wanted=self._machine.wants_ticks)
            if tick is not None:
                self._seq += 1
                request = AppendRequest(
                    host.next_request(), self._client, self._seq, KEYSPACE_OP.encode(tick), timeout_ns=TIMEOUT_NS
                )
                with suppress(PenstockError):
                    host.append(self, request, self._seq)
            await asyncio.sleep(LOOK_S)

    def answer(self, answers: Answers, numbers: list[int], offsets: list[Offset], results: list[Any]) -> None:
        self._ticks.answered()

    def fail(self, error: PenstockError) -> None:
        self._ticks.answered()
