"""Replicate streams: one per (journal, peer, epoch), opened by the primary of that epoch.

Messages between two flushes become one wire message (`replicate_messages.py`). All peers of a pipeline get the same
messages, so that each is encoded once. Messages that a peer cannot take yet wait here: `is_full` asks the feeder of
content to wait as well, so that a slow peer bounds memory and slows the client down. A mark waits a little for a
proposal to carry it: alone it would wake every peer a second time for each append, just when the client and the primary
want the processor. Only a reader at a replica waits for marks: a replica with such a reader says so (`Watched`), and
gets marks at once, after the answer to the client.

Invariants: messages of one stream are in order; if a stream cannot be opened, ends or breaks, the core gets one
`StreamClosed`; nothing is sent on it afterwards.
"""

import asyncio
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, Final

import msgspec

from penstock.journals.broker.links.replicate_link import FULL_BYTES, LinkOwner, ReplicateLink
from penstock.journals.broker.links.replicate_messages import Watched, encode_messages
from penstock.journals.core.effects import StreamClosed
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.messages import (
    AdoptResponse,
    MarkRequest,
    PromiseRequest,
    PromiseResponse,
    ProposeResponse,
)
from penstock.journals.records.protocol import REPLICATE, ReplicateHello
from penstock.kernel.errors import MalformedFrame, PenstockError, Unavailable
from penstock.kernel.ids import NodeId
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.server_stream import ServerStream

__all__ = ["ReplicateLinks"]

MARK_WAIT_S: Final = 0.002  # for company: longer than a client needs from an answer to its next append
MARKS_UNHEARD_MAX: Final = 8  # this many marks without a waiting reader end the watch
_ANSWERS: Final = (ProposeResponse, AdoptResponse, PromiseResponse)
_HELLO = msgspec.msgpack.Encoder()
log = get_logger()


class ReplicateLinks:
    """The streams of one journal at one broker."""

    def __init__(
        self, journal: str, me: NodeId, host: LinkOwner, channel_of: Callable[[NodeId], Channel | None], tasks: Tasks
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
        self._is_watched = False  # a reader waits here, and primaries know it;
        self._marks_unheard = 0  # how many marks have come since a reader last waited
        self.has_answers = False  # something is to be sent which says that content is here

    @property
    def is_full(self) -> bool:
        """Return whether a peer is so far behind that content should wait."""
        for link in self._links.values():  # noqa: SIM110 - every append asks, and a generator costs more than the loop
            if link.waiting_bytes > FULL_BYTES:
                return True
        return False

    def send(self, peer: NodeId, message: Any) -> None:
        """Send after earlier messages, with the next `flush`; a mark a little later. Without a stream the message is
        dropped.
        """
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
        """Send the gathered messages."""
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
        """Send marks after a while, unless proposals carry them. While appends follow each other the timer keeps
        running.
        """
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
        """A reader begins to wait here for marks: the primary should send them at once."""
        self._marks_unheard = 0
        if not self._is_watched:
            self._is_watched = True
            self._tell_watched(self._links.values())

    def on_mark(self) -> None:
        """A mark has come alone. If no reader has waited for it, nor for those before, further ones like it are not
        needed.
        """
        self._marks_unheard += 1
        if self._is_watched and self._marks_unheard > MARKS_UNHEARD_MAX:
            self._is_watched = False
            self._tell_watched(self._links.values())

    def on_watched(self, link: ReplicateLink, *, is_watched: bool) -> None:
        """Note whether a reader waits at the peer. A peer whose reader has just begun to wait gets the mark."""
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
        """Drop the gathered messages: they may speak of content that could not be written."""
        for link in (*self.to_flush, *self._to_mark):
            link.outbox, link.mark = [], None
        self.to_flush.clear()
        self._to_mark.clear()
        self.has_answers = False

    def close(self, peer: NodeId, epoch: PipelineEpoch) -> None:
        """End that stream, after the messages already sent."""
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
                raise Unavailable(f"the address of {link.peer} is unknown")
            link.stream = await channel.open(REPLICATE, hello, receiver=link)
        except PenstockError as error:
            self.on_closed(link, error)
        else:
            link.on_writable()
