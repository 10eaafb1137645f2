"""A member's shell: runs the core on a queue, and keeps the requests that wait for it. Design: lake.md L1, L6, L16.

    host = await MemberHost.start(queue, checkpoints, builder, name="lake-1")
    result = await host.request(Write(record))
    await host.sync()          # what `host.machine` holds now is no older than this call

It decides nothing. Records are put on the queue as the core says; what the queue delivers is numbered and handed to the
core; metaranges are built by the builder, in tasks; checkpoints are taken at places which all members share. When it
cannot continue (the members have diverged, the queue has forgotten missing records) it fails, and all waiting requests
get the error.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final, Protocol

import msgspec

from penstock.kernel.effects import Effect, Event, Reply, Requested, TimerFired
from penstock.kernel.errors import (
    Compacted,
    DataDamaged,
    FormatTooNew,
    InternalError,
    PenstockError,
    ShuttingDown,
    Unavailable,
    Written,
)
from penstock.kernel.ids import Instant, Lsn, NodeId, RequestId
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.agreement import Agreement, Verdict
from penstock.lake.core.staging.proposing.member import Member, MemberConfig
from penstock.lake.core.staging.proposing.port import (
    Build,
    BuildFailed,
    BuildMove,
    Built,
    Delivered,
    Enqueue,
    Envelope,
    GiveUp,
    LookedUp,
    LookUp,
    Rebuild,
    RefsRead,
    Warn,
    Write,
)
from penstock.lake.core.staging.records import Request, StateHash, Version
from penstock.lake.core.staging.tables import RULES
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.queue import START, Queue, QueueBatch, check_record
from penstock.plumbing.host.loop import Done, MachineLoop
from penstock.plumbing.ports.ports import Ports, system_ports
from penstock.plumbing.process.defects import defect
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.metrics import Tally
from penstock.plumbing.process.tasks import Tasks

__all__ = ["Builder", "MemberHost"]

log = get_logger()

DISPUTE_S: Final = 5.0  # how long members that differ wait for what the others say


class MemberFigures(msgspec.Struct):
    """What a member counts."""

    checkpoints_failed: int = 0
    disputes: int = 0
    bad_tokens: int = 0


TALLY: Final = Tally(
    "lake",
    "member",
    counters={
        "checkpoints_failed": "Checkpoints which the object store did not take.",
        "disputes": "Positions at which members of the lake had different states.",
        "bad_tokens": "Continuation tokens of an earlier start of this member that came back late.",
    },
    gauges={},
)


class Builder(Protocol):
    """Makes what the core asks for outside the queue. The waiting request gets an error that it raises."""

    async def build(self, effect: Build | Rebuild | BuildMove) -> Built: ...

    async def look_up(self, effect: LookUp) -> LookedUp: ...


class MemberHost:
    """One running member. For one event loop."""

    def __init__(
        self,
        queue: Queue,
        checkpoints: Checkpoints,
        builder: Builder,
        machine: StagingMachine,
        cursor: int,
        *,
        name: str,
        config: MemberConfig | None = None,
        checkpoint_span: int | None = None,
        dispute_s: float = DISPUTE_S,
        ports: Ports | None = None,
    ) -> None:
        ports = ports or system_ports()
        self.member = Member(machine, name, ports.chance.token(6).hex(), config)
        self._chance = ports.chance
        self.failed = ""
        self.figures = MemberFigures()
        self._queue = queue
        self._checkpoints = checkpoints
        self._builder = builder
        self._cursor = cursor
        self._saved_cursor = cursor
        self._agreement = Agreement(name)
        self._dispute_s = dispute_s
        self._checkpoint_span = checkpoint_span or queue.checkpoint_span
        self._numbers = count(1)
        self._waiting: dict[RequestId, asyncio.Future[Any]] = {}
        self._errors: dict[RequestId, PenstockError] = {}  # why a build failed, until its request is answered
        self._tasks = Tasks(self._fail)
        self._loop = MachineLoop(_Confined(self), _NoStorage(), self, ports.clock.monotonic_ns)
        self._saving: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()

    @classmethod
    async def start(
        cls,
        queue: Queue,
        checkpoints: Checkpoints,
        builder: Builder,
        *,
        name: str,
        config: MemberConfig | None = None,
        checkpoint_span: int | None = None,
        dispute_s: float = DISPUTE_S,
        ports: Ports | None = None,
    ) -> "MemberHost":
        """Start a member, and return once it has caught up: its own SYNC has come back to it."""
        cursor, machine = await checkpoints.newest()
        host = cls(
            queue,
            checkpoints,
            builder,
            machine,
            cursor,
            name=name,
            config=config,
            checkpoint_span=checkpoint_span,
            dispute_s=dispute_s,
            ports=ports,
        )
        TALLY.add(host.figures, name)
        host._tasks.start(host._read(), "lake queue read")
        host._loop.run(host.member.start(host._loop.now))
        try:
            await host.sync()
            await host._raise_rules()
        except BaseException:
            await host.close()
            raise
        log.info("member plays along", member=name, position=machine.applied, from_cursor=cursor)
        return host

    async def _raise_rules(self) -> None:
        """Switch this release's rules on, for all members at one position (L17). Members of older releases stop."""
        machine = self.machine
        if machine.version < RULES:
            request = Request(f"rules/{RULES}/{self._chance.token(8).hex()}", machine.now)
            await self.request(Write(Version(request, RULES, machine.limits)))

    @property
    def machine(self) -> StagingMachine:
        """The state, as far as it is folded: fresh right after `sync`, up to the next await."""
        return self.member.machine

    # asking

    async def request(self, body: Any, *, to_the_end: bool = False) -> Any:
        """Have the core do something; its reply. A caller who gives up has it cancelled if it still can be.

        Whether it could be, only the reply says: with `to_the_end` a caller who is cancelled waits for that as well.
        """
        if self.failed:
            raise Unavailable(f"this member of the lake has stopped: {self.failed}", next_step="restart it")
        if isinstance(body, Write):
            check_record(body.record)
        number = RequestId(next(self._numbers))
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._loop.post(Requested(number, body))
        try:
            result = await (asyncio.shield(future) if to_the_end else future)
        except asyncio.CancelledError:
            if number in self._waiting:
                self._loop.post(Requested(RequestId(next(self._numbers)), GiveUp(number)))
            if not to_the_end:
                raise
            result = await future
        finally:
            self._waiting.pop(number, None)
            error = self._errors.pop(number, None)
        if error is not None:
            raise error
        return result

    async def sync(self) -> None:
        """Wait until the state holds everything that was acknowledged, anywhere, before this call (L6)."""
        await self.request(RefsRead(""))

    async def ended(self) -> str:
        """Wait until it cannot continue, or was closed; return why."""
        await self._ended.wait()
        return self.failed

    async def close(self) -> None:
        """Take a last checkpoint, so that the next start is quick, and end."""
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)
        if not self.failed and self._cursor > self._saved_cursor:
            try:
                await self._checkpoints.save(*self._checkpoints.take(self._cursor, self.machine))
            except PenstockError as error:
                log.warning("no last checkpoint", reason=str(error))
        await self._tasks.close()
        TALLY.remove(self.figures)
        self._stop("it was closed")

    # the queue

    async def _read(self) -> None:
        try:
            async for batch in self._queue.read(self._cursor):
                self._take(batch)
        except Compacted as error:
            passed = "; ".join(self._checkpoints.unreadable)
            raise error if not passed else Compacted(f"{error.message}, and before that: {passed}") from None
        raise InternalError("the queue ended")

    def _take(self, batch: QueueBatch) -> None:
        position = self.machine.applied
        if self._cursor == START and position and batch.stamp < self.machine.now:
            raise DataDamaged(
                "the lake was recovered into a new queue, and this queue has records from before the recovery",
                next_step="name a queue that was never used: penstock lake recover --into NAME",
            )
        for envelope in batch.envelopes:
            if isinstance(envelope.record, Version) and envelope.record.version > RULES:
                raise FormatTooNew(
                    f"the lake was raised to rules {envelope.record.version}; this release knows rules 1 to {RULES}",
                    next_step="run the newest release of the lake's members here, too",
                )
            position += 1
            self._loop.post(Delivered(position, batch.stamp, envelope))
            if isinstance(envelope.record, StateHash):
                self._compare(envelope.record)
        before, self._cursor = self._cursor, batch.cursor
        # At places every member shares, so that their states can be compared.
        if batch.cursor // self._checkpoint_span > before // self._checkpoint_span:
            self._say_hash()
            self._checkpoint()

    def _checkpoint(self) -> None:
        if self._saving is None or self._saving.done():
            self._saving = self._tasks.start(
                self._save(self._cursor, *self._checkpoints.take(self._cursor, self.machine)), "lake checkpoint"
            )

    async def _save(self, cursor: int, key: str, encode: Callable[[], bytes]) -> None:
        """Save a checkpoint. If the store does not take it, the next place is as good."""
        try:
            await self._checkpoints.save(key, encode)
        except PenstockError as error:
            self.figures.checkpoints_failed += 1
            log.warning("no checkpoint at this place", key=key, reason=str(error))
        else:
            self._saved_cursor = max(self._saved_cursor, cursor)

    # comparing states

    def _say_hash(self) -> None:
        machine = self.machine
        self._agreement.own(machine.applied, f"{machine.state_hash():032x}")
        if self.member.is_ready and machine.version >= RULES:  # once, however often it plays back
            said = StateHash(self.member.name, machine.applied, f"{machine.state_hash():032x}")
            self._queue.put(Envelope(None, said))

    def _compare(self, said: StateHash) -> None:
        if self._agreement.heard(said.member, said.applied, said.hash):
            self.figures.disputes += 1
            log.error("members of the lake differ", position=said.applied, member=said.member)
            self._tasks.start(self._settle(said.applied), "lake dispute")

    async def _settle(self, applied: int) -> None:
        """Wait for what the others say, then count."""
        await asyncio.sleep(self._dispute_s)
        verdict, wrong = self._agreement.count(applied)
        try:
            await self._checkpoints.dispute(applied, wrong)
        except PenstockError as error:
            log.warning("a disputed checkpoint could not be marked", position=applied, reason=str(error))
        if verdict is not Verdict.AGREED:
            why = "most members have another state" if verdict is Verdict.WRONG else "no state has more than half"
            raise DataDamaged(
                f"members have diverged at position {applied}: {why}",
                next_step="start it again: it begins with a checkpoint from before; report this as a defect",
            )

    # effects: what the loop's World must do

    def send(self, to: NodeId, message: Any) -> None:
        raise AssertionError("members speak through the queue alone")

    def perform(self, effect: Effect) -> None:
        match effect:
            case Enqueue(envelope):
                self._put(envelope)
            case Reply(request, result):
                future = self._waiting.get(request)
                if future is not None and not future.done():
                    future.set_result(result)
            case Build() | Rebuild() | BuildMove():
                self._tasks.start(self._build(effect), "lake build")
            case LookUp():
                self._tasks.start(self._look_up(effect), "lake look-up")
            case Warn(what):
                self.figures.bad_tokens = self.member.bad_tokens
                log.warning("lake member", what=what)
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _put(self, envelope: Envelope) -> None:
        try:
            check_record(envelope.record)
        except PenstockError as error:
            self._loop.run(self.end(self.member.waiters_of(Delivered(0, 0, envelope)), error))
        else:
            self._queue.put(envelope)

    async def _build(self, effect: Build | Rebuild | BuildMove) -> None:
        outcome: Event
        try:
            outcome = await self._builder.build(effect)
        except Exception as error:
            told = self._told(error, effect.waiting)
            outcome = BuildFailed(effect.waiting, str(told))
        self._loop.post(outcome)

    def _told(self, error: Exception, waiting: RequestId) -> PenstockError:
        """Keep the error that ends a request; a defect ends no other one (D20)."""
        told = error if isinstance(error, PenstockError) else self.defect(error, [waiting], Written.NO)
        self._errors[waiting] = told
        return told

    def defect(self, error: BaseException, waiting: list[RequestId], written: Written) -> InternalError:
        name = ",".join(f"{self.member.boot}/{each}" for each in waiting)
        return defect("lake member", error, request=name or self.member.boot, written=written)

    def end(self, waiting: list[RequestId], error: PenstockError) -> list[Effect]:
        """End requests with an error, whatever was kept for them; return what begins now."""
        effects: list[Effect] = []
        for each in waiting:
            effects += self.member.forget(each, self._loop.now)
            future = self._waiting.get(each)
            if future is not None and not future.done():
                future.set_exception(error)
        return effects

    async def _look_up(self, effect: LookUp) -> None:
        try:
            outcome = await self._builder.look_up(effect)
        except Exception as error:
            self._told(error, effect.waiting)
            outcome = LookedUp(effect.waiting, None)
        self._loop.post(outcome)

    # ends

    def stopped(self, reason: str) -> None:
        self.failed = self.failed or reason
        self._ended.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(ShuttingDown(f"this member of the lake has stopped: {self.failed}"))

    def _fail(self, error: BaseException) -> None:
        log.error("lake member failed", reason=str(error), kind=type(error).__name__)
        self._stop(f"{type(error).__name__}: {error}")

    def _stop(self, reason: str) -> None:
        self._loop.stop(reason)


class _Confined:
    """The core, whose exceptions end a request, but for those of a committed record: these end the member (D20)."""

    def __init__(self, host: MemberHost) -> None:
        self._host = host

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        member = self._host.member
        if not isinstance(event, Delivered):
            return self._confined(event, lambda: member.step(event, now), now)
        result = member.fold(event, now)
        return [] if result is None else self._confined(event, lambda: member.release(event, result, now), now)

    def check(self) -> None:
        self._host.member.check()

    def _confined(self, event: Event, call: Callable[[], Sequence[Effect]], now: Instant) -> Sequence[Effect]:
        waiting = self._host.member.waiters_of(event)
        try:
            return call()
        except Exception as error:
            effects = self._host.end(waiting, self._host.defect(error, waiting, Written.UNKNOWN))
            return [*effects, *self._host.member.watch_on(now)] if event == TimerFired("watch") else effects


class _NoStorage:
    """A member keeps nothing of its own: the queue has its records, checkpoints its state."""

    def append(self, first: Lsn, records: Sequence[Any], done: Done) -> None:
        raise AssertionError("a member has no log")

    def truncate(self, lsn: Lsn, done: Done) -> None:
        raise AssertionError("a member has no log")

    def save_state(self, state: Any, done: Done) -> None:
        raise AssertionError("a member has no state file")

    def trim(self, lsn: Lsn) -> None:
        raise AssertionError("a member has no log")
