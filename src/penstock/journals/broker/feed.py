"""The feed of one journal: appends which are open here, and the content of the one whose turn it is, for the core.

The core asks for content (`ReadContent`) and gets it when every event before was handled (`next_content`), peers have
room for it, and the journal's maximum rate allows it. A client that is too slow when it is its turn loses its append.

Invariants: every append that was begun gets one answer; content is summed in the order in which the core gets it, into
the Fragment's sum before peers learn of it, and into the append's own afterwards.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from penstock.journals.broker.appends import Content, FlowBucket, FlowPolice, Place
from penstock.journals.broker.links.replicate_links import ReplicateLinks
from penstock.journals.broker.replica_loop import ReplicaLoop
from penstock.journals.broker.sessions import AppendSession
from penstock.journals.broker.spools.spool_files import SpoolFiles
from penstock.journals.core.effects import AppendAborted, ContentEnded, ContentReceived
from penstock.journals.records.api import AppendRequest, AppendResponse, Fate, Status
from penstock.journals.records.fragment import EMPTY_SUM, Sum
from penstock.journals.records.point import Point
from penstock.journals.records.protocol import AppendWish
from penstock.kernel.effects import Event, Requested
from penstock.kernel.ids import MILLISECOND, Instant, Offset, RequestId
from penstock.plumbing.ports.ports import Clocks

if TYPE_CHECKING:
    from penstock.journals.broker.replica_host import ReplicaHost

__all__ = ["Feed"]

POLICE_S: Final = 1.0  # how often the client whose turn it is is looked at
TIMEOUT_MS_MAX: Final = 3_600_000


class Feed:
    """Appends of one journal at one broker, on their way into the core."""

    def __init__(
        self,
        host: "ReplicaHost",
        machine: ReplicaLoop,
        files: SpoolFiles,
        links: ReplicateLinks,
        note: Callable[[str, int], None],
        clock: Clocks,
    ) -> None:
        self._host = host
        self._machine = machine
        self._files = files
        self._links = links
        self._clock = clock
        self._note = note  # how much was fed, for the journal's load
        self._loop = asyncio.get_running_loop()
        self._appends: dict[RequestId, Content] = {}
        self.answered: list[tuple[Content, AppendResponse]] = []  # not sent yet
        self._reading: Content | None = None  # the append whose turn it is
        self.unsummed: list[Content] = []  # of which something was taken since the last `sum_up`,
        self._fed_bytes = 0  # and how much
        self._ahead: Any = None  # content which is in the file, and the core has not said so yet
        self._before = Point(Offset(0), Offset(0))  # where the file ended before that
        self._police = FlowPolice(Instant(0))
        self._bucket = FlowBucket(0)
        self._pause: asyncio.TimerHandle | None = None  # until the journal's maximum rate allows more
        self._patrol: asyncio.TimerHandle | None = None

    def set_rate(self, bytes_per_s: int) -> None:
        """The journal's maximum rate; 0 is none."""
        if bytes_per_s != self._bucket.bytes_per_s:
            self._bucket = FlowBucket(bytes_per_s)

    # what clients send

    def begin(
        self,
        session: AppendSession,
        number: int,
        wish: AppendWish,
        content: Any,
        members: Sequence[Place] = (),
        *,
        is_end: bool,
    ) -> None:
        """A client wants to append this, or several which are fed as one; unless it is the end, more comes by `offer`.

        Content that came with the wish is ready when the core asks for it, so a whole append is done in one step.
        """
        register = wish.txn.register if wish.txn is not None else ""
        append = Content(self, self._host.next_request(), session, number, members, register=register)
        append.asks_registers = not (wish.check.is_empty and wish.change.is_empty)
        append.add(content)
        append.is_ended = is_end
        timeout_ms = min(max(1, wish.timeout_ms), TIMEOUT_MS_MAX)
        request = AppendRequest(
            deadline=Instant(self._machine.clock() + timeout_ms * MILLISECOND),
            offset=wish.offset,
            check=wish.check,
            change=wish.change,
            txn=wish.txn,
            min_revision=wish.min_revision,
            may_proxy=False,
            unix_ms=self._clock.time_ns() // 1_000_000,
        )
        self._appends[append.request] = append
        session.opened(append)
        self._machine.post(Requested(append.request, request))

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
        self._machine.post(AppendAborted(append.request, reason))

    def is_reading(self, session: AppendSession) -> bool:
        """Return whether it is the turn of one of this client's appends."""
        return self._reading is not None and self._reading.session is session

    # what the core asks for

    def read(self, request: RequestId) -> None:
        """It is this append's turn."""
        append = self._appends.get(request)
        if append is None:
            return
        self._reading = append
        if not append.is_ended:
            self._police = FlowPolice(self._machine.now)
            if self._patrol is None:
                self._patrol = self._loop.call_later(POLICE_S, self._look)

    def next_content(self) -> Event | None:
        """Return the content that the core has asked for: if it is here, peers can take it, and the rate allows it."""
        if self._ahead is not None:
            self._take_back()
        append = self._reading
        if append is None or not (append.chunks or append.is_ended):
            return None
        if self._links.is_full or not self._has_allowance():
            self._police.forgive(self._machine.now)
            return None
        if append.chunks and (shortage := self._host.room.take(len(append.chunks[0]))) is not None:
            return AppendAborted(append.request, shortage.reason, shortage)
        content = append.take()
        self.unsummed.append(append)
        length = len(content)
        if self._bucket.bytes_per_s:
            self._bucket.take(length)
        self._fed_bytes += length
        if append.chunks or not append.is_ended:
            self._police.took(length)
            return ContentReceived(append.request, content)
        self._reading = None
        own_sum = append.sum if append.register else EMPTY_SUM  # else the answer gets it
        return ContentEnded(append.request, self.sum_with(content), own_sum, content)

    def sum_with(self, content: Any) -> Sum:
        """A commit names the sum of content which is written by an effect that follows from it: so add it before."""
        files = self._files
        if not content:
            return files.sum
        spool = self._host.replica.spool
        head = spool.points[-1]
        self._ahead = content
        self._before = Point(head.begin, files.end, files.sum) if spool.pending else head
        return files.add_summed(content)

    def sum_up(self) -> None:
        """Sum appends alone, and count the fed bytes, after the messages were sent."""
        unsummed, self.unsummed = self.unsummed, []
        fed_bytes, self._fed_bytes = self._fed_bytes, 0
        self._note(self._host.journal, fed_bytes)
        for append in unsummed:
            append.sum_up()

    def write(self, content: Any) -> None:
        """WriteContent."""
        if content is self._ahead:
            self._ahead = None
        else:
            self._files.add(content)

    def forget_ahead(self) -> None:
        """Forget the content added ahead, because everything is cut or dropped now."""
        self._ahead = None

    def _take_back(self) -> None:
        """Take back the content that was added ahead and that the core did not want."""
        self._ahead = None
        self._files.cut(self._before)

    def _has_allowance(self) -> bool:
        if self._pause is not None:
            return False
        wait_ns = self._host.room.wait_ns()
        if self._bucket.bytes_per_s:
            wait_ns = max(wait_ns, self._bucket.wait_ns(self._machine.now))
        if wait_ns:
            self._pause = self._loop.call_later(wait_ns / 1e9, self._resume)
        return not wait_ns

    def _resume(self) -> None:
        self._pause = None
        self._machine.go_on()

    def _look(self) -> None:
        """Is the client whose turn it is fast enough?"""
        self._patrol = None
        append = self._reading
        if append is None or self._host.failed:
            return
        if append.chunks or append.is_ended:  # the wait is ours
            self._police.forgive(self._machine.now)
        elif self._police.is_too_slow(self._machine.now):
            self.abort(append, "the client sends its content too slowly, and other appends wait for it")
            return
        self._patrol = self._loop.call_later(POLICE_S, self._look)

    # how they end

    def answer(self, request: RequestId, response: AppendResponse) -> bool:
        """The core's answer; False if no append asked for it."""
        append = self._appends.pop(request, None)
        if append is None:
            return False
        if append is self._reading:
            self._reading = None
        if append.chunks:
            append.drop()
        self.answered.append((append, response))
        return True

    def send_answers(self) -> None:
        """Send all answers since the last time. Call it only after the content of this turn is written."""
        answered, self.answered = self.answered, []
        sessions: dict[AppendSession, None] = {}
        for append, response in answered:
            if append.session is not None:
                append.session.answer(append, response)
                sessions[append.session] = None
        for session in sessions:
            session.send_answers()

    def stop(self, reason: str) -> None:
        """The replica is at its end: nothing was proposed of an append whose content was not all there.

        An answer that has not left says nothing about this disk any more: its content may not have been written.
        """
        self._reading = None
        self.answered = [(append, _unacknowledged(response, reason)) for append, response in self.answered]
        for append in list(self._appends.values()):
            append.drop()
            fate = Fate.UNKNOWN if append.is_ended else Fate.ABORTED
            self.answered.append((append, AppendResponse(fate=fate, status=Status.PIPELINE_BROKEN, reason=reason)))
        self._appends.clear()
        self.send_answers()

    def close(self) -> None:
        for timer in (self._pause, self._patrol):
            if timer is not None:
                timer.cancel()


def _unacknowledged(response: AppendResponse, reason: str) -> AppendResponse:
    """Return the answer to an append that this broker may not have written."""
    if response.fate is not Fate.COMMITTED:
        return response
    return AppendResponse(
        fate=Fate.UNKNOWN,
        status=Status.PIPELINE_BROKEN,
        commit=response.commit,
        epoch=response.epoch,
        reason=reason,
    )
