"""One Replicate stream, from either side: the messages that wait for it, that are sent on it, and that it brings."""

from collections import deque
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.journals.broker.links.replicate_messages import Watched, decode_messages
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import ContentRequest, MarkRequest, ProposeRequest
from penstock.kernel.effects import Event, Received
from penstock.kernel.errors import MalformedFrame, PenstockError
from penstock.kernel.ids import NodeId
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.stream import Stream

if TYPE_CHECKING:
    from penstock.journals.broker.links.replicate_links import ReplicateLinks

__all__ = ["FULL_BYTES", "LinkOwner", "ReplicateLink"]

FULL_BYTES: Final = 4 << 20  # what may wait for a slow peer before content is fed no more
AT_ONCE_BYTES: Final = 4 << 10  # from here on it pays to let peers begin before this turn of the loop has ended


class LinkOwner(Protocol):
    """What the links of a journal need of the replica they serve."""

    def post(self, event: Event) -> None: ...

    def together(self) -> AbstractContextManager[None]: ...

    def on_proposal(self, peer: NodeId, message: ProposeRequest) -> None: ...

    def on_content(self, peer: NodeId, message: ContentRequest) -> None: ...

    def on_links_drained(self) -> None:
        """A link was full, and is no longer."""
        ...


class ReplicateLink:
    """One stream, from either side: a `Receiver` of the wire."""

    def __init__(self, links: "ReplicateLinks", peer: NodeId, epoch: PipelineEpoch) -> None:
        self.peer = peer
        self.epoch = epoch
        self.stream: Stream | None = None
        self.outbox: list[Any] = []  # since the last flush
        self.mark: MarkRequest | None = None  # the newest mark that the peer does not know yet
        self.is_watched = False  # a reader waits for it there
        self.is_followed = False  # the primary is at the other end
        self.waiting: deque[tuple[bytes, Any]] = deque()  # encoded, and the peer has no room for it
        self.waiting_bytes = 0
        self.is_ending = False
        self._has_ended = False  # nothing can be sent any more
        self._links = links

    def take(self) -> list[Any]:
        """Return the messages to send now. A mark goes along, unless a proposal carries a later one."""
        outbox, self.outbox = self.outbox, []
        mark, self.mark = self.mark, None
        if mark is not None and ProposeRequest not in map(type, outbox):
            outbox.insert(0, mark)
        return outbox

    def queue(self, encoded: list[tuple[bytes, Any]]) -> None:
        if self.is_ending or self._has_ended:
            return  # a mark that waited for the end of the turn: a peer that learns of a later epoch no longer needs it
        stream = self.stream
        if len(encoded) == 1 and stream is not None and not self.waiting:  # as nearly always
            body, bulk = encoded[0]
            if len(bulk) >= AT_ONCE_BYTES:
                if stream.send_at_once(body, bulk):
                    return
            elif stream.try_send(body, bulk):
                return
        size = 0
        for body, bulk in encoded:
            self.waiting.append((body, bulk))
            size += len(body) + len(bulk)
        self.waiting_bytes += size
        self.on_writable()
        if size >= AT_ONCE_BYTES and self.stream is not None:
            self.stream.flush()

    def on_writable(self) -> None:
        stream = self.stream
        if stream is None or self._has_ended:
            return
        was_full = self.waiting_bytes > FULL_BYTES
        while self.waiting and stream.can_send(len(self.waiting[0][0]) + len(self.waiting[0][1])):
            body, bulk = self.waiting.popleft()
            self.waiting_bytes -= len(body) + len(bulk)
            stream.send_nowait(body, bulk)
        if self.is_ending and not self.waiting:
            self._end(stream)
        if was_full and self.waiting_bytes <= FULL_BYTES:
            self._links.on_drained()

    def end(self) -> None:
        """End the stream, after the messages already sent."""
        self.is_ending = True
        self.on_writable()

    def _end(self, stream: Stream) -> None:
        self._has_ended = True
        if isinstance(stream, ClientStream | ServerStream):
            stream.end()

    def on_messages(self, messages: list[WireMessage]) -> None:
        if len(messages) == 1:
            decoded = decode_messages(messages[0].body, messages[0].bulk)
            if len(decoded) == 1:
                self._on_message(decoded[0])
                return
        else:
            decoded = [message for each in messages for message in decode_messages(each.body, each.bulk)]
        with self._links.host.together():
            for message in decoded:
                self._on_message(message)

    def _on_message(self, message: Any) -> None:
        if message.epoch != self.epoch:
            raise MalformedFrame("a message of another epoch than its stream's")
        if type(message) is ProposeRequest:
            self._links.host.on_proposal(self.peer, message)
        elif type(message) is ContentRequest:
            self._links.host.on_content(self.peer, message)
        elif type(message) is Watched:
            self._links.on_watched(self, is_watched=message.is_watched)
        else:
            if type(message) is MarkRequest:
                self._links.on_mark()
            self._links.host.post(Received(self.peer, message))

    def on_end(self) -> None:
        """The peer sends no more, so neither do we."""
        if isinstance(self.stream, ServerStream) and not self._has_ended:
            self._end(self.stream)

    def on_closed(self, error: PenstockError | None) -> None:
        self.stream = None
        self._links.on_closed(self, error)
