"""Replicate streams: one per (journal, peer, epoch), opened by the primary of that epoch.

Messages between two flushes become one wire message: records in the body, all content beside them as one bulk. All
peers of a pipeline are told the same, so that it is encoded once. What a peer cannot take yet waits here: `is_full`
asks whoever feeds content to wait as well, so that a slow peer bounds memory and slows the client down. A mark waits a
little for a proposal to carry it: alone it would wake every peer once more for each append, just when the client and
the primary want the processor. Nobody but a reader at a replica waits for marks: a replica where one does says so
(`Watched`), and is told marks at once, behind the answer to the client.

What always holds: messages of one stream are in order; a stream which cannot be opened, ends or breaks is told to the
core once, as `StreamClosed`; nothing is sent on it afterwards.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from operator import is_
from typing import Any, Final, Protocol

import msgspec

from penstock.base.codec import Codec
from penstock.base.effects import Event, Received
from penstock.base.errors import MalformedFrame, PenstockError, Unavailable
from penstock.base.ids import NodeId
from penstock.journal.effects import StreamClosed
from penstock.journal.epoch import PipelineEpoch
from penstock.journal.messages import (
    AdoptRequest,
    AdoptResponse,
    ContentRequest,
    MarkRequest,
    PromiseRequest,
    PromiseResponse,
    ProposeRequest,
    ProposeResponse,
    RefuseResponse,
)
from penstock.journal.spool import length_of
from penstock.runtime.journal.protocol import REPLICATE, ReplicateHello
from penstock.runtime.logs import get_logger
from penstock.runtime.tasks import Tasks
from penstock.runtime.wire.client import Channel
from penstock.runtime.wire.client_stream import ClientStream
from penstock.runtime.wire.message import Message
from penstock.runtime.wire.server_stream import ServerStream
from penstock.runtime.wire.stream import Stream

__all__ = ["ReplicateLink", "ReplicateLinks", "Watched", "decode_messages", "encode_messages"]


class Watched(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Of a peer's shell to its primary's: whether somebody waits here for marks. No core hears of it."""

    epoch: PipelineEpoch
    is_watched: bool


Any_ = (
    PromiseRequest
    | PromiseResponse
    | AdoptRequest
    | AdoptResponse
    | ContentRequest
    | ProposeRequest
    | ProposeResponse
    | MarkRequest
    | RefuseResponse
    | Watched
)
BATCH_BYTES: Final = 1 << 20  # content of one wire message, unless a single chunk is larger
ALONE_BYTES: Final = 128 << 10  # from here on a copy costs more than a message of its own
FULL_BYTES: Final = 4 << 20  # what may wait for a slow peer before content is fed no more
AT_ONCE_BYTES: Final = 4 << 10  # from here on it pays to let peers begin before this turn of the loop has ended
MARK_WAIT_S: Final = 0.002  # for company: longer than a client needs from an answer to its next append
MARKS_UNHEARD_MAX: Final = 8  # so many marks for which nobody has waited end the watch
_WITH_CONTENT: Final = (ContentRequest, ProposeRequest)
_ANSWERS: Final = (ProposeResponse, AdoptResponse, PromiseResponse)
_CODEC = Codec[list[Any_]](list[Any_])
_HELLO = msgspec.msgpack.Encoder()
log = get_logger()


def encode_messages(messages: list[Any]) -> list[tuple[bytes, Any]]:
    """Wire messages (body, bulk): in each, the bulk is all content of its records, in order."""
    if len(messages) == 1:
        content = messages[0].content if type(messages[0]) in _WITH_CONTENT else b""
        if content:
            messages = [_with_content(messages[0], length_of(content))]
        return [(_CODEC.encode(messages), content)]
    encoded: list[tuple[bytes, Any]] = []
    records: list[Any] = []
    contents: list[Any] = []
    size = 0

    def close() -> None:
        bulk = contents[0] if len(contents) == 1 else b"".join(contents)
        encoded.append((_CODEC.encode(records), bulk))

    for message in messages:
        if type(message) in _WITH_CONTENT and (length := length_of(message.content)):
            if contents and (size + length > BATCH_BYTES or max(size, length) >= ALONE_BYTES):
                close()
                records, contents, size = [], [], 0
            contents.append(message.content)
            size += length
            message = _with_content(message, length)
        records.append(message)
    close()
    return encoded


def decode_messages(body: bytes, bulk: Any) -> list[Any]:
    """The core's messages, content in place: views into the bulk."""
    messages = _CODEC.decode(body)
    at, size = 0, len(bulk)
    if len(messages) == 1:  # as nearly always: an acknowledgement, or a proposal with all of its content
        message = messages[0]
        if not size and type(message) is ProposeResponse:
            return messages
        if size and type(message) is ProposeRequest and type(message.content) is int and message.content == size:
            return [_with_content(message, memoryview(bulk))]
    for index, message in enumerate(messages):
        if isinstance(message, _WITH_CONTENT) and (length := message.content) != b"":
            if type(length) is not int or not 0 < length <= size - at:
                raise MalformedFrame("a record which claims content that did not come with it")
            messages[index] = _with_content(message, memoryview(bulk)[at : at + length])
            at += length
    if at != size:
        raise MalformedFrame("content which no record claims")
    return messages


def _with_content(message: ContentRequest | ProposeRequest, content: Any) -> ContentRequest | ProposeRequest:
    """The same with other content, or with its length in place of it: as it is on the wire."""
    life, epoch = message.create_revision, message.epoch
    if type(message) is ProposeRequest:
        return ProposeRequest(life, epoch, message.seq, message.point, message.mark, message.acknowledge, content)
    assert type(message) is ContentRequest
    return ContentRequest(life, epoch, message.delta, content)


class Host(Protocol):
    """What the links of a journal need of the replica they serve."""

    def post(self, event: Event) -> None: ...

    def together(self) -> AbstractContextManager[None]: ...

    def on_proposal(self, peer: NodeId, message: ProposeRequest) -> None: ...

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
        self.mark: MarkRequest | None = None  # the newest one which the peer was not told
        self.is_watched = False  # somebody waits for it there
        self.is_followed = False  # the primary is at the other end
        self.waiting: deque[tuple[bytes, Any]] = deque()  # encoded, and the peer has no room for it
        self.waiting_bytes = 0
        self.is_ending = False
        self._has_ended = False  # nothing can be sent any more
        self._links = links

    def take(self) -> list[Any]:
        """What is to be sent now. A mark goes along, unless a proposal tells a later one."""
        outbox, self.outbox = self.outbox, []
        mark, self.mark = self.mark, None
        if mark is not None and ProposeRequest not in map(type, outbox):
            outbox.insert(0, mark)
        return outbox

    def queue(self, encoded: list[tuple[bytes, Any]]) -> None:
        if self.is_ending or self._has_ended:
            return  # a mark which waited for the end of the turn: whoever hears of a later epoch needs it no more
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
        """End the stream, behind what was sent."""
        self.is_ending = True
        self.on_writable()

    def _end(self, stream: Stream) -> None:
        self._has_ended = True
        if isinstance(stream, ClientStream | ServerStream):
            stream.end()

    def on_messages(self, messages: list[Message]) -> None:
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


class ReplicateLinks:
    """The streams of one journal at one broker."""

    def __init__(
        self, journal: str, me: NodeId, host: Host, channel_of: Callable[[NodeId], Channel | None], tasks: Tasks
    ) -> None:
        self.journal = journal
        self.host = host
        self._me = me
        self._channel_of = channel_of
        self._tasks = tasks
        self._links: dict[tuple[NodeId, PipelineEpoch], ReplicateLink] = {}
        self.to_flush: dict[ReplicateLink, None] = {}  # which have something to send with the next `flush`
        self._to_mark: dict[ReplicateLink, None] = {}
        self._loop = asyncio.get_running_loop()
        self._marks_timer: asyncio.TimerHandle | None = None
        self._marks_due_at = 0.0  # by the loop's clock
        self._is_watched = False  # somebody waits here, and primaries were told;
        self._marks_unheard = 0  # how many marks have come since somebody last did
        self.has_answers = False  # something is to be sent which says that content is here

    @property
    def is_full(self) -> bool:
        """Whether a peer is so far behind that content should wait."""
        for link in self._links.values():  # noqa: SIM110 - every append asks, and a generator costs more than the loop
            if link.waiting_bytes > FULL_BYTES:
                return True
        return False

    def send(self, peer: NodeId, message: Any) -> None:
        """Behind what was sent before, with the next `flush`; a mark a little later. Without a stream: nowhere."""
        link = self._links.get((peer, message.epoch))
        if link is None:
            if not isinstance(message, PromiseRequest):
                return
            link = self._open(peer, message.epoch)
        kind, outbox = type(message), link.outbox
        if kind is MarkRequest:
            link.mark = message
            if not self._to_mark:
                self._wait_with_marks()
            self._to_mark[link] = None
            if link.is_watched:
                self._loop.call_soon(self._flush_mark, link)
            return
        if kind in _ANSWERS:
            self.has_answers = True
        if outbox and kind is ProposeResponse and type(outbox[-1]) is ProposeResponse:
            outbox[-1] = message  # acknowledgements are cumulative
        else:
            outbox.append(message)
        self.to_flush[link] = None

    def flush(self) -> None:
        """Send what has gathered."""
        to_flush, self.to_flush = self.to_flush, {}
        self.has_answers = False
        before: list[Any] = []
        encoded: list[tuple[bytes, Any]] = []
        for link in to_flush:
            if self._to_mark:
                self._to_mark.pop(link, None)
            outbox = link.take()
            if not outbox:
                continue
            if len(outbox) != len(before) or not all(map(is_, outbox, before)):
                encoded = encode_messages(outbox)
            before = outbox
            link.queue(encoded)

    def _wait_with_marks(self) -> None:
        """Send marks after a while, unless proposals carry them. While appends follow each other the timer goes on."""
        self._marks_due_at = self._loop.time() + MARK_WAIT_S
        if self._marks_timer is None:
            self._marks_timer = self._loop.call_later(MARK_WAIT_S, self._on_marks_timer)

    def _on_marks_timer(self) -> None:
        self._marks_timer = None
        if not self._to_mark:
            return
        if self._loop.time() < self._marks_due_at:
            self._marks_timer = self._loop.call_later(MARK_WAIT_S, self._on_marks_timer)  # a little later is no harm
        else:
            self.flush_marks()

    def _flush_mark(self, link: ReplicateLink) -> None:
        if link in self._to_mark:
            self.to_flush[link] = None
            self.flush()

    def watch(self) -> None:
        """Somebody begins to wait here for marks: whoever is the primary should tell them at once."""
        self._marks_unheard = 0
        if not self._is_watched:
            self._is_watched = True
            self._tell_watched(self._links.values())

    def on_mark(self) -> None:
        """A mark has come alone. If nobody has waited for it, nor for those before, there need be no more like it."""
        self._marks_unheard += 1
        if self._is_watched and self._marks_unheard > MARKS_UNHEARD_MAX:
            self._is_watched = False
            self._tell_watched(self._links.values())

    def on_watched(self, link: ReplicateLink, *, is_watched: bool) -> None:
        """What the peer says of itself. Who has just begun to wait gets the mark which it waits for."""
        link.is_watched = is_watched
        if is_watched:
            self._flush_mark(link)

    def _tell_watched(self, links: Iterable[ReplicateLink]) -> None:
        for link in links:
            if link.is_followed:
                link.queue(encode_messages([Watched(link.epoch, self._is_watched)]))

    def flush_marks(self) -> None:
        """Send the marks which nothing has carried."""
        self.to_flush.update(self._to_mark)
        self.flush()

    def abandon(self) -> None:
        """Send nothing of what has gathered: it may speak of content which could not be written."""
        for link in (*self.to_flush, *self._to_mark):
            link.outbox, link.mark = [], None
        self.to_flush.clear()
        self._to_mark.clear()
        self.has_answers = False

    def close(self, peer: NodeId, epoch: PipelineEpoch) -> None:
        """End that stream, behind what was sent."""
        link = self._links.pop((peer, epoch), None)
        if link is not None:
            if link in self._to_mark:
                self.to_flush[link] = None
            if link in self.to_flush:
                self.flush()
            link.end()

    def close_all(self) -> None:
        for peer, epoch in list(self._links):
            self.close(peer, epoch)

    def accept(self, hello: ReplicateHello, stream: ServerStream) -> ReplicateLink:
        """The primary of an epoch has opened a stream to us."""
        link = ReplicateLink(self, hello.sender, hello.epoch)
        link.stream, link.is_followed = stream, True
        if (hello.sender, hello.epoch) in self._links:
            raise MalformedFrame("a second stream of the same epoch")
        self._links[hello.sender, hello.epoch] = link
        if self._is_watched:
            self._tell_watched([link])
        return link

    def on_drained(self) -> None:
        if not self.is_full:
            self.host.on_links_drained()

    def on_closed(self, link: ReplicateLink, error: PenstockError | None) -> None:
        if self._links.get((link.peer, link.epoch)) is link:
            del self._links[link.peer, link.epoch]
        if error is not None and not link.is_ending:
            log.info("replicate stream lost", journal=self.journal, peer=link.peer, reason=str(error))
        link.waiting.clear()
        link.waiting_bytes = 0
        self.to_flush.pop(link, None)
        self._to_mark.pop(link, None)
        self.host.post(StreamClosed(link.peer, link.epoch))
        self.host.on_links_drained()

    def _open(self, peer: NodeId, epoch: PipelineEpoch) -> ReplicateLink:
        link = self._links[peer, epoch] = ReplicateLink(self, peer, epoch)
        self._tasks.start(self._connect(link), f"{self.journal}: stream to {peer}")
        return link

    async def _connect(self, link: ReplicateLink) -> None:
        hello = _HELLO.encode(ReplicateHello(self.journal, self._me, link.epoch))
        try:
            channel = self._channel_of(link.peer)
            if channel is None:
                raise Unavailable(f"nobody knows where {link.peer} is")
            link.stream = await channel.open(REPLICATE, hello, receiver=link)
        except PenstockError as error:
            self.on_closed(link, error)
        else:
            link.on_writable()
