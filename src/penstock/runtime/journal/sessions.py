"""A client's stream of appends to one journal: parts of appends in, answers out, many in flight.

Answers of one turn of the loop are one message. A client which does not read its answers loses its stream, never the
broker its memory; one which sends faster than its journal can take gets no more credit until something was taken.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from penstock.base.errors import MalformedFrame, Overloaded, PenstockError
from penstock.journal.api import AppendResponse, Status
from penstock.runtime.journal.appends import Content
from penstock.runtime.journal.protocol import (
    APPEND_ANSWERS,
    APPEND_PARTS,
    AppendAnswer,
    AppendPart,
    AppendTerms,
    PartKind,
)
from penstock.runtime.wire.message import Message
from penstock.runtime.wire.server_stream import ServerStream

if TYPE_CHECKING:
    from penstock.runtime.journal.broker_server import BrokerServer

__all__ = ["AppendSession"]

ANSWER_BYTES_MAX: Final = 16 << 20
HOLD_BYTES: Final = 1 << 20  # content which waits for its turn: above it, the client gets no more credit


class AppendSession:
    """One client's appends to one journal: a `Receiver` of the wire."""

    def __init__(self, server: "BrokerServer", journal: str, stream: ServerStream) -> None:
        self.journal = journal
        self._server = server
        self._stream: ServerStream | None = stream
        self._loop = asyncio.get_running_loop()
        self._open: dict[int, Content] = {}  # by the client's number: not answered yet
        self._answers: list[AppendAnswer] = []
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._content_bytes = 0  # received, and not yet taken
        self._is_holding = False

    def on_messages(self, messages: list[Message]) -> None:
        for message in messages:
            at, bulk = 0, memoryview(message.bulk)
            for part in APPEND_PARTS.decode(message.body):
                end = at + part.length
                if part.length < 0 or end > len(bulk):
                    raise MalformedFrame("a part which claims content that did not come with it")
                self._on_part(part, bulk[at:end])
                at = end
            if at != len(bulk):
                raise MalformedFrame("content which no part claims")
        if self._content_bytes > HOLD_BYTES and not self._is_holding and self._stream is not None:
            self._is_holding = True
            self._stream.hold_credit()

    def _on_part(self, part: AppendPart, content: memoryview) -> None:
        append = self._open.get(part.number)
        if append is None:
            if part.terms is None:
                return  # it was answered before its client had sent all of it
            append = self._begin(part.number, part.terms)
            if append is None:
                return
        if part.kind is PartKind.ABORT:
            append.host.abort(append, "the client rolled back")
        else:
            self._content_bytes += len(content)
            append.host.offer(append, content, is_end=part.kind is PartKind.COMMIT)

    def _begin(self, number: int, terms: AppendTerms) -> Content | None:
        """Let the core know; None if it was answered at once."""
        host = self._server.host(self.journal)
        if host is None:
            self._answers_soon()
            self._answers.append(AppendAnswer(number, *self._server.unserved(self.journal)))
            return None
        return host.begin(self, number, terms)

    def opened(self, append: Content) -> None:
        self._open[append.number] = append

    def on_taken(self, length: int) -> None:
        """Content has gone to the core: there is room for more."""
        self._content_bytes -= length
        if self._is_holding and self._content_bytes <= HOLD_BYTES and self._stream is not None:
            self._is_holding = False
            self._stream.release_credit()

    # answers

    def answer(self, append: Content, response: AppendResponse) -> None:
        self._open.pop(append.number, None)
        is_elsewhere = response.status is Status.NOT_JOURNAL_PRIMARY_BROKER
        address = self._server.primary_address(self.journal) if is_elsewhere else ""
        self._answers_soon()
        self._answers.append(AppendAnswer(append.number, response, address))

    def _answers_soon(self) -> None:
        if not self._answers:
            self._loop.call_soon(self._send_answers)

    def _send_answers(self) -> None:
        answers, self._answers = self._answers, []
        stream = self._stream
        if stream is None or not answers:
            return  # the client has gone; its appends have ended without it
        data = APPEND_ANSWERS.encode(answers)
        if not self._waiting and stream.can_send(len(data)):
            stream.send_nowait(data)
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

    def on_end(self) -> None:
        pass  # it sends no more, and still waits for answers

    def on_closed(self, error: PenstockError | None) -> None:
        """What was not sent whole is aborted; what was goes on without its client."""
        self._stream = None
        self._waiting.clear()
        for append in list(self._open.values()):
            append.session = None
            if not append.is_ended:
                append.host.abort(append, "the client went away")
        self._open.clear()

    def fail(self, error: PenstockError) -> None:
        """The replica is gone: its client must go elsewhere."""
        if self._stream is not None:
            self._stream.fail(error)
