"""A member: the state machine on its queue, and the requests that wait for it. Design: lake.md L2, L3, L6, L10, L16.

A member never assumes that its state is up to date: it puts a record on the queue and answers when that record comes
back. Records may be lost, doubled and late; everything is sent again with the same request id until it is final.

- A read waits on a SYNC which was not yet handed to the queue when the read arrived, never on one already sent.
- RETRY results are never told to a client. To give up, the member queues CANCEL, and tells what that resulted in.
- A token which is not held is dropped: after a restart the boot id is another one, so no old answer reaches a new wait.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from penstock.kernel.effects import Effect, Event, Reply, Requested, SetTimer, TimerFired
from penstock.kernel.ids import MILLISECOND, SECOND, Instant, RequestId
from penstock.kernel.probes import reached
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.port import (
    BuildFailed,
    Built,
    Commit,
    ContinuationToken,
    Delivered,
    Enqueue,
    Envelope,
    GiveUp,
    LookedUp,
    LookUp,
    Move,
    Read,
    RefsRead,
    Warn,
    Write,
)
from penstock.lake.core.staging.proposing.proposals import Proposals
from penstock.lake.core.staging.records import Abort, Cancel, Changing, Record, Request, Sync, Tick
from penstock.lake.core.staging.results import Result, Status

__all__ = ["Member", "MemberConfig"]


RESEND_DOUBLINGS_MAX = 6


class MemberConfig(msgspec.Struct, frozen=True):
    """How patient a member is. All in nanoseconds of its own clock."""

    resend_ns: int = 2 * SECOND  # a record which has not come back is sent again
    retry_ns: int = 50 * MILLISECOND  # before a BUSY or NOT_YET is tried again
    retries_max: int = 20
    watch_ns: int = SECOND  # how often deadlines are looked at
    idle_ns: int = 20 * SECOND  # a queue that is idle for so long gets a TICK
    syncs_max: int = 2  # in flight; later reads wait for the next one together


@dataclass(slots=True)
class Waiting:
    """A record on the queue, and who waits for it."""

    waiting: RequestId
    record: Changing
    sent_at: Instant
    retries: int = 0
    resends: int = 0
    why: str = ""  # of a CANCEL: why it was given up


@dataclass(slots=True)
class SyncWait:
    """A SYNC on the queue, and the reads which arrived before it was sent."""

    reads: list[Requested]
    sent_at: Instant
    resends: int = 0


class Member:
    """The core of one member. The shell gives it events and runs its effects."""

    proposals_class: type[Proposals] = Proposals

    def __init__(self, machine: StagingMachine, name: str, boot: str, config: MemberConfig | None = None) -> None:
        self.machine = machine
        self.name = name
        self.boot = boot
        self.config = config or MemberConfig()
        self.is_ready = False  # own SYNC came back: the state here is no older than this start
        self.bad_tokens = 0
        self._number = 0
        self._writes: dict[int, Waiting] = {}
        self._syncs: dict[int, SyncWait] = {}
        self._reads: list[Requested] = []  # arrived, and no SYNC sent for them yet
        self._retrying: dict[RequestId, Waiting] = {}  # waits for a look-up or for time to pass
        self._heard_at = Instant(0)
        self._is_behind = False  # the state machine's `now` has not come up to the last stamp yet
        self.proposals = self.proposals_class(self)

    @property
    def is_present(self) -> bool:
        """Return whether a deadline set now is reliable."""
        return self.is_ready and not self._is_behind

    def start(self, now: Instant) -> list[Effect]:
        """Return the effects of a member that starts without a checkpoint."""
        self._heard_at = now
        return [*self._send_sync(now), *self.watch_on(now)]

    def issue(self, id_: str) -> Request:
        """A request with an id made here and now."""
        return Request(id_, self.machine.now)

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        match event:
            case Delivered():
                return self._on_delivered(event, now)
            case Requested(waiting, body):
                return self._on_requested(event, waiting, body, now)
            case LookedUp():
                return self._on_looked_up(event, now)
            case Built() | BuildFailed():
                return self.proposals.on_built(event, now)
            case TimerFired("watch"):
                return self._on_watch(now)
            case TimerFired(name):
                return self._on_retry(RequestId(int(name)), now)
            case _:
                raise AssertionError(f"unknown event {event}")

    # the queue

    def _on_delivered(self, delivered: Delivered, now: Instant) -> list[Effect]:
        result = self.fold(delivered, now)
        return [] if result is None else self.release(delivered, result, now)

    def fold(self, delivered: Delivered, now: Instant) -> Result | None:
        """Apply a delivered record; None if it was applied before. An exception here ends the member (D20)."""
        result = self.machine.apply(delivered.position, delivered.stamp, delivered.envelope.record)
        if result is not None:
            self._heard_at = now
            self._is_behind = delivered.stamp > self.machine.now
        return result

    def release(self, delivered: Delivered, result: Result, now: Instant) -> list[Effect]:
        """Return what follows from an applied record. An exception here ends one request."""
        return [*self._catch_up(delivered), *self._release(delivered, result, now)]

    def waiters_of(self, event: Event) -> list[RequestId]:
        """Return who waits for an event to be handled."""
        match event:
            case Requested(waiting, _):
                return [waiting]
            case LookedUp() | Built() | BuildFailed():
                return [event.waiting]
            case TimerFired(name) if name.isdecimal():
                return [RequestId(int(name))]
            case Delivered() if (token := event.envelope.token) is not None and self._is_own(token):
                write, sync = self._writes.get(token.number), self._syncs.get(token.number)
                reads = [] if sync is None else [read.request for read in sync.reads]
                return reads if write is None else [write.waiting]
            case _:
                return []

    def forget(self, waiting: RequestId, now: Instant) -> list[Effect]:
        """Drop the state of a request that a defect ended. The next in its line begins."""
        self._retrying.pop(waiting, None)
        self._writes = {number: each for number, each in self._writes.items() if each.waiting != waiting}
        return self.proposals.forget(waiting, now)

    def _release(self, delivered: Delivered, result: Result, now: Instant) -> list[Effect]:
        """Continue the request that waits for this record."""
        token, record = delivered.envelope.token, delivered.envelope.record
        if token is None or token.member != self.name:
            return []
        if not self._is_mine(token):
            reached("lake.bad_token")
            self.bad_tokens += 1
            if not self.is_ready:
                return []  # what an earlier start has sent is played back: no wonder
            return [Warn(f"a token of an earlier start of {self.name}: {token.boot}/{token.number}")]
        if isinstance(record, Sync):
            return self._on_synced(token.number, now)
        write = self._writes.pop(token.number, None)
        if write is None:
            reached("lake.copy_of_answered")
            return []
        return self._on_result(write, result, now)

    def _is_mine(self, token: ContinuationToken) -> bool:
        return token.boot == self.boot

    def _is_own(self, token: ContinuationToken) -> bool:
        return token.member == self.name and self._is_mine(token)

    def _catch_up(self, delivered: Delivered) -> list[Effect]:
        """`now` moves by a step at most: after a long silence ticks bring it to the present, before anything is
        announced with a deadline (decision 402)."""
        token = delivered.envelope.token
        if token is None or not self._is_own(token) or not self._is_behind:
            return []
        reached("lake.caught_up")
        return [Enqueue(Envelope(self._next_token(), Tick()))]

    def _next_token(self) -> ContinuationToken:
        self._number += 1
        return ContinuationToken(self.name, self.boot, self._number)

    # writes

    def _on_requested(self, event: Requested, waiting: RequestId, body: Any, now: Instant) -> list[Effect]:
        match body:
            case Write(record):
                return self.send(waiting, record, now)
            case Read() | RefsRead():
                return self._on_read(event, now)
            case Commit() | Move():
                return self.proposals.begin(waiting, body, now)
            case GiveUp(given_up):
                return self._on_give_up(given_up, now)
            case _:
                assert_never(body)

    def send(self, waiting: RequestId, record: Changing, now: Instant) -> list[Effect]:
        """Put a record on the queue for someone."""
        return self._send(Waiting(waiting, record, now))

    def _send(self, write: Waiting) -> list[Effect]:
        token = self._next_token()
        self._writes[token.number] = write
        return [Enqueue(Envelope(token, write.record))]

    def _on_result(self, write: Waiting, result: Result, now: Instant) -> list[Effect]:
        if isinstance(write.record, Cancel):
            following = self.proposals.forget(write.waiting, now)
            if result.status is Status.CANCELLED:
                result = Result(Status.CANCELLED, detail=write.why)
            return [Reply(write.waiting, result), *following]
        if write.waiting in self.proposals:
            return self.proposals.on_result(write.waiting, write.record, result, now)
        if not result.status.is_retry:
            return [Reply(write.waiting, result)]
        return self._again(write, result, now)

    def _again(self, write: Waiting, result: Result, now: Instant) -> list[Effect]:
        """Send the same request again, or never again (L2)."""
        write.retries += 1
        if write.retries > self.config.retries_max or result.status is Status.STALE_GC:
            return self.cancel(write.waiting, write.record.request, result.status.value, now)
        self._retrying[write.waiting] = write
        if result.status in (Status.STALE_BASIS, Status.STALE_SOURCE):
            return [LookUp(write.waiting, write.record, result)]
        return [SetTimer(str(write.waiting), Instant(now + self.config.retry_ns))]

    def cancel(self, waiting: RequestId, request: Request, why: str, now: Instant) -> list[Effect]:
        """Cancel a request: only the result of CANCEL may be reported as a failure."""
        reached("lake.cancelled")
        following = self.proposals.end(waiting, now)
        return [*self._send(Waiting(waiting, Cancel(request), now, why=why)), *following]

    def _on_looked_up(self, event: LookedUp, now: Instant) -> list[Effect]:
        write = self._retrying.pop(event.waiting, None)
        if write is None:
            return []
        if event.record is None:
            return self.cancel(event.waiting, write.record.request, "nothing to look up", now)
        assert event.record.request == write.record.request, "L2: a retry keeps its request"
        write.record, write.sent_at = event.record, now
        return self._send(write)

    def _on_retry(self, waiting: RequestId, now: Instant) -> list[Effect]:
        if waiting in self.proposals:
            return self.proposals.on_retry(waiting, now)
        write = self._retrying.pop(waiting, None)
        if write is None:
            return []
        write.sent_at = now
        return self._send(write)

    def _on_give_up(self, waiting: RequestId, now: Instant) -> list[Effect]:
        """Someone no longer wants to wait. A CANCEL on the queue decides whether it still happens."""
        write = self._retrying.pop(waiting, None) or next(
            (each for each in self._writes.values() if each.waiting == waiting), None
        )
        request = self.proposals.request_of(waiting)
        if request is None and write is not None:
            request = write.record.request
        if request is None or (write is not None and isinstance(write.record, Cancel)):
            return []
        self._writes = {number: each for number, each in self._writes.items() if each.waiting != waiting}
        return self.cancel(waiting, request, "given up", now)

    # reads

    def _on_read(self, event: Requested, now: Instant) -> list[Effect]:
        if event.body.stale_ok and self.is_ready:
            return [self._serve(event)]
        return self.join_sync(event, now)

    def join_sync(self, event: Requested, now: Instant) -> list[Effect]:
        """Wait for the next SYNC that is sent: never for one already on its way (L6)."""
        self._reads.append(event)
        return self._send_sync(now) if len(self._syncs) < self.config.syncs_max else []

    def _send_sync(self, now: Instant, resends: int = 0) -> list[Effect]:
        """Send one SYNC for all waiting reads; later reads wait for the next."""
        token = self._next_token()
        self._syncs[token.number] = SyncWait(self._reads, now, resends)
        self._reads = []
        return [Enqueue(Envelope(token, Sync()))]

    def _on_synced(self, number: int, now: Instant) -> list[Effect]:
        sync = self._syncs.pop(number, None)
        if sync is None:
            return []
        self.is_ready = True
        effects: list[Effect] = []
        if self._reads and len(self._syncs) < self.config.syncs_max:
            effects += self._send_sync(now)
        for read in sync.reads:
            effects += self._served(read, now)
        return effects

    def _served(self, read: Requested, now: Instant) -> list[Effect]:
        if isinstance(read.body, Move):
            return self.proposals.on_synced(read.request, now)
        return [self._serve(read)]

    def _serve(self, read: Requested) -> Reply:
        repository = self.machine.repository_named(read.body.repository)
        if repository is None:
            return Reply(read.request, None)
        if isinstance(read.body, RefsRead):
            return Reply(read.request, self.machine.refs(repository))
        branch = repository.branches.get(read.body.branch)
        return Reply(read.request, None if branch is None else self.machine.capture(branch.instance))

    # time

    def watch_on(self, now: Instant) -> list[Effect]:
        """Look again in a while."""
        return [SetTimer("watch", Instant(now + self.config.watch_ns))]

    def _on_watch(self, now: Instant) -> list[Effect]:
        """Send again what did not come back, end the attempts of the dead, keep time moving."""
        effects: list[Effect] = [*self.watch_on(now), *self._resend(now)]
        effects += self.proposals.extend(now)
        for attempt in self.machine.attempts.values():
            if attempt.deadline <= self.machine.now and not self.proposals.owns(attempt):
                reached("lake.aborts_the_dead")
                effects += self.enqueue(Abort(attempt.request, attempt.number))
        patience = self.config.watch_ns if self.machine.attempts else self.config.idle_ns
        if now - self._heard_at >= patience:
            effects += self.enqueue(Tick())
        return effects

    def enqueue(self, record: Record) -> list[Effect]:
        """Put a record on the queue, with no request waiting for it."""
        return [Enqueue(Envelope(None, record))]

    def _resend(self, now: Instant) -> list[Effect]:
        """More and more rarely: a queue which is slow must not be buried under copies."""
        effects: list[Effect] = []
        for number, write in self._writes.items():
            if self._is_late(write, now):
                reached("lake.resent")
                write.sent_at, write.resends = now, write.resends + 1
                token = ContinuationToken(self.name, self.boot, number)
                effects.append(Enqueue(Envelope(token, write.record)))
        for number in [number for number, sync in self._syncs.items() if self._is_late(sync, now)]:
            sync = self._syncs.pop(number)
            self._reads = sync.reads + self._reads
            effects += self._send_sync(now, sync.resends + 1)
        return effects

    def _is_late(self, sent: Waiting | SyncWait, now: Instant) -> bool:
        return now - sent.sent_at >= self.config.resend_ns << min(sent.resends, RESEND_DOUBLINGS_MAX)

    def check(self) -> None:
        """Check the waiting requests; the machine has a check of its own, which looks at the whole state."""
        if self._writes:
            waiting = [*(write.waiting for write in self._writes.values()), *self._retrying]
            assert len(set(waiting)) == len(waiting), "a request waits for two records"
        assert not self._reads or self._syncs, "reads wait, and no SYNC is on its way"
        self.proposals.check()
