"""Links between the processes of one shard: messages of the protocol on pipelined streams, lost rather than late.

A link may lose messages (its stream broke, its peer does not read): the protocol asks again. It never blocks, and
holds at most `queue_bytes_max`. An answer goes back on the stream its request came on; whatever has no such stream goes
by address, which a node learns from the operators.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import FormatTooNew, PenstockError, ShuttingDown
from penstock.kernel.ids import NodeId
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.process.tasks import Tasks
from penstock.plumbing.wire.channels import Channels
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.message import WireMessage
from penstock.plumbing.wire.server_stream import ServerStream
from penstock.plumbing.wire.stream import Stream
from penstock.quorum.records.messages import Message as PeerMessage

__all__ = ["Directory", "PeerHello", "PeerLink", "Peers", "decode_peer", "encode_peer"]

METHOD = "quorum.peer"
QUEUE_BYTES_MAX = 32 << 20
RECONNECT_S = (0.02, 0.5)
log = get_logger()


class PeerHello(msgspec.Struct, frozen=True):
    """What a stream between peers is opened with."""

    shard: str
    sender: NodeId


class Directory(msgspec.Struct, frozen=True, tag=True):
    """Where nodes are: from operators to nodes."""

    addresses: dict[NodeId, str]


_CODEC = Codec[PeerMessage | Directory](PeerMessage | Directory)
encode_peer = _CODEC.encode
decode_peer = _CODEC.decode

OnMessages = Callable[[NodeId, list[Any]], None]
OnUnknown = Callable[[FormatTooNew], None]  # a record of another release: a replica that skips it would differ
OnLost = Callable[[NodeId, bool], None]  # a peer, and whether no process listens at its address


class PeerLink:
    """One direction of a connection to one peer, over a stream that either side opened: a `Receiver` of the wire."""

    def __init__(
        self, peer: NodeId, on_messages: OnMessages, on_closed: Callable[["PeerLink"], None], on_unknown: OnUnknown
    ) -> None:
        self.peer = peer
        self._on_unknown = on_unknown
        self.stream: Stream | None = None
        self._on_messages = on_messages
        self._on_closed = on_closed
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self.dropped = 0

    def close(self) -> None:
        """End the stream, so that the peer opens another one and no message goes to a replica that has stopped."""
        stream = self.stream
        if isinstance(stream, ServerStream):
            stream.fail(_stopped())
        elif isinstance(stream, ClientStream):
            stream.cancel()

    def send(self, data: bytes) -> None:
        stream = self.stream
        if stream is None:
            self.dropped += 1
        elif not self._queue and stream.can_send(len(data)):
            stream.send_nowait(data)
        elif self._queued_bytes + len(data) <= QUEUE_BYTES_MAX:
            self._queue.append(data)
            self._queued_bytes += len(data)
        else:
            self.dropped += 1

    def on_messages(self, messages: list[WireMessage]) -> None:
        try:
            decoded = [_CODEC.decode_known(message.body, f"a message of {self.peer}") for message in messages]
        except FormatTooNew as error:
            self._on_unknown(error)
            raise
        self._on_messages(self.peer, decoded)

    def on_writable(self) -> None:
        stream = self.stream
        while self._queue and stream is not None and stream.can_send(len(self._queue[0])):
            data = self._queue.popleft()
            self._queued_bytes -= len(data)
            stream.send_nowait(data)

    def on_end(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        self.stream = None
        self._queue.clear()
        self._queued_bytes = 0
        self._on_closed(self)


class Peers:
    """The links of one shard's process (a node, or an operator) to all others."""

    def __init__(
        self,
        me: NodeId,
        shard: str,
        channels: Channels,
        tasks: Tasks,
        on_messages: OnMessages,
        random: Random,
        on_unknown: OnUnknown = lambda _: None,
    ) -> None:
        self._me = me
        self._hello = msgspec.msgpack.encode(PeerHello(shard, me))
        self._channels = channels
        self._tasks = tasks
        self._on_messages = on_messages
        self._on_unknown = on_unknown
        self._random = random
        self._inbound: dict[NodeId, PeerLink] = {}  # streams they opened: the newest each
        self._outbound: dict[NodeId, PeerLink] = {}
        self._dialling: list[asyncio.Task[None]] = []
        self._is_closed = False
        self.directory: dict[NodeId, str] = {}
        self.shares_directory = False  # an operator: begins every stream by telling where everybody is
        self.on_lost: OnLost | None = None  # told when a stream that this process opened ends, or is refused

    def learn(self, addresses: dict[NodeId, str]) -> None:
        """Learn the addresses of nodes. A node that has moved is dialled at its new address when its stream breaks."""
        if addresses != self.directory:
            self.directory = {**self.directory, **addresses}
            if self.shares_directory:
                for link in self._outbound.values():
                    link.send(encode_peer(Directory(self.directory)))

    def accept(self, sender: NodeId, stream: Stream) -> PeerLink:
        """Take a stream that a peer has opened."""
        if self._is_closed:
            raise _stopped()
        link = PeerLink(sender, self._receive, self._inbound_closed, self._on_unknown)
        link.stream = stream
        self._inbound[sender] = link
        return link

    def send(self, to: NodeId, message: Any) -> None:
        """On the stream the peer opened, if it did; else on ours. What cannot be sent is lost."""
        if self._is_closed:
            return
        link = self._inbound.get(to) or self._outbound.get(to)
        if link is None:
            if to not in self.directory:
                return
            link = self._dial(to)
        link.send(encode_peer(message))

    def _receive(self, sender: NodeId, messages: list[Any]) -> None:
        protocol = []
        for message in messages:
            if isinstance(message, Directory):
                self.learn(message.addresses)
            else:
                protocol.append(message)
        if protocol:
            self._on_messages(sender, protocol)

    @property
    def callers(self) -> list[NodeId]:
        """The peers that have a stream to this process open now."""
        return list(self._inbound)

    def _inbound_closed(self, link: PeerLink) -> None:
        if self._inbound.get(link.peer) is link:
            del self._inbound[link.peer]

    def _dial(self, to: NodeId) -> PeerLink:
        lost = asyncio.Event()
        link = PeerLink(to, self._receive, lambda _: lost.set(), self._on_unknown)
        self._outbound[to] = link
        self._dialling.append(self._tasks.start(self._keep_open(to, link, lost), f"link to {to}"))
        return link

    def close(self) -> None:
        """End every stream. A process may run another replica of the shard after this one."""
        self._is_closed = True
        for task in self._dialling:
            task.cancel()
        for link in [*self._inbound.values(), *self._outbound.values()]:
            link.close()

    async def _keep_open(self, to: NodeId, link: PeerLink, lost: asyncio.Event) -> None:
        """Open the stream, and again whenever it breaks, for as long as the process lives."""
        while True:
            lost.clear()
            try:
                channel = self._channels.get(self.directory[to])
                link.stream = await channel.open(METHOD, self._hello, receiver=link)
                if self.shares_directory:
                    link.send(encode_peer(Directory(self.directory)))
                await lost.wait()
                self._tell_lost(to, is_refused=False)
                continue
            except PenstockError as error:
                log.debug("peer not reached", peer=to, error=str(error))
                if _is_refused(error):
                    self._tell_lost(to, is_refused=True)
            await asyncio.sleep(self._random.uniform(*RECONNECT_S))

    def _tell_lost(self, peer: NodeId, *, is_refused: bool) -> None:
        if self.on_lost is not None:
            self.on_lost(peer, is_refused)


def _stopped() -> ShuttingDown:
    return ShuttingDown("this replica has stopped")


def _is_refused(error: BaseException) -> bool:
    """Did the peer's machine answer that no process listens there?"""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return True
        cause = cause.__cause__
    return False
