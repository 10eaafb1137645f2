"""A client's stream of appends to one journal: parts of appends in, answers out, many in flight.

Answers which a journal gives at once are one message. A client that does not read its answers loses its stream, and
never costs the broker its memory; one that sends faster than its journal can take gets no more credit until something
was taken. A client which knows more of the KeySpace than this broker is answered when the broker knows it too: else a
journal it has just made would not be found.
"""

import asyncio
from collections import deque
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.journals.broker.appends import Content, Place
from penstock.journals.broker.groups import last_of_group, wish_of
from penstock.journals.records.api import AppendResponse, Status
from penstock.journals.records.protocol import (
    APPEND_ANSWERS,
    APPEND_PARTS,
    AppendAnswer,
    AppendPart,
    PartKind,
)
from penstock.journals.records.registers import NO_REGISTERS, floor_of, registers_bytes, with_floor, without_others
from penstock.kernel.errors import MalformedFrame, Overloaded, PenstockError, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import NO_REVISION
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.server_stream import ServerStream

if TYPE_CHECKING:
    from penstock.journals.broker.broker_server import BrokerServer

__all__ = ["AppendSession"]

ANSWER_BYTES_MAX: Final = 16 << 20
MESSAGE_BYTES: Final = 1 << 20  # of answers: more than that are several messages
QUOTED_BYTES: Final = 4 << 10  # above this an answer has registers only if its append names some
HOLD_BYTES: Final = 1 << 20  # content which waits for its turn: above it, the client gets no more credit
# Under their own names, because to find one in its Enum costs as much as a call.
COMMIT, ABORT = PartKind.COMMIT, PartKind.ABORT
NOT_PRIMARY = Status.NOT_JOURNAL_PRIMARY_BROKER


class AppendSession:
    """One client's appends to one journal: a `Receiver` of the wire."""

    def __init__(
        self, server: "BrokerServer", journal: str, stream: ServerStream, min_revision: Revision = NO_REVISION
    ) -> None:
        self.journal = journal
        self._min_revision = min_revision
        self._server = server
        self._stream: ServerStream | None = stream
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, Content] = {}  # by the client's number: not answered yet
        self._answers: list[AppendAnswer] = []
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._content_bytes = 0  # received, and not yet taken
        self._is_holding = False
        self._is_ended = False
        self._early: list[WireMessage] | None = None  # messages that came before this broker had the client's revision
        if not server.mirror.has_revision(min_revision):
            self._early = []
            self._hold()
            server.tasks.start(self._catch_up(), f"{journal}: appends wait for revision {min_revision}")

    async def _catch_up(self) -> None:
        with suppress(Unavailable):  # the messages are then refused, and may go elsewhere
            await self._server.caught_up(self._min_revision)
        early, self._early = self._early or [], None
        if self._stream is None:
            return
        try:
            self.on_messages(early)
        except PenstockError as error:
            self.fail(error)
            return
        self.on_taken(0)
        self._maybe_end()

    def on_messages(self, messages: list[WireMessage]) -> None:
        if self._early is not None:
            self._early += messages
            return
        self._server.work += 1
        if len(messages) == 1:
            self._on_message(messages[0])
        else:
            with self._together():
                for message in messages:
                    self._on_message(message)
        if self._content_bytes > HOLD_BYTES and not self._is_holding:
            self._hold()
        if self._server.held.is_too_much(self._content_bytes) and self._stream is not None:
            self._end_if_not_its_turn()

    def _end_if_not_its_turn(self) -> None:
        host, held = self._server.host(self.journal), self._server.held
        if self._stream is None or (host is not None and host.feed.is_reading(self)):
            return
        held.ended += 1
        self._stream.fail(
            Overloaded(
                f"appends of {held.bytes} bytes wait for their turn at this broker, and {held.bytes_max} may",
                next_step=f"penstock journals explain {self.journal}",
            )
        )

    def _together(self) -> AbstractContextManager[None]:
        host = self._server.host(self.journal)
        return host.together() if host is not None else nullcontext()

    def _hold(self) -> None:
        """Give this client no more credit until some of its content is taken."""
        if self._stream is not None:
            self._is_holding = True
            self._stream.hold_credit()

    def _on_message(self, message: WireMessage) -> None:
        parts, bulk = APPEND_PARTS.decode(message.body), memoryview(message.bulk)
        if len(parts) == 1 and parts[0].length == len(bulk):
            self._on_part(parts[0], bulk)
            return
        if min((part.length for part in parts), default=0) < 0 or sum(part.length for part in parts) != len(bulk):
            raise MalformedFrame("parts which claim other content than came with them")
        index = at = 0
        with self._together():
            while index < len(parts):
                last = last_of_group(parts, index)
                end = at + sum(part.length for part in parts[index:last])
                if last > index + 1:
                    self._on_group(parts[index:last], bulk[at:end])
                else:
                    self._on_part(parts[index], bulk[at:end])
                index, at = last, end

    def _on_group(self, parts: list[AppendPart], content: memoryview) -> None:
        """Appends which came together go through the core together: they have one fate, and each its own answer."""
        wish = wish_of(parts)
        members: list[Place] = []
        at = 0
        for part in parts:
            members.append((part.number, at, part.length))
            at += part.length
        host = self._server.host(self.journal)
        if host is None:
            for part in parts:
                self._refuse(part.number)
            return
        self._holds(len(content))
        host.feed.begin(self, parts[0].number, wish, content, members, is_end=True)

    def _on_part(self, part: AppendPart, content: memoryview) -> None:
        append = self._open.get(part.number)
        if append is None:
            self._begin(part, content)
        elif append.is_ended:
            return  # it said commit: there is no way back
        elif part.kind is ABORT:
            append.feed.abort(append, "the client rolled back")
        else:
            self._holds(len(content))
            append.feed.offer(append, content, is_end=part.kind is COMMIT)

    def _begin(self, part: AppendPart, content: memoryview) -> None:
        """The first part of an append. Without a wish it is a late one of an append which was answered before."""
        if part.wish is None:
            return
        host = self._server.host(self.journal)
        if host is None:
            self._refuse(part.number)
            return
        self._holds(len(content))
        host.feed.begin(self, part.number, part.wish, content, is_end=part.kind is COMMIT)
        if part.kind is ABORT and (append := self._open.get(part.number)) is not None:
            append.feed.abort(append, "the client rolled back")

    def _refuse(self, number: int) -> None:
        if not self._answers:
            self._loop.call_soon(self.send_answers)
        self._answers.append(AppendAnswer(number, *self._server.unserved(self.journal, self._min_revision)))

    def opened(self, append: Content) -> None:
        if not append.members:
            self._open[append.number] = append
            return
        for number in append.numbers:
            self._open[number] = append

    def _holds(self, length: int) -> None:
        self._content_bytes += length
        self._server.held.bytes += length

    def on_taken(self, length: int) -> None:
        """Content has gone to the core: there is room for more."""
        self._content_bytes -= length
        self._server.held.bytes -= length
        if self._is_holding and self._content_bytes <= HOLD_BYTES and self._stream is not None:
            self._is_holding = False
            self._stream.release_credit()

    # answers

    def answer(self, append: Content, response: AppendResponse) -> None:
        """The answer to an append, or to all of a group: it leaves with `send_answers`."""
        response = _quoted(append, response)
        is_elsewhere = response.status is NOT_PRIMARY
        address = self._server.primary_address(self.journal) if is_elsewhere else ""
        for number, part in append.answers(response):
            self._open.pop(number, None)
            self._answers.append(AppendAnswer(number, part, address))

    def send_answers(self) -> None:
        """Send all gathered answers, as one message."""
        answers, self._answers = self._answers, []
        stream = self._stream
        if stream is None or not answers:
            return  # the client has gone; its appends have ended without it
        data = APPEND_ANSWERS.encode(answers)
        if len(data) > MESSAGE_BYTES and len(answers) > 1:
            for half in (answers[: len(answers) // 2], answers[len(answers) // 2 :]):
                self._answers = half
                self.send_answers()
            return
        # A client which waits for nothing else is answered now: nothing else will follow soon.
        if not self._waiting and not self._open and stream.send_at_once(data):
            if self._is_ended:
                self._maybe_end()
        elif not self._waiting and stream.can_send(len(data)):
            stream.send_nowait(data)
            if self._is_ended:
                self._maybe_end()
        elif self._waiting_bytes + len(data) > ANSWER_BYTES_MAX:
            stream.fail(Overloaded("the client does not read its answers"))
        else:
            self._waiting.append(data)
            self._waiting_bytes += len(data)

    def on_writable(self) -> None:
        stream = self._stream
        while self._waiting and stream is not None and stream.can_send(len(self._waiting[0])):
            data = self._waiting.popleft()
            self._waiting_bytes -= len(data)
            stream.send_nowait(data)
        self._maybe_end()

    def on_end(self) -> None:
        """It sends no more; when it has all its answers, the stream is over."""
        self._is_ended = True
        self._maybe_end()

    def _maybe_end(self) -> None:
        is_busy = self._open or self._answers or self._waiting or self._early is not None
        if self._is_ended and self._stream is not None and not is_busy:
            self._stream.end()

    def on_closed(self, error: PenstockError | None) -> None:
        """Abort the incomplete appends; the complete ones continue without their client."""
        self._stream = None
        self._waiting.clear()
        self._server.held.bytes -= self._content_bytes  # appends without a client are counted nowhere
        self._content_bytes = 0
        for append in list(self._open.values()):
            append.session = None
            if not append.is_ended:
                append.feed.abort(append, "the client went away")
        self._open.clear()

    def fail(self, error: PenstockError) -> None:
        """The replica is gone: its client must go elsewhere."""
        if self._stream is not None:
            self._stream.fail(error)


def _quoted(append: Content, response: AppendResponse) -> AppendResponse:
    """Leave out registers that do not concern the client: there may be hundreds of other writers."""
    registers = response.registers
    if registers is None or not registers.labels.labels:
        return response
    if response.status is Status.WRITER_EXPIRED:
        return msgspec.structs.replace(response, registers=with_floor(NO_REGISTERS, floor_of(registers)))
    quoted = without_others(registers, append.register)
    is_plain = not append.asks_registers and response.commit is not None and response.commit.length > 0
    if is_plain and registers_bytes(quoted) > QUOTED_BYTES:
        quoted = NO_REGISTERS
    return response if quoted is registers else msgspec.structs.replace(response, registers=quoted)
