"""Clients of the simulated lake: each runs scripts, one step after the other, and asks again when no answer comes.

A client that gets no answer asks another member, with the same request id, or gives up. Its answer is checked at once,
also when it has long continued.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.kernel.ids import MILLISECOND, NodeId, RequestId
from penstock.kernel.probes import reached
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.port import Commit, GiveUp, Move, Read, RefsRead, Write
from penstock.lake.core.staging.records import Request
from penstock.lake.core.staging.results import Status
from penstock.lake.core.staging.snapshot import SnapshotRefs

if TYPE_CHECKING:
    from penstock_lab.sim.node import SimNode
    from penstock_lab.sim.workloads.lake import LakeWorkload

__all__ = ["Pause", "Script", "SimLakeClient"]

Body = Write | Read | RefsRead | Commit | Move


@dataclass(frozen=True)
class Pause:
    """A step of a script in which nothing is asked."""

    ns: int


@dataclass(frozen=True)
class Script:
    """A kind of client: its repeated actions."""

    name: str
    clients: Callable[[Random], int]  # how many there are in a seed
    run: Callable[["SimLakeClient"], Iterator[Any]]
    think_ms: int = 4


class SimLakeClient:
    """One client. It has at most one step under way."""

    def __init__(self, workload: "LakeWorkload", name: str, script: Script) -> None:
        self.workload = workload
        self.name = name
        self.script = script
        self.memory: dict[str, Any] = {}  # what a script keeps from one run to the next
        self._running: Iterator[Any] | None = None
        self._body: Body | None = None
        self._asked: dict[RequestId, Body] = {}
        self._reads_at: dict[RequestId, int] = {}  # the answers given when a read was asked
        self._number = 0
        self._step = 0

    @property
    def rng(self) -> Random:
        return self.workload.rng

    @property
    def is_idle(self) -> bool:
        return self._running is None

    # what scripts use

    def peek(self) -> StagingMachine | None:
        """Return the state of some member, which may be old."""
        node = self.workload.some_member()
        return None if node is None else self.workload.machine(node)

    def request(self, machine: StagingMachine) -> Request:
        self._number += 1
        return Request(f"{self.name}-{self._number}", machine.now)

    # steps

    def begin(self) -> None:
        if self.workload.is_over:
            return
        self._running = self.script.run(self)
        self._advance(None)

    def _advance(self, result: Any) -> None:
        assert self._running is not None
        self._step += 1
        self._body = None
        try:
            step = next(self._running) if result is None else self._running.send(result)  # type: ignore[attr-defined]
        except StopIteration:
            self._running = None
            wait_ns = MILLISECOND + int(self.rng.random() * self.script.think_ms * MILLISECOND)
            self.workload.world.after(wait_ns, self.begin)
            return
        if isinstance(step, Pause):
            self.workload.world.after(1 if self.workload.is_over else 1 + step.ns, lambda: self._advance(None))
            return
        self._body = step
        if isinstance(step, Write | Commit | Move):
            self.workload.checks.asks(_request_of(step).id)
        self._ask(step)

    def _ask(self, body: Body) -> None:
        """Ask some member; ask again if no answer comes."""
        step = self._step
        node = self.workload.some_member()
        if node is not None:
            self._tell(node, body)
        patience_ns = self.rng.choice((10, 40)) * MILLISECOND
        self.workload.world.after(patience_ns, lambda: self._again(step, body, node))

    def _tell(self, node: "SimNode", body: Body) -> None:
        checks = self.workload.checks
        asked_at = checks.answered_at
        request = self.workload.ask(self, body, node)
        if request in self.workload.waiting:  # it may have been answered on the spot
            self._asked[request], self._reads_at[request] = body, asked_at

    def _again(self, step: int, body: Body, node: "SimNode | None") -> None:
        if step != self._step:
            return
        if node is not None and node.is_up and self.rng.random() < 0.2 and isinstance(body, Write | Commit | Move):
            mine = [request for request, asked in self._asked.items() if asked is body]
            for request in mine[-1:]:
                self.workload.ask(self, GiveUp(request), node)
        elif isinstance(body, Write | Commit | Move) and not self.workload.parts.habits.keeps_request_ids:
            body = self._with_another_id(body)
        self._ask(body)

    def _with_another_id(self, body: Write | Commit | Move) -> Write | Commit | Move:
        """A mutant's habit: the same wish under a new id."""
        old = _request_of(body)
        self._number += 1
        new = Request(f"{self.name}-{self._number}", old.issued)
        operations = self.workload.checks.operations
        operations[new.id] = operations[old.id]
        if isinstance(body, Write):
            return Write(msgspec.structs.replace(body.record, request=new))
        return msgspec.structs.replace(body, request=new)

    def replied(self, request: RequestId, result: Any) -> None:
        """An answer, perhaps to something asked long ago."""
        body = self._asked.pop(request, self._body)
        asked_at = self._reads_at.pop(request, self.workload.checks.answered_at)
        if body is None:
            return
        self._check(body, asked_at, result)
        if body is self._body or (isinstance(body, Write | Commit | Move) and self._is_same_wish(body)):
            self._advance(result if result is not None else False)

    def _is_same_wish(self, body: Write | Commit | Move) -> bool:
        if not isinstance(self._body, Write | Commit | Move):
            return False
        operations = self.workload.checks.operations
        return operations.get(_request_of(body).id) is operations.get(_request_of(self._body).id)

    def _check(self, body: Body, asked_at: int, result: Any) -> None:
        checks = self.workload.checks
        if isinstance(body, Read):
            checks.read(asked_at, result, body.branch, stale_ok=body.stale_ok)
        elif isinstance(body, RefsRead):
            if isinstance(result, SnapshotRefs):
                for name, snapshot in result.branches.items():
                    checks.read(asked_at, snapshot, name, stale_ok=body.stale_ok)
        else:
            if result.status is Status.EXPIRED:
                reached("lake.expired")
            checks.told(_request_of(body).id, result)

    def node_names(self) -> list[NodeId]:
        return list(self.workload.world.nodes)


def _request_of(body: Write | Commit | Move) -> Request:
    return body.record.request if isinstance(body, Write) else body.request
