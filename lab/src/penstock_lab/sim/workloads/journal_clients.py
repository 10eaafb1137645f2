"""Clients of a simulated journal: they append, give up in the middle, check registers, repeat transactions, and ask
later what became of an append whose fate was unknown. Every append writes its own number.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import msgspec

from penstock.journals.core.effects import AppendAborted
from penstock.journals.records.api import AppendRequest, AppendResponse, Fate, ResetHead, Resolution, Resolve, Status
from penstock.journals.records.labels import Label, LabelSelector, LabelSet
from penstock.journals.records.registers import RegisterChange, Txn
from penstock.kernel.effects import Requested
from penstock.kernel.ids import MILLISECOND, Instant, NodeId, Offset, RequestId, Revision
from penstock.kernel.probes import reached
from penstock_lab.sim.checkers.journal import JournalChecks
from penstock_lab.sim.workloads.journal_host import BrokerProgram
from penstock_lab.sim.world import World

__all__ = ["APPENDS_MAX", "Crowd", "JournalClients"]

APPENDS_MAX = 240  # an append's number is a byte of content
CALM_APPENDS = 40  # of these are kept for when the faults are over


@dataclass(frozen=True)
class Crowd:
    """How clients behave."""

    think_ns: int = 2 * MILLISECOND
    timeout_ns: int = 60 * MILLISECOND
    abort: float = 0.1
    check: float = 0.1  # of appends which check a register that does not match
    barrier: float = 0.05
    txn: float = 0.2
    astray: float = 0.1  # to any broker, not the primary
    resets: bool = False


@dataclass
class _Asked:
    append: int
    broker: NodeId
    content: bytes
    end: int
    txn: Txn | None = None
    is_retry: bool = False
    is_over: bool = False
    run: int = 0  # which life of the broker was asked


class Routes(Protocol):
    """Where the primary is, as a client may know it."""

    def primary(self) -> NodeId | None: ...


class JournalClients:
    """All clients of one run."""

    def __init__(
        self, world: World, checks: JournalChecks, programs: dict[NodeId, BrokerProgram], routes: Routes, crowd: Crowd
    ) -> None:
        self.world, self.checks, self.programs, self.routes, self.crowd = world, checks, programs, routes, crowd
        self.appends = 0
        self.committed = 0
        self.appends_max = APPENDS_MAX - CALM_APPENDS
        self.is_open = True
        self.head_lost = False
        self._requests = 0
        self._asked: dict[RequestId, _Asked] = {}
        self._unknown: dict[int, Resolve] = {}
        self._bodies: dict[RequestId, AppendRequest] = {}

    def start(self) -> None:
        self.world.after(self._some(self.crowd.think_ns), self._next)

    def has_waiters(self) -> bool:
        """Return whether a client waits for a process that still runs; one that has ended never answers."""
        nodes = self.world.nodes
        return any(
            not asked.is_over and nodes[asked.broker].is_up and nodes[asked.broker].run == asked.run
            for asked in self._asked.values()
        )

    def _some(self, mean_ns: int) -> int:
        return 1 + int(self.world.rng.random() * 2 * mean_ns)

    def _next(self) -> None:
        if not self.is_open:
            return
        if self.appends < self.appends_max:
            self._append()
        if self._unknown and self.world.rng.random() < 0.3:
            self._ask_again()
        if self.head_lost and self.crowd.resets and self.world.rng.random() < 0.1:
            self.reset_head()
        self.world.after(self._some(self.crowd.think_ns), self._next)

    def _broker(self) -> NodeId:
        primary = self.routes.primary()
        if primary is None or self.world.rng.random() < self.crowd.astray:
            return self.world.rng.choice(list(self.programs))
        return primary

    def _append(self) -> None:
        rng, crowd = self.world.rng, self.crowd
        self.appends += 1
        append = self.appends
        length = 0 if rng.random() < crowd.barrier else rng.choice((1, 1, 2, 5))
        txn = Txn(f"writer-{append}", 1) if length and rng.random() < crowd.txn else None
        self.checks.lengths[append] = length
        self._send(append, bytes([append]) * length, txn)

    def _send(self, append: int, content: bytes, txn: Txn | None, *, is_retry: bool = False) -> None:
        rng = self.world.rng
        broker = self._broker()
        self._requests += 1
        request = RequestId(self._requests)
        self._asked[request] = _Asked(append, broker, content, self.checks.end, txn, is_retry)
        union = LabelSet((Label("last", str(append)),)) if content else LabelSet()
        check = "last=0" if rng.random() < self.crowd.check else ""
        body = AppendRequest(
            deadline=Instant(0),
            check=LabelSelector.parse(check),
            change=RegisterChange(union=union),
            txn=txn,
            offset=Offset(self.checks.end) if rng.random() < 0.05 else None,
            unix_ms=1 + self.world.now // MILLISECOND,
        )
        self._request(broker, request, body)
        if rng.random() < self.crowd.abort:
            self.world.after(self._some(self.crowd.think_ns), lambda: self._abort(request))

    def _request(self, broker: NodeId, request: RequestId, body: AppendRequest) -> None:
        def arrive() -> None:
            node = self.world.nodes[broker]
            self._asked[request].run = node.run
            if node.is_up:
                deadline = Instant(node.now + self._some(self.crowd.timeout_ns))
                node.deliver(Requested(request, msgspec.structs.replace(body, deadline=deadline)))
            else:
                self._asked[request].is_over = True

        self._bodies[request] = body
        self.world.after(self._some(MILLISECOND // 4), arrive)

    def proxied(self, request: RequestId, to: NodeId, revision: Revision) -> None:
        reached("journal.proxied")
        self._asked[request].broker = to
        body = msgspec.structs.replace(self._bodies[request], min_revision=revision, may_proxy=False)
        self._request(to, request, body)

    # content

    def reading(self, name: NodeId, request: RequestId) -> None:
        """It is this append's turn: a chunk or two, and the end."""
        asked = self._asked[request]
        content, cut = asked.content, self.world.rng.randint(0, len(asked.content))
        run = self.world.nodes[name].run
        chunks = [(content[:cut], False), (content[cut:], True)] if cut else [(content, True)]
        delay = 0
        for chunk, is_end in chunks:
            delay += self._some(MILLISECOND // 5)
            self.world.after(delay, partial(self._feed, name, run, request, chunk, is_end))

    def _feed(self, name: NodeId, run: int, request: RequestId, chunk: bytes, is_end: bool) -> None:
        node = self.world.nodes[name]
        if node.run == run:
            node.when_awake(lambda: self.programs[name].feed(request, chunk, is_end))

    def _abort(self, request: RequestId) -> None:
        asked = self._asked[request]
        node = self.world.nodes[asked.broker]
        if not asked.is_over and node.is_up:
            reached("journal.client_abort")
            node.deliver(AppendAborted(request, "the client gave up"))

    # answers

    def replied(self, name: NodeId, request: RequestId, result: Any) -> None:
        if isinstance(result, Resolution):
            self.checks.resolved(-request, result)
            reached(f"journal.resolved_{result.name.lower()}")
            if result in (Resolution.COMMITTED, Resolution.ABORTED):
                self._unknown.pop(-request, None)
            return
        asked = self._asked[request]
        asked.is_over = True
        if asked.append:
            self._answered(asked, result)
        self.head_lost = result.status is Status.HEAD_LOST or (self.head_lost and result.fate is not Fate.COMMITTED)

    def _answered(self, asked: _Asked, answer: AppendResponse) -> None:
        if not asked.is_retry or answer.fate is Fate.COMMITTED:  # else it speaks of the repetition alone
            self.checks.answered(asked.append, answer, asked.end)
        reached(f"journal.told_{answer.fate.value}_{answer.status.name.lower()}")
        if answer.fate is Fate.COMMITTED:
            self.committed += 1
        elif answer.fate is Fate.UNKNOWN and answer.commit is not None:
            if asked.txn is not None:
                reached("journal.txn_retried")
                self._send(asked.append, asked.content, asked.txn, is_retry=True)
            else:
                self._unknown[asked.append] = Resolve(answer.epoch, answer.commit.begin, answer.commit.end)

    def _ask_again(self) -> None:
        append = self.world.rng.choice(list(self._unknown))
        node = self.world.nodes[self.world.rng.choice(list(self.programs))]
        if node.is_up:
            node.deliver(Requested(RequestId(-append), self._unknown[append]))

    def reset_head(self) -> None:
        primary = self.routes.primary()
        if primary is None or not self.world.nodes[primary].is_up:
            return
        reached("journal.reset_head")
        self._requests += 1
        request = RequestId(self._requests)
        self._asked[request] = _Asked(0, primary, b"", 0)
        node = self.world.nodes[primary]
        self._asked[request].run = node.run
        node.deliver(Requested(request, ResetHead(deadline=Instant(node.now + self.crowd.timeout_ns))))
