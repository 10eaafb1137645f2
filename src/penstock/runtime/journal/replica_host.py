"""One journal at one broker, in a real process: the append core on spool files, Replicate streams and the KeySpace.

The core decides; this runs its effects and brings completions back. Content goes through as views of what the network
brought: to peers, into the Spool's file, and through SHA-1. Whoever waits to read is woken when the mark moves.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from penstock.base.effects import Effect, Event, Reply, Requested
from penstock.base.errors import (
    Indeterminate,
    InternalError,
    KeySpaceForgot,
    LeaseExpired,
    PenstockError,
    Unavailable,
)
from penstock.base.ids import MILLISECOND, Instant, NodeId, Offset, RequestId, Revision
from penstock.journal.api import AppendRequest, AppendResponse, Fate, ResetHead, Resolution, Resolve, Status
from penstock.journal.effects import (
    AppendAborted,
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
    TopologyChanged,
    Transact,
    Transacted,
    TransactionEnd,
    Upload,
    WriteContent,
)
from penstock.journal.fragment import Fragment, Sum
from penstock.journal.head import HeadTable
from penstock.journal.messages import ProposeRequest
from penstock.journal.point import Point
from penstock.journal.replica import Replica
from penstock.journal.route import Topology
from penstock.journal.spool import SpoolState, length_of
from penstock.keyspace.transaction import Transaction
from penstock.runtime.journal.appends import Bucket, Content, FlowPolice, Place
from penstock.runtime.journal.fragments import JournalFragments, Shelf
from penstock.runtime.journal.load_reporter import LoadReporter
from penstock.runtime.journal.protocol import AppendWish
from penstock.runtime.journal.replica_loop import ReplicaLoop
from penstock.runtime.journal.replicate_links import ReplicateLinks
from penstock.runtime.journal.sessions import AppendSession
from penstock.runtime.journal.spool_files import SpoolFiles
from penstock.runtime.journal.spool_saver import SpoolSaver
from penstock.runtime.keyspace.mirror import KeySpaceMirror
from penstock.runtime.keyspace.port import KeySpace
from penstock.runtime.logs import get_logger
from penstock.runtime.tasks import Tasks
from penstock.runtime.wire.client import Channel

__all__ = ["Broker", "ReplicaHost"]

POLICE_S: Final = 1.0  # how often the client whose turn it is is looked at
TIMEOUT_MS_MAX: Final = 3_600_000
log = get_logger()


class Broker(Shelf, Protocol):
    """What a replica needs of the broker it lives in."""

    me: NodeId
    keyspace: KeySpace
    mirror: KeySpaceMirror
    tasks: Tasks
    loads: LoadReporter

    def topology(self, journal: str) -> Topology: ...

    def channel_of(self, broker: NodeId) -> Channel | None: ...

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
        self.is_retired = False
        self.fragments = JournalFragments(journal, files, self, broker)
        self._broker = broker
        self._links = ReplicateLinks(journal, broker.me, self, broker.channel_of, broker.tasks)
        self._loop = asyncio.get_running_loop()
        self._machine = ReplicaLoop(replica, self)
        self._saver = SpoolSaver(files, lambda error: self._machine.stop(str(error)))
        self._requests = 0
        self._appends: dict[RequestId, Content] = {}
        self._asked: dict[RequestId, asyncio.Future[Any]] = {}
        self._reading: Content | None = None  # whose turn it is
        self._ahead: Any = None  # content which is in the file, and the core has not said so yet
        self._before = Point(Offset(0), Offset(0))  # where the file ended before that
        self._police = FlowPolice(Instant(0))
        self._bucket = Bucket(0)
        self._pause: asyncio.TimerHandle | None = None  # until the journal's maximum rate allows more
        self._patrol: asyncio.TimerHandle | None = None
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

    def post(self, event: Event) -> None:
        """Let the core handle an event."""
        if not self.failed:
            self._machine.post(event)

    def on_topology(self, topology: Topology) -> None:
        """The mirror has moved, for this journal."""
        rate = topology.spec.max_append_rate if topology.spec is not None else 0
        if rate != self._bucket.bytes_per_s:
            self._bucket = Bucket(rate)
        if self._broker.me in topology.route.members:
            self.is_retired = False
        self.post(TopologyChanged(topology))
        self.fragments.on_topology(topology.spec)

    def on_index(self, end: Offset) -> None:
        """The stores were listed."""
        self.post(IndexRefreshed(end))

    def on_proposal(self, peer: NodeId, message: ProposeRequest) -> None:
        self.post(ProposalReceived(peer, message, self.files.sum))

    # appends

    def begin(self, session: AppendSession, number: int, wish: AppendWish, members: Sequence[Place] = ()) -> Content:
        """A client wants to append, or several which are fed as one; the content comes by `offer`."""
        append = Content(self, self._next_request(), session, number, members)
        now = self._machine.now
        timeout_ms = min(max(1, wish.timeout_ms), TIMEOUT_MS_MAX)
        request = AppendRequest(
            deadline=Instant(now + timeout_ms * MILLISECOND),
            offset=wish.offset,
            check=wish.check,
            change=wish.change,
            txn=wish.txn,
            min_revision=wish.min_revision,
            may_proxy=False,
            unix_ms=time.time_ns() // 1_000_000,
        )
        self._appends[append.request] = append
        session.opened(append)
        self.post(Requested(append.request, request))
        return append

    def offer(self, append: Content, content: Any, *, is_end: bool) -> None:
        """More of an append's content has come, or all of it."""
        append.add(content)
        if append.request not in self._appends:
            append.drop()  # it was answered before its client had sent all of it
            return
        append.is_ended = append.is_ended or is_end
        if append is self._reading:
            self._machine.go_on()

    def abort(self, append: Content, reason: str) -> None:
        """The client rolled back, or went away before it had sent everything."""
        append.drop()
        self.post(AppendAborted(append.request, reason))

    def next_content(self) -> Event | None:
        """What the core has asked for: if it is here, peers can take it, and the rate allows it."""
        self._take_back()
        append = self._reading
        if append is None or not (append.chunks or append.is_ended):
            return None
        if self._links.is_full or not self._has_allowance():
            self._police.forgive(self._machine.now)
            return None
        content = append.take()
        length = length_of(content)
        self._police.took(length)
        self._bucket.take(length)
        self._broker.loads.note(self.journal, length)
        if append.chunks or not append.is_ended:
            return ContentReceived(append.request, content)
        self._reading = None
        sum_ = self._write_ahead(content) if length else self.files.sum
        return ContentEnded(append.request, sum_, append.sum, content)

    def _write_ahead(self, content: Any) -> Sum:
        """A commit names the sum of content which is written by an effect that follows from it: so write it before."""
        files = self.files
        self._ahead, self._before = content, Point(self.replica.spool.head.begin, files.end, files.sum)
        files.write(content)
        return files.sum

    def _write(self, content: Any) -> None:
        if content is self._ahead:
            self._ahead = None
        else:
            self.files.write(content)

    def _take_back(self) -> None:
        """What was written ahead, and the core did not want."""
        if self._ahead is not None:
            self._ahead = None
            self.files.cut(self._before)

    def _has_allowance(self) -> bool:
        if not self._bucket.bytes_per_s:
            return True
        if self._pause is not None:
            return False
        wait_ns = self._bucket.wait_ns(self._machine.now)
        if wait_ns:
            self._pause = self._loop.call_later(wait_ns / 1e9, self._resume)
        return not wait_ns

    def _resume(self) -> None:
        self._pause = None
        self._machine.go_on()

    def on_links_drained(self) -> None:
        self._machine.go_on()

    def _read(self, request: RequestId) -> None:
        """It is this append's turn."""
        append = self._appends.get(request)
        if append is None:
            return
        self._reading = append
        self._police = FlowPolice(self._machine.now)
        if not append.is_ended and self._patrol is None:
            self._patrol = self._loop.call_later(POLICE_S, self._look)

    def _look(self) -> None:
        """Is the client whose turn it is fast enough?"""
        self._patrol = None
        append = self._reading
        if append is None or self.failed:
            return
        if append.chunks:  # the wait is ours
            self._police.forgive(self._machine.now)
        elif self._police.is_too_slow(self._machine.now):
            self.abort(append, "the client sends its content too slowly, and others wait behind it")
            return
        self._patrol = self._loop.call_later(POLICE_S, self._look)

    # asking

    async def resolve(self, query: Resolve) -> Resolution:
        resolution: Resolution = await self._ask(query)
        return resolution

    async def reset_head(self, timeout_ms: int) -> AppendResponse:
        response: AppendResponse = await self._ask(
            ResetHead(deadline=Instant(self._machine.now + timeout_ms * MILLISECOND))
        )
        return response

    async def _ask(self, body: Any) -> Any:
        if self.failed:
            raise Unavailable(f"this replica has stopped: {self.failed}")
        request = self._next_request()
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

    async def wait_for_change(self) -> None:
        """Until the mark has moved, or the fragments of the stores were listed, or something was uploaded."""
        if self.failed or self._is_closing:
            raise Unavailable(f"this broker no longer serves {self.journal}")
        future = self._loop.create_future()
        self._readers.append(future)
        await future

    def wake_readers(self) -> None:
        while self._readers:
            future = self._readers.popleft()
            if not future.done():
                future.set_result(None)

    def _next_request(self) -> RequestId:
        self._requests += 1
        return RequestId(self._requests)

    # effects

    def send(self, to: NodeId, message: Any) -> None:
        self._links.send(to, message)

    def save(self, state: SpoolState, done: Callable[[], None]) -> None:
        self._saver.save(state, done)

    def perform(self, effect: Effect) -> None:
        match effect:
            case WriteContent(content):
                self._write(content)
            case ReadContent(request):
                self._read(request)
            case Reply(request, result):
                self._reply(request, result)
            case ShowMark(mark):
                self.mark = mark
                self.wake_readers()
            case CutSpool(point):
                self._ahead = None  # it goes with the rest
                self.files.cut(point)
            case RollSpool(point):
                self.files.roll(point)
            case Upload(fragment):
                self.fragments.upload(fragment)
            case _:
                self._perform_rare(effect)

    def _perform_rare(self, effect: Effect) -> None:
        match effect:
            case CloseStream(peer, epoch):
                self._links.close(peer, epoch)
            case Transact(number, transaction):
                self._start(self._transact(number, transaction), "transaction")
            case AwaitRevision(revision):
                self._await_revision(revision)
            case DropSpool():
                self.mark, self._ahead = Offset(0), None
                self.fragments.drop()
            case SetAside(fragment, mark):
                path = self.files.set_aside(fragment, mark)
                log.error("content set aside", journal=self.journal, mark=mark, end=fragment.end, path=str(path))
            case Retired():
                self.is_retired = True
                self._broker.retired(self)
            case Proxy():
                raise InternalError("clients are told where the primary is: no append is handed over")
            case _:
                raise InternalError(f"a replica's shell does not know {type(effect).__name__}")

    def _reply(self, request: RequestId, result: Any) -> None:
        append = self._appends.pop(request, None)
        if append is not None:
            if append is self._reading:
                self._reading = None
            append.drop()
            append.answer(result)
            return
        future = self._asked.get(request)
        if future is not None and not future.done():
            future.set_result(result)

    async def _transact(self, number: int, transaction: Transaction) -> None:
        end, revision = TransactionEnd.UNKNOWN, Revision(0)
        try:
            outcome = await self._broker.keyspace.transact(transaction.compares, transaction.then)
        except (Unavailable, LeaseExpired) as error:
            log.info("transaction not done", journal=self.journal, reason=str(error))
            end = TransactionEnd.LOST
        except Indeterminate as error:
            log.info("transaction lost from sight", journal=self.journal, reason=str(error))
        else:
            end = TransactionEnd.DONE if outcome.succeeded else TransactionEnd.LOST
            revision = outcome.revision
        self.post(Transacted(number, end, revision))

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
        """The core cannot go on: this replica is at its end, others of the process are not."""
        self.failed = reason
        report = log.info if self._is_closing else log.error
        report("journal stopped", journal=self.journal, reason=reason)
        self._reading = None
        for append in list(self._appends.values()):
            append.drop()
            append.answer(_unknown(append, reason))
        self._appends.clear()
        for future in list(self._asked.values()):
            if not future.done():
                future.set_exception(Unavailable(f"this replica has stopped: {reason}"))
        self.wake_readers()
        if not self._is_closing:
            self._broker.failed(self)

    async def close(self, *, keeps: bool) -> None:
        """Stop: its streams end, whoever waits is told. `keeps`: the Spool is to be found by the next run."""
        self._is_closing = True
        for timer in (self._pause, self._patrol):
            if timer is not None:
                timer.cancel()
        was_well = not self.failed
        if was_well:
            self._machine.stop("the broker no longer serves the journal")
        self._links.close_all()
        await self.fragments.close()
        await self._saver.quiet()
        is_kept = self.replica.spool.is_kept
        if not keeps and not (is_kept and self.files.fragments()):  # what no store has is not thrown away
            self.files.drop()
        elif was_well and keeps and not is_kept:
            # Nothing is acknowledged any more: who can read back all it ever acknowledged comes back as who it was.
            save = self.files.prepare_save(self.replica.spool.state)
            try:
                await asyncio.to_thread(save.run)
            finally:
                save.end()
        self.files.close()


def _unknown(append: Content, reason: str) -> AppendResponse:
    """An append whose replica ended: nothing was proposed if its content was not all there."""
    fate = Fate.UNKNOWN if append.is_ended else Fate.ABORTED
    return AppendResponse(fate=fate, status=Status.PIPELINE_BROKEN, reason=reason)
