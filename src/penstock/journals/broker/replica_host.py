"""One journal at one broker, in a real process: the append core on spool files, Replicate streams and the KeySpace.

The core decides; this runs its effects and brings completions back. Content goes through as views of what the network
brought: through SHA-1, to peers, and into the Spool's file, all that one read brought with one write. Waiting readers
are woken when the mark moves.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from penstock.journals.broker.feed import Feed
from penstock.journals.broker.fragments import JournalFragments, Shelf
from penstock.journals.broker.links.replicate_links import ReplicateLinks
from penstock.journals.broker.load_reporter import LoadReporter
from penstock.journals.broker.replica_loop import ReplicaLoop
from penstock.journals.broker.spools.room import FullDisk, Room
from penstock.journals.broker.spools.spool_files import SpoolFiles
from penstock.journals.broker.spools.spool_saver import SpoolSaver
from penstock.journals.broker.spools.unstored import Unstored
from penstock.journals.broker.status.figures import Alarms
from penstock.journals.core.effects import (
    Alarm,
    AwaitRevision,
    CloseStream,
    ContentRefused,
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
    TopologyChanged,
    Transact,
    Transacted,
    TransactionEnd,
    Upload,
    WriteContent,
)
from penstock.journals.core.replica import Replica
from penstock.journals.core.spool import SpoolState, length_of
from penstock.journals.records.api import AppendResponse, ResetHead, Resolution, Resolve
from penstock.journals.records.fragment import Fragment
from penstock.journals.records.head import HeadTable
from penstock.journals.records.messages import ContentRequest, ProposeRequest
from penstock.journals.records.route import Topology
from penstock.kernel.effects import Effect, Received, Reply, Requested
from penstock.kernel.errors import (
    HeadLost,
    InternalError,
    KeySpaceForgot,
    PenstockError,
    StorageError,
    Unavailable,
)
from penstock.kernel.ids import MILLISECOND, Instant, NodeId, Offset, RequestId, Revision
from penstock.keyspace.core.transaction import Transaction
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.ports.ports import Ports
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.client import Channel

__all__ = ["Broker", "ReplicaHost"]

SYNC_S: Final = 1.0  # a sync takes milliseconds: a reader that waits longer asks the primary
CATCH_UP_S: Final = 5.0  # a replica learns of the mark with the next message, or at once: far less than this
log = get_logger()


class Broker(Shelf, Protocol):
    """What a replica needs of the broker it lives in."""

    me: NodeId
    ports: Ports
    keyspace: KeySpace
    mirror: KeySpaceMirror
    tasks: Tasks
    loads: LoadReporter
    alarms: Alarms
    unstored: Unstored
    full_disk: FullDisk
    work: int

    def topology(self, journal: str) -> Topology: ...

    def channel_of(self, broker: NodeId) -> Channel | None: ...

    def primary_address(self, journal: str) -> str: ...

    def retired(self, host: "ReplicaHost") -> None: ...

    def failed(self, host: "ReplicaHost") -> None: ...


class ReplicaHost:
    """Runs one replica. `failed` says why it no longer does, if so."""

    def __init__(self, broker: Broker, journal: str, replica: Replica, files: SpoolFiles) -> None:
        self.journal = journal
        self.replica = replica
        self.files = files
        self.failed = ""
        self.mark = replica.spool.mark
        self._is_recovered = replica.spool.end > 0  # from the files of an earlier run
        self.is_retired = False
        self.is_replaced = False  # by another one, on the same files, as soon as this one is closed
        self.fragments = JournalFragments(journal, files, self, broker, broker.ports.clock)
        self._broker = broker
        self._links = ReplicateLinks(journal, broker.me, self, broker.channel_of, broker.tasks)
        self._loop = asyncio.get_running_loop()
        self._machine = ReplicaLoop(replica, self, broker.ports.clock.monotonic_ns)
        self.feed = Feed(self, self._machine, files, self._links, broker.loads.note, broker.ports.clock)
        self.next_content = self.feed.next_content
        self.send: Callable[[NodeId, Any], None] = self._links.send
        self.post = self._machine.post
        self.room = Room(broker.me, files, broker.unstored, self._machine.post, broker.full_disk)
        self._saver = SpoolSaver(files, lambda error: self._machine.stop(str(error)))
        self._requests = 0
        self._asked: dict[RequestId, asyncio.Future[Any]] = {}
        self._told: list[tuple[RequestId, Any]] = []  # answers that have not left yet
        self._readers: deque[asyncio.Future[None]] = deque()
        self._awaited: set[Revision] = set()
        self._is_closing = False

    @property
    def links(self) -> ReplicateLinks:
        return self._links

    @property
    def is_primary(self) -> bool:
        return self.replica.topology.route.primary == self._broker.me

    @property
    def broker(self) -> NodeId:
        return self._broker.me

    @property
    def is_alone(self) -> bool:
        """No other broker serves the journal."""
        return set(self.replica.topology.route.members) <= {self._broker.me}

    @property
    def is_stored(self) -> bool:
        """It has retired, and nothing it had is left to be stored."""
        return self.is_retired and not self._broker.persister.waiting(self.journal)

    @property
    def table(self) -> HeadTable:
        return self.replica.table

    def start(self, final: tuple[Fragment, ...]) -> None:
        """Begin: `final` are Fragments of an earlier run which are still to be stored."""
        self.fragments.start(final)

    # events

    def on_topology(self, topology: Topology) -> None:
        """The mirror has moved, for this journal."""
        self.feed.set_rate(topology.spec.max_append_rate if topology.spec is not None else 0)
        self.room.has_stores = topology.spec is not None and bool(topology.spec.fragment.stores)
        if self._broker.me in topology.route.members:
            self.is_retired = False
        self.fragments.on_primary(topology.route.primary)
        self.post(TopologyChanged(topology))
        self.fragments.on_topology(topology.spec, topology.begin)
        if self._readers and not self.replica.knows_head:
            self.wake_readers()

    def on_index(self, end: Offset) -> None:
        """The stores were listed."""
        self.post(IndexRefreshed(end))

    def on_proposal(self, peer: NodeId, message: ProposeRequest) -> None:
        self._broker.work += 1
        if not message.content or self._has_room(peer, message):
            self.post(ProposalReceived(peer, message, self.feed.sum_with(message.content)))

    def on_content(self, peer: NodeId, message: ContentRequest) -> None:
        if self._has_room(peer, message):
            self.post(Received(peer, message))

    def _has_room(self, peer: NodeId, message: ContentRequest | ProposeRequest) -> bool:
        """Reserve room for content of the primary. If there is none, tell the core, and write nothing."""
        if self.failed:
            return False
        try:
            shortage = self.room.reserve(length_of(message.content))
        except StorageError as error:
            self._machine.stop(str(error))
            return False
        if shortage is not None:
            self.post(ContentRefused(peer, message, shortage))
        return shortage is None

    def together(self) -> AbstractContextManager[None]:
        """Handle several events that came at once: their messages are sent, and their content written, once."""
        return self._machine

    def on_links_drained(self) -> None:
        self._machine.go_on()

    # asking

    async def resolve(self, query: Resolve) -> Resolution:
        resolution: Resolution = await self._ask(query)
        return resolution

    async def reset_head(self, timeout_ms: int, offset: Offset | None) -> AppendResponse:
        deadline = Instant(self._machine.now + timeout_ms * MILLISECOND)
        ask = ResetHead(deadline=deadline, offset=offset, unix_ms=self._broker.ports.clock.time_ns() // 1_000_000)
        response: AppendResponse = await self._ask(ask)
        return response

    async def _ask(self, body: Any) -> Any:
        if self.failed:
            raise Unavailable(f"this replica has stopped: {self.failed}")
        request = self.next_request()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._asked[request] = future
        try:
            self.post(Requested(request, body))
            return await future
        finally:
            self._asked.pop(request, None)

    async def wait_for_mark(self, beyond: Offset) -> None:
        """Until readers may see something at or behind `beyond`."""
        while self.mark <= beyond:
            await self.wait_for_change()

    async def come_to(self, head: Offset) -> None:
        """Wait until this replica shows the content that the client knows of; otherwise let another one be asked."""
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while self.fragments.write_head < head:
                    await self.wait_for_change()
        except TimeoutError:
            raise Unavailable(
                f"this replica of {self.journal} has come to {self.fragments.write_head}, not to {head}: "
                "ask another one"
            ) from None

    @property
    def may_lag(self) -> bool:
        """Return whether acknowledged content may be above the mark. After a restart the mark is a lower bound."""
        spool = self.replica.spool
        return self._is_recovered and self.mark < (spool.start or spool.end)

    async def come_to_head(self) -> None:
        """Wait until this replica knows where the journal ends. Refuse the read if no broker does."""
        try:
            async with asyncio.timeout(CATCH_UP_S if self.is_primary else SYNC_S):
                while not self.replica.knows_head or self.may_lag:
                    if self.replica.is_head_lost:
                        raise self._head_lost()
                    await self.wait_for_change()
        except TimeoutError:
            primary = self._broker.primary_address(self.journal)
            raise Unavailable(
                f"this replica of {self.journal} has not joined the newest epoch: it does not know the journal's end",
                next_step=f"penstock journals explain {self.journal}",
                ask=primary if not self.is_primary else "",
            ) from None

    def _head_lost(self) -> HeadLost:
        begin = self.fragments.write_head
        return HeadLost(
            f"no broker has what {self.journal} acknowledged from {begin} on",
            next_step=f"penstock journals reset-head {self.journal}",
            begin=begin,
        )

    async def wait_for_change(self) -> None:
        """Until the mark has moved, or the fragments of the stores were listed, or something was uploaded."""
        if self.failed or self._is_closing:
            raise Unavailable(f"this broker no longer serves {self.journal}")
        future = self._loop.create_future()
        self._readers.append(future)
        self._links.watch()
        await future

    def wake_readers(self) -> None:
        while self._readers:
            future = self._readers.popleft()
            if not future.done():
                future.set_result(None)

    def next_request(self) -> RequestId:
        self._requests += 1
        return RequestId(self._requests)

    # effects

    def save(self, state: SpoolState, done: Callable[[], None]) -> None:
        self._saver.save(state, done)

    def flush(self) -> None:
        """Peers learn of content before it is written here, so that all of them write at the same time.

        But no peer learns that content is here before it is.
        """
        links, files = self._links, self.files
        if links.has_answers and files.is_behind:
            files.write_out()
        if links.to_flush:
            links.flush()
        if files.is_behind:
            files.write_out()
        if self.feed.answered:
            self.feed.send_answers()
        if self._told:
            self._tell()
        if self.feed.unsummed:
            self.feed.sum_up()

    def perform(self, effect: Effect) -> None:
        """The effects of every append are found by their type: a `match` looks at each class before the right one."""
        if type(effect) is WriteContent:
            self.feed.write(effect.content)
        elif type(effect) is ReadContent:
            self.feed.read(effect.request)
        elif type(effect) is ShowMark:
            self.mark = effect.mark
            if self._readers:
                self.wake_readers()
        elif type(effect) is Reply:
            if not self.feed.answer(effect.request, effect.result):
                self._told.append((effect.request, effect.result))
        else:
            self._perform_on_files(effect)

    def _perform_on_files(self, effect: Effect) -> None:
        match effect:
            case CutSpool(point):
                self.feed.forget_ahead()
                self.files.cut(point)
            case RollSpool(point):
                self.files.roll(point)
            case Upload(fragment):
                self.fragments.upload(fragment)
            case DropSpool():
                self.mark = Offset(0)
                self.feed.forget_ahead()
                self.fragments.drop()
            case SetAside(fragment, mark):
                path = self.files.set_aside(fragment, mark)
                log.error("content set aside", journal=self.journal, mark=mark, end=fragment.end, path=str(path))
            case _:
                self._perform_rare(effect)

    def _perform_rare(self, effect: Effect) -> None:
        match effect:
            case CloseStream(peer, epoch):
                self.files.write_out()  # messages already sent on it leave first
                self._links.close(peer, epoch)
            case Transact(number, transaction):
                self._start(self._transact(number, transaction), "transaction")
            case AwaitRevision(revision):
                self._await_revision(revision)
            case Alarm(status, reason):
                self._broker.alarms.raised(self.journal, status, reason)
                self.wake_readers()
            case Retired():
                self.is_retired = True
                self._broker.retired(self)
            case Proxy():
                raise InternalError("clients get the primary's address: no append is handed over")
            case _:
                raise InternalError(f"a replica's shell does not know {type(effect).__name__}")

    def _tell(self) -> None:
        """Answer questions. Call it only after the content of this turn is written."""
        told, self._told = self._told, []
        for request, result in told:
            future = self._asked.get(request)
            if future is not None and not future.done():
                future.set_result(result)

    async def _transact(self, number: int, transaction: Transaction) -> None:
        try:
            outcome = await self._broker.keyspace.transact(transaction.compares, transaction.then)
        except KeySpaceForgot:
            raise
        except PenstockError as error:
            log.warning("transaction not done", journal=self.journal, code=error.code, reason=str(error))
            self.post(Transacted(number, TransactionEnd.of_error(error.code)))
        else:
            self.post(Transacted(number, TransactionEnd.of(succeeded=outcome.succeeded), outcome.revision))

    def _await_revision(self, revision: Revision) -> None:
        if self._broker.mirror.has_revision(revision):
            self._machine.post(TopologyChanged(self._broker.topology(self.journal)))
        elif revision not in self._awaited:
            self._awaited.add(revision)
            self._start(self._wait_for(revision), "waits for a revision")

    async def _wait_for(self, revision: Revision) -> None:
        try:
            await self._broker.mirror.wait_for_revision(revision)
        finally:
            self._awaited.discard(revision)
        self.post(TopologyChanged(self._broker.topology(self.journal)))

    def _start(self, work: Any, name: str) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._broker.tasks.start(self._guarded(work), f"{self.journal}: {name}")

    async def _guarded(self, work: Any) -> None:
        """Whatever a background effect meets ends this replica, and says why."""
        try:
            await work
        except (PenstockError, OSError) as error:
            self._machine.stop(str(error))
            if isinstance(error, KeySpaceForgot):
                raise

    # ends

    def stopped(self, reason: str) -> None:
        """The core cannot continue: this replica has ended, others of the process have not."""
        self.failed = reason
        report = log.info if self._is_closing else log.error
        report("journal stopped", journal=self.journal, reason=reason)
        self._links.abandon()
        self.feed.stop(reason)
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(Unavailable(f"this replica has stopped: {reason}"))
        self.wake_readers()
        if not self._is_closing:
            self._broker.failed(self)

    async def close(self, *, keeps: bool) -> None:
        """Stop: its streams end, and waiting clients get an error. `keeps`: the Spool is for the next run."""
        self._is_closing = True
        self.feed.close()
        was_well = not self.failed
        if was_well:
            self._machine.stop("the broker no longer serves the journal")
        self.room.close()
        self._links.close_all()
        await self.fragments.close()
        self._saver.give_up()
        await self._saver.quiet()
        is_kept = self.replica.spool.is_kept
        if not keeps and not self.files.fragments():  # what no store has is not thrown away
            self.files.drop()
        elif was_well and keeps and not is_kept:
            await self._keep()
        self.files.close()

    async def _keep(self) -> None:
        """Save the state of a Spool that is not kept: nothing is acknowledged any more, so that it is the last."""
        try:
            save = self.files.prepare_save(self.replica.spool.state)
            try:
                await asyncio.to_thread(save.run)
            finally:
                save.end()
        except StorageError as error:
            log.error("spool not kept", journal=self.journal, reason=str(error))
