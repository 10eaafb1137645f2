"""A broker as a simulated process: a replica with its Spool's file, its mirror, its lease and its uploads.

It is to the simulator what the broker's shell is to the runtime. A lease is renewed; when it is lost the broker is a
zombie until it learns of it, and then gets another one, or ends. Uploads take their time, and may be tried again.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from penstock.journals.core.config import JournalConfig
from penstock.journals.core.effects import (
    Alarm,
    AwaitRevision,
    CloseStream,
    ContentEnded,
    ContentReceived,
    CutSpool,
    DropSpool,
    IndexRefreshed,
    ProposalReceived,
    Proxy,
    ReadContent,
    Retired,
    RollSpool,
    SetAside,
    ShowMark,
    StreamClosed,
    TopologyChanged,
    Transact,
    Transacted,
    TransactionEnd,
    Upload,
    WriteContent,
)
from penstock.journals.core.replica import Replica
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.messages import ProposeRequest
from penstock.journals.records.route import decoders, topology_of
from penstock.kernel.effects import Effect, Event, Received, Reply, Send
from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import MILLISECOND, Incarnation, Instant, NodeId, Offset, RequestId, Revision
from penstock.kernel.machine import Machine
from penstock.kernel.probes import reached
from penstock.keyspace.core.allocator.layout import Layout
from penstock.keyspace.core.mirror import Mirror
from penstock.keyspace.core.records import NO_LEASE, KeySnapshot, Lease, LeaseId, WatchBatch
from penstock.keyspace.core.transaction import TransactOutcome
from penstock_lab.sim.checkers.journal_view import JournalContents, JournalView, Passed, passed_in, view_of
from penstock_lab.sim.disk import DiskContent
from penstock_lab.sim.keyspace import SimulatedKeySpace
from penstock_lab.sim.node import SimNode
from penstock_lab.sim.workloads.journal_streams import Streams

__all__ = ["BrokerProgram", "Neighbours"]


class StreamSend(Effect, frozen=True):
    """A message for a Replicate stream."""

    to: NodeId
    message: Any


class Neighbours(Protocol):
    """The recipients of a broker's effects."""

    def stepped(self, name: NodeId, before: JournalView, view: JournalView, passed: Passed) -> None: ...

    def sending(self, name: NodeId, message: Any) -> None: ...

    def replied(self, name: NodeId, request: RequestId, result: Any) -> None: ...

    def proxied(self, request: RequestId, to: NodeId, revision: Revision) -> None: ...

    def reading(self, name: NodeId, request: RequestId) -> None: ...

    def stored(self, fragment: Fragment) -> None: ...

    def index_end(self) -> Offset: ...


class WatchedBroker:
    """The core, with the checkers looking over its shoulder."""

    def __init__(self, program: "BrokerProgram", is_checked: bool) -> None:
        self.program = program
        self.is_checked = is_checked

    def step(self, event: Event, now: Instant) -> Sequence[Effect]:
        program = self.program
        if isinstance(event, Received) and isinstance(event.message, ProposeRequest):
            sum_ = program.contents.sum_of(program.running + event.message.content)
            event = ProposalReceived(event.sender, event.message, sum_)
        before = program.view
        effects = program.replica.step(event, now)
        program.look()
        program.neighbours.stepped(program.name, before, program.view, passed_in(effects))
        return [StreamSend(effect.to, effect.message) if isinstance(effect, Send) else effect for effect in effects]

    def check(self) -> None:
        if self.is_checked:
            self.program.replica.check()


class BrokerProgram:
    """One broker of the journal."""

    def __init__(
        self,
        name: NodeId,
        journal: str,
        replica_class: type[Replica],
        config: JournalConfig,
        contents: JournalContents,
        keyspace: SimulatedKeySpace,
        streams: Streams,
        neighbours: Neighbours,
        *,
        is_kept: bool,
        lease_ms: int,
        is_checked: bool,
    ) -> None:
        self.name, self.journal, self.replica_class, self.config = name, journal, replica_class, config
        self.contents, self.keyspace, self.streams, self.neighbours = contents, keyspace, streams, neighbours
        self.is_kept = is_kept
        self.lease_ms = lease_ms
        self.is_checked = is_checked
        self.layout = Layout(config.root)
        self.uploads: list[Fragment] = []
        self.running = b""
        self.lease = NO_LEASE
        self.upload_ns = 2 * MILLISECOND
        self.set_aside = 0  # how often it could not tell whether content was committed

    def look(self) -> None:
        """The replica may be another one now. All its neighbours look at one picture between two steps."""
        self.view = view_of(self.replica, self.node.run)

    # life

    def boot(self, node: SimNode, found: DiskContent) -> tuple[Machine, Sequence[Effect]]:
        self.node = node
        state = found.state if self.is_kept else None
        incarnation = Incarnation(f"{self.name}-{node.run}")
        self.replica = self.replica_class(
            self.name, self.journal, incarnation, self.config, is_kept=self.is_kept, state=state
        )
        self.look()
        self.running = self.contents[state.points[-1].sum] if state is not None else b""
        if state is None:
            self.uploads.clear()
        self.mirror = Mirror(f"{self.config.root}/", decoders(self.config.root))
        self.lease = NO_LEASE
        node.world.after(0, lambda: self._begin(node.run))
        return WatchedBroker(self, self.is_checked), []

    def _begin(self, run: int) -> None:
        if self.node.run == run and self.node.is_up:
            self.node.deliver(IndexRefreshed(self.neighbours.index_end()))
            self._load()
            self._grant()
            for fragment in list(self.uploads):
                self._upload(fragment)

    # the mirror

    def _load(self) -> None:
        self.keyspace.read(self.node, self.mirror.prefix, self._loaded)

    def _loaded(self, result: KeySnapshot | PenstockError) -> None:
        if isinstance(result, PenstockError):
            self.node.when_awake(lambda: self._later(5 * MILLISECOND, self._load))
            return
        self.mirror.load(result)
        self._show()
        self.keyspace.watch(self.node, self.mirror.prefix, Revision(self.mirror.revision + 1), self._watched)

    def _watched(self, result: WatchBatch | PenstockError) -> None:
        def apply() -> None:
            if isinstance(result, PenstockError):
                self._load()
            elif result.revision > self.mirror.revision:
                self.mirror.apply(result)
                self._show()

        self.node.when_awake(apply)

    def _show(self) -> None:
        self.node.deliver(TopologyChanged(topology_of(self.mirror, self.layout, self.journal)))

    # the lease

    def _grant(self) -> None:
        self.keyspace.grant_lease(self.node, self.lease_ms, self._granted)

    def _granted(self, result: Lease | PenstockError) -> None:
        if isinstance(result, PenstockError):
            self._later(5 * MILLISECOND, self._grant)
            return
        self.lease = result.id
        self._keep_alive(result.id)

    def _keep_alive(self, lease: LeaseId) -> None:
        def kept(result: Lease | PenstockError) -> None:
            if isinstance(result, PenstockError) and result.code == "lease-expired":
                self.node.when_awake(self._lost_lease)
            else:
                self._later(self.lease_ms * MILLISECOND // 4, lambda: self._keep_alive(lease))

        if lease == self.lease:
            self.node.when_awake(lambda: self.keyspace.keep_alive(self.node, lease, kept))

    def _lost_lease(self) -> None:
        reached("journal.lost_lease")
        self.lease = NO_LEASE
        self._grant()

    def _later(self, delay_ns: int, do: Any) -> None:
        run = self.node.run

        def then() -> None:
            if self.node.run == run and self.node.is_up:
                do()

        self.node.world.after(delay_ns, then)

    # streams

    def receive(self, source: NodeId, epoch: Any, message: Any) -> None:
        self.node.deliver(StreamClosed(source, epoch) if message is None else Received(source, message))

    # effects

    def perform(self, node: SimNode, effect: Effect) -> None:
        match effect:
            case StreamSend(to, message):
                self.neighbours.sending(self.name, message)
                self.streams.send(self.name, to, message.epoch, message)
            case CloseStream(peer, epoch):
                self.streams.close(self.name, peer, epoch)
            case WriteContent(content):
                self.running += content
            case CutSpool(point) | RollSpool(point):
                self.running = self.contents[point.sum]
            case Transact(number, transaction):
                self.keyspace.transact(node, transaction, lambda result: self._transacted(number, result))
            case Reply(request, result):
                self.neighbours.replied(self.name, request, result)
            case Proxy(request, to, revision):
                self.neighbours.proxied(request, to, revision)
            case ReadContent(request):
                self.neighbours.reading(self.name, request)
            case _:
                self._perform_rare(effect)

    def _perform_rare(self, effect: Effect) -> None:
        match effect:
            case Upload(fragment):
                self.uploads.append(fragment)
                self._upload(fragment)
            case DropSpool():
                self.running = b""
            case AwaitRevision(revision):
                if self.mirror.revision >= revision:
                    self._later(0, self._show)
            case SetAside():
                reached("journal.set_aside")
                self.set_aside += 1
            case ShowMark() | Retired() | Alarm():
                pass
            case _:
                raise AssertionError(f"a broker does not know {type(effect).__name__}")

    def _transacted(self, number: int, result: TransactOutcome | PenstockError) -> None:
        if isinstance(result, PenstockError):
            self.node.deliver(Transacted(number, TransactionEnd.of_error(result.code)))
        else:
            revision = result.revision if result.succeeded else Revision(0)
            self.node.deliver(Transacted(number, TransactionEnd.of(succeeded=result.succeeded), revision))

    # content

    def feed(self, request: RequestId, content: bytes, is_end: bool) -> None:
        if not is_end:
            self.node.deliver(ContentReceived(request, content))
            return
        sum_ = self.contents.sum_of(self.running + content)
        self.node.deliver(ContentEnded(request, sum_, self.contents.sum_of(content), content))

    # uploads

    def _upload(self, fragment: Fragment) -> None:
        self._later(int(self.node.world.rng.random() * 2 * self.upload_ns), lambda: self._uploaded(fragment))

    def _uploaded(self, fragment: Fragment) -> None:
        if self.node.is_paused or self.node.world.rng.random() < 0.1:
            self._upload(fragment)
        elif fragment in self.uploads:
            self.uploads.remove(fragment)
            self.neighbours.stored(fragment)
