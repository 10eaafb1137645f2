"""Members on a queue which moves only when told to: for schedules which a seed would meet rarely.

Every record is shown to the checks of the simulator (I1 to I13), so a schedule fails where an invariant breaks.
"""

from typing import Any

from penstock.kernel.effects import CancelTimer, Effect, Reply, Requested, SetTimer, TimerFired
from penstock.kernel.ids import MILLISECOND, Instant, RequestId
from penstock.lake.core.staging import records as r
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.proposing.member import Member, MemberConfig
from penstock.lake.core.staging.proposing.port import (
    Build,
    BuildFailed,
    BuildMove,
    Commit,
    Delivered,
    Enqueue,
    Envelope,
    LookedUp,
    LookUp,
    Move,
    Read,
    Rebuild,
    Warn,
    Write,
)
from penstock.lake.core.staging.records import Instance, Request, Row
from penstock_lab.sim.checkers.lake import LakeChecks
from penstock_lab.sim.workloads.lake import FIRST_RECORD, watched
from penstock_lab.sim.workloads.lake_lookup import look_up
from penstock_lab.sim.workloads.lake_mutants import MUTANTS
from penstock_lab.sim.workloads.lake_parts import LakeParts

MAIN, REPOSITORY = Instance("main-1"), Instance("r1")
CONFIG = MemberConfig(
    resend_ns=20 * MILLISECOND, retry_ns=MILLISECOND, watch_ns=5 * MILLISECOND, idle_ns=50 * MILLISECOND
)
TTL_NS = 100 * MILLISECOND


class Desk:
    """Members a, b, …, and all they wait for."""

    def __init__(self, members: str = "ab", mutant: str | None = None) -> None:
        self.parts = LakeParts()
        if mutant is not None:
            MUTANTS[mutant].apply(self.parts)
        self.shelf = self.parts.shelf()
        self.checks = LakeChecks(self.shelf)
        self.builder = self.parts.builder(self.shelf)
        self.log: list[tuple[int, Envelope]] = []
        self.sent: list[Envelope] = []  # enqueued, and not on the queue yet
        self.work: list[tuple[str, Effect]] = []  # what members want built or looked up
        self.replies: dict[RequestId, Any] = {}
        self.warnings: list[str] = []
        self.members: dict[str, Member] = {}
        self.cursors: dict[str, int] = {}
        self.now = Instant(10**9)
        self._boots = 0
        self._ids = 0
        self._bodies: dict[RequestId, tuple[Any, int]] = {}
        self.append(FIRST_RECORD)
        for name in members:
            self.start(name)
        self.run()

    # members

    def start(self, name: str, checkpoint: bytes = b"") -> None:
        """A member begins, from a checkpoint."""
        self._boots += 1
        machine = self.parts.load(checkpoint, watched(self.parts.machine, self.checks))
        boot = f"{name}{self._boots}" if self.parts.boot_ids else "boot"
        self.members[name] = self.parts.member(machine, name, boot, CONFIG)
        self.cursors[name] = machine.applied
        self._perform(name, self.members[name].start(self.now))

    def machine(self, name: str | None = None) -> StagingMachine:
        """Return the machine of a member; of the first one alive, unless named."""
        return self.members[name or next(iter(self.members))].machine

    def checkpoint(self, name: str) -> bytes:
        return self.parts.freeze(self.machine(name), self.cursors[name])()

    def step(self, name: str, event: Any) -> None:
        self._perform(name, self.members[name].step(event, self.now))
        self.members[name].check()

    def _perform(self, name: str, effects: Any) -> None:
        for effect in effects:
            match effect:
                case Enqueue(envelope):
                    self.sent.append(envelope)
                case Reply(request, result):
                    self._replied(request, result)
                case Build() | Rebuild() | BuildMove() | LookUp():
                    self.work.append((name, effect))
                case Warn(what):
                    self.warnings.append(what)
                case SetTimer() | CancelTimer():
                    pass
                case _:
                    raise AssertionError(effect)

    # clients

    def ask(self, name: str, body: Any) -> RequestId:
        self._ids += 1
        request = RequestId(self._ids)
        self._bodies[request] = (body, self.checks.answered_at)
        if isinstance(body, Write):
            self.checks.asks(body.record.request.id)
        elif isinstance(body, Commit | Move):
            self.checks.asks(body.request.id)
        self.step(name, Requested(request, body))
        return request

    def _replied(self, request: RequestId, result: Any) -> None:
        assert request not in self.replies, f"{request} is answered twice"
        self.replies[request] = result
        body, asked_at = self._bodies[request]
        match body:
            case Read():
                self.checks.read(asked_at, result, body.branch, stale_ok=body.stale_ok)
            case Write(record):
                self.checks.told(record.request.id, result)
            case Commit() | Move():
                self.checks.told(body.request.id, result)
            case _:
                pass

    def upload(self, etag: str = "x") -> Entry:
        return Entry(self.shelf.upload(self.gce), 1, etag)

    @property
    def gce(self) -> int:
        return self.checks.views[-1].gce

    def put(self, name: str, id_: str, path: str, entry: Entry | None = None, **options: Any) -> RequestId:
        """PUT one entry (a new one unless given) on main."""
        rows = options.pop("rows", None) or (Row(path, entry or self.upload()),)
        instance = options.pop("instance", MAIN)
        request = Request(id_, self.machine(name).now)
        return self.ask(name, Write(r.Put(request, instance, options.pop("epoch", self.gce), rows, **options)))

    def commit(self, name: str, id_: str, **options: Any) -> RequestId:
        return self.ask(name, Commit(Request(id_, self.machine(name).now), MAIN, TTL_NS, **options))

    def move(self, name: str, id_: str, what: Any, **options: Any) -> RequestId:
        instance = options.pop("instance", MAIN)
        return self.ask(name, Move(Request(id_, self.machine(name).now), instance, what, **options))

    def write(self, name: str, record: r.Changing) -> RequestId:
        return self.ask(name, Write(record))

    def request(self, id_: str) -> Request:
        return Request(id_, self.machine().now)

    def status(self, request: RequestId) -> str | None:
        result = self.replies.get(request)
        return None if result is None else result.status.value

    # the queue

    def append(self, record: r.Record) -> None:
        """Something of a foreign member, or an old copy."""
        self.accept([Envelope(None, record)])

    def accept(self, envelopes: list[Envelope] | None = None) -> None:
        """Put the sent records onto the queue."""
        if envelopes is None:
            envelopes, self.sent = self.sent, []
        for envelope in envelopes:
            self.log.append((10**15 + self.now, envelope))

    def lose(self) -> None:
        """Lose the sent records."""
        self.sent = []

    def deliver(self, name: str, count: int | None = None) -> None:
        """Give a member the records that it lacks, or the next few of them."""
        end = len(self.log) if count is None else self.cursors[name] + count
        while self.cursors[name] < end:
            stamp, envelope = self.log[self.cursors[name]]
            self.cursors[name] += 1
            self.step(name, Delivered(self.cursors[name], stamp, envelope))

    def pump(self, *names: str) -> None:
        """Everything sent is accepted and delivered (to all members, or to these) until nothing more is sent."""
        while True:
            self.accept()
            before = len(self.log)
            for name in names or self.members:
                self.deliver(name)
            if not self.sent and len(self.log) == before:
                return

    def build(self) -> None:
        """Do what members want built or looked up."""
        work, self.work = self.work, []
        for name, effect in work:
            if name not in self.members:
                continue
            if isinstance(effect, LookUp):
                record = look_up(self.shelf, self.machine(name), effect.record, effect.result)
                self.step(name, LookedUp(effect.waiting, record))
            else:
                assert isinstance(effect, Build | Rebuild | BuildMove)
                self.step(name, self.builder.run(effect) or BuildFailed(effect.waiting, "it broke"))

    def run(self) -> None:
        """Until all is quiet."""
        self.pump()
        while self.work:
            self.build()
            self.pump()

    def sleep(self, ms: int) -> None:
        """Time passes; timers which may have fired, fire."""
        self.now = Instant(self.now + ms * MILLISECOND)
        for name, member in self.members.items():
            self.step(name, TimerFired("watch"))
            for waiting in [*member._retrying, *member.proposals._proposals]:
                self.step(name, TimerFired(str(waiting)))

    # looking

    def shown(self, instance: Instance = MAIN) -> dict[str, str]:
        """Path to address at the newest position anyone has applied."""
        return {path: entry.address for path, entry in self.checks.views[-1].branches[instance].shown.items()}

    def head(self) -> str:
        return self.checks.views[-1].branches[MAIN].head
