"""A client's stream of appends: batches of transactions in, batches of answers out.

A client which does not read its answers loses its stream, never the node its memory: at most `ANSWER_BYTES_MAX` wait.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import Overloaded, PenstockError
from penstock.kernel.ids import MILLISECOND, Offset
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.quorum.records.answers import Answers, Fate
from penstock.quorum.records.api import AppendAnswers, ClientAppend
from penstock.quorum.records.effects import AppendRequest
from penstock.quorum.records.entry import ClientId

if TYPE_CHECKING:
    from penstock.quorum.node.host import ReplicaHost

__all__ = ["AnswerSink", "AppendSession"]

ANSWER_BYTES_MAX = 16 << 20
_BATCH = Codec[list[ClientAppend]](list[ClientAppend])
_encode = msgspec.msgpack.Encoder().encode


class AnswerSink(Protocol):
    """A receiver of the answers to appends: a client's session, or a part of the node itself."""

    def answer(self, answers: Answers, numbers: list[int], offsets: list[Offset], results: list[Any]) -> None: ...

    def fail(self, error: PenstockError) -> None: ...


class AppendSession:
    """One client's appends to one replica: a `Receiver` of the wire."""

    def __init__(self, host: "ReplicaHost", client: ClientId, stream: ServerStream) -> None:
        self._host = host
        self._client = client
        self._stream: ServerStream | None = stream
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0

    def on_messages(self, messages: list[WireMessage]) -> None:
        host, client = self._host, self._client
        for message in messages:
            for each in _BATCH.decode(message.body):
                request = AppendRequest(
                    host.next_request(),
                    client,
                    each.seq,
                    each.ops,
                    each.is_sync,
                    each.level,
                    each.timeout_ms * MILLISECOND,
                    each.rolls_back,
                    each.is_repeat,
                )
                host.append(self, request, each.number)

    def answer(self, answers: Answers, numbers: list[int], offsets: list[Offset], results: list[Any]) -> None:
        leader = self._host.leader_address if answers.fate is Fate.NOT_LEADER else ""
        told = AppendAnswers(
            answers.fate, answers.epoch, tuple(numbers), tuple(offsets), tuple(results), leader, answers.cause
        )
        self._send(_encode(told))

    def fail(self, error: PenstockError) -> None:
        """The replica is gone: the client must use another one, and resolve its open transactions."""
        if self._stream is not None:
            self._stream.fail(error)

    def _send(self, data: bytes) -> None:
        stream = self._stream
        if stream is None:
            return  # the client has gone; its transactions continue without it
        if not self._waiting and stream.can_send(len(data)):
            stream.send_nowait(data)
        elif self._waiting_bytes + len(data) > ANSWER_BYTES_MAX:
            self.fail(Overloaded("the client does not read its answers"))
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
        self._stream = None
        self._waiting.clear()
