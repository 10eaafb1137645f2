"""Stream: messages in both directions, with one reader and any number of senders on each side.

A stream is read in one of two ways. Either its owner's task calls `receive`, `receive_batch` or `async for`, or the
connection calls `on_messages` of a `Receiver` with every message of one read: no task, and no wake-up per message.
`WireFlow` counts the credit; this module waits for it. What always holds: the stream returns a message's credit only
after the reader took the message, and no task waits on a closed stream.
"""

import asyncio
from collections import deque
from typing import Any, Final, Protocol, Self

from penstock.kernel.errors import AlreadyClosed, InternalError, InvalidArgument, LimitExceeded, PenstockError
from penstock.plumbing.process.logs import get_logger
from penstock.plumbing.wire.line import Line
from penstock.plumbing.wire.message import WireMessage, as_body, as_bulk
from penstock.plumbing.wire.protocol.flow import MESSAGE_COST, FlowState, WireFlow
from penstock.plumbing.wire.protocol.frames import Bulk, FrameKind, pack_header

__all__ = ["Receiver", "Stream", "StreamLink"]

_MESSAGE: Final = int(FrameKind.MESSAGE)
_CREDIT: Final = int(FrameKind.CREDIT)
_CLOSED: Final = FlowState.CLOSED
log = get_logger()


class Receiver(Protocol):
    """Takes what arrives on a stream. The connection itself calls it, so it must not block."""

    def on_messages(self, messages: list[WireMessage]) -> None:
        """Everything one read brought. When this returns, the messages count as consumed (see `hold_credit`)."""

    def on_end(self) -> None:
        """On a server: the client sends no more messages. (For a client, the server's end is `on_closed`.)"""

    def on_writable(self) -> None:
        """`can_send` was False, and may be True now."""

    def on_closed(self, error: PenstockError | None) -> None:
        """The stream is over. Called once, and nothing after it."""


class StreamLink(Protocol):
    """What a stream needs of its connection."""

    is_writable: bool
    spare_window_bytes: int  # by how much the windows of its streams may still grow
    peer: str
    peer_frame_bytes_max: int

    def queue(self, frame: bytes) -> None: ...
    def queue_payload(self, kind: int, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None: ...
    def write_payload(self, kind: int, method: int, id: int, argument: int, body: bytes, bulk: Bulk) -> None: ...
    def flush(self) -> None: ...
    def fail_stream(self, stream: Any, error: PenstockError) -> None: ...


class Stream:
    """One side of a stream. `ServerStream` and `ClientStream` add how it ends."""

    def __init__(
        self, link: StreamLink, id: int, flow: WireFlow, *, method: str, body: bytes, bulk: Bulk, deadline_at: float
    ) -> None:
        self.id = id
        self.method = method
        self.peer = link.peer
        self.body = body  # what the client opened the stream with
        self.bulk = bulk
        self.deadline_at = deadline_at
        self.flow = flow
        self.is_stopped = False  # told to end from outside: nothing which comes on it matters any more
        self.error: PenstockError | None = None  # why the stream is over, if not by its proper end
        self._link = link
        self._inbox: deque[WireMessage] = deque()  # received and not taken: bounded by the window
        self._reader: asyncio.Future[None] | None = None
        self._senders = Line()
        self._receiver: Receiver | None = None
        self._is_touched = False  # is on the connection's list of streams to deliver
        self._is_holding = False
        self._was_full = False  # can_send was False, and the receiver waits for a change
        self._is_end_told = False

    # Sending.

    def can_send(self, payload_bytes: int) -> bool:
        """Would `send_nowait` take a message of this size, without queueing behind others?"""
        can = self._link.is_writable and self.flow.credit >= payload_bytes + MESSAGE_COST and not self._senders.waiters
        self._was_full |= not can
        return can

    def send_nowait(self, body: bytes = b"", bulk: Bulk = b"") -> None:
        """Send a message, or raise `Overloaded` if there is no credit for it."""
        if type(body) is not bytes:
            body = as_body(body)
        if type(bulk) is not bytes:
            bulk = as_bulk(bulk)
        self._push(body, bulk, len(body) + len(bulk) + MESSAGE_COST)

    def try_send(self, body: bytes, bulk: Bulk = b"") -> bool:
        """Send a message with what else this turn of the loop sends. False: it cannot be sent yet."""
        if type(bulk) is not bytes:
            bulk = as_bulk(bulk)
        flow, link, cost = self.flow, self._link, len(body) + len(bulk) + MESSAGE_COST
        if flow.credit < cost or not link.is_writable or self._senders.waiters:
            self._was_full = True
            return False
        if flow.may_send and cost <= link.peer_frame_bytes_max:
            flow.credit -= cost  # as `WireFlow.send` does, of which all conditions hold
            link.queue_payload(_MESSAGE, 0, self.id, 0, body, bulk)
        else:
            self._push(body, bulk, cost)  # which names the error
        return True

    def send_at_once(self, body: bytes, bulk: Bulk = b"") -> bool:
        """The same, but it leaves now."""
        if type(bulk) is not bytes:
            bulk = as_bulk(bulk)
        flow, link, cost = self.flow, self._link, len(body) + len(bulk) + MESSAGE_COST
        if flow.credit < cost or not link.is_writable or self._senders.waiters:
            self._was_full = True
            return False
        if flow.may_send and cost <= link.peer_frame_bytes_max:
            flow.credit -= cost  # as `WireFlow.send` does, of which all conditions hold
            link.write_payload(_MESSAGE, 0, self.id, 0, body, bulk)
        else:
            self._push(body, bulk, cost)  # which names the error
            link.flush()
        return True

    def flush(self) -> None:
        """Let the sent messages leave now, not at the end of this turn of the loop."""
        self._link.flush()

    async def send(self, body: bytes = b"", bulk: Bulk = b"") -> None:
        """Send a message, as soon as there is credit for it and the connection can be written to."""
        if type(body) is not bytes:
            body = as_body(body)
        bulk = as_bulk(bulk)
        cost = len(body) + len(bulk) + MESSAGE_COST
        has_waited = 0
        if self._senders.waiters or self.flow.credit < cost or not self._link.is_writable:
            self.flow.check_size(cost)
            has_waited = int(self.flow.credit < cost)
            await self._senders.wait(lambda: self._may_go(cost))
        self._push(body, bulk, cost, has_waited)

    def _push(self, body: bytes, bulk: Bulk, cost: int, has_waited: int = 0) -> None:
        flow, link = self.flow, self._link
        if flow.state is _CLOSED:
            raise self.error if self.error is not None else AlreadyClosed("the stream has ended")
        if cost > link.peer_frame_bytes_max + MESSAGE_COST:
            raise LimitExceeded(f"a message above the peer's frame limit of {link.peer_frame_bytes_max} bytes")
        flow.send(cost)
        link.queue_payload(_MESSAGE, 0, self.id, has_waited, body, bulk)

    def _may_go(self, cost: int) -> bool:
        return (self.flow.credit >= cost and self._link.is_writable) or not self.flow.may_send

    def wake_senders(self) -> None:
        """Credit has come, or the connection can be written to again, or all is over."""
        self._senders.wake()
        if self._was_full and self._receiver is not None and self.flow.may_send and self._link.is_writable:
            self._was_full = False
            self._tell(self._receiver.on_writable)

    # Receiving.

    async def receive(self) -> WireMessage | None:
        """The next message, or None when the peer has sent its last."""
        if not self._inbox and not await self._wait_for_message():
            return None
        message = self._inbox.popleft()
        self._consume(len(message.body) + len(message.bulk) + MESSAGE_COST)
        return message

    async def receive_batch(self) -> list[WireMessage]:
        """Return all messages that have arrived, at least one; or none when the peer has sent its last."""
        if not self._inbox and not await self._wait_for_message():
            return []
        messages = list(self._inbox)
        self._inbox.clear()
        self._consume(self.flow.unconsumed)
        return messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WireMessage:
        message = await self.receive()
        if message is None:
            raise StopAsyncIteration
        return message

    async def _wait_for_message(self) -> bool:
        """Wait for the inbox to fill; False if it never will."""
        if self._receiver is not None or self._reader is not None:
            raise InvalidArgument("the stream has a reader already")
        while not self._inbox:
            if self.error is not None:
                raise self.error
            if not self.flow.may_receive:
                return False
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return True

    def _consume(self, cost: int) -> None:
        if self.flow.consume(cost) and not self._is_holding:
            self._grant()

    def _grant(self) -> None:
        flow = self.flow
        before = flow.grown
        grant = flow.take_grant(self._link.spare_window_bytes)
        if grant:
            self._link.spare_window_bytes -= flow.grown - before
            self._link.queue(pack_header(0, _CREDIT, 0, self.id, 0, grant))

    def hold_credit(self) -> None:
        """Give no credit back until `release_credit`: for a reader whose messages wait somewhere else."""
        self._is_holding = True

    def release_credit(self) -> None:
        self._is_holding = False
        self._grant()

    # What the connection calls.

    def on_message(self, body: bytes, bulk: Bulk, has_waited: bool) -> bool:
        """A message came. Return True if the stream has to join the list of streams to deliver."""
        both_wait = has_waited and (self._reader is not None or self._receiver is not None)
        self.flow.receive(len(body) + len(bulk) + MESSAGE_COST, both_wait=both_wait)
        self._inbox.append(WireMessage(body, bulk))
        if self._is_touched:
            return False
        self._is_touched = True
        return True

    def on_only_message(self, body: bytes, bulk: Bulk, has_waited: bool) -> None:
        """A message came, and nothing else with it: a receiver gets it right away."""
        receiver = self._receiver
        if receiver is None or self._inbox:
            if self.on_message(body, bulk, has_waited):
                self.deliver()
            return
        is_grant_due = self.flow.pass_on(len(body) + len(bulk) + MESSAGE_COST, both_wait=has_waited)
        try:
            receiver.on_messages([WireMessage(body, bulk)])
        except Exception as error:
            self._fail_for(error)
        if is_grant_due and not self._is_holding:
            self._grant()

    def on_end(self) -> bool:
        self.flow.end_remote()
        return self._touch()

    def on_credit(self, credit: int) -> None:
        self.flow.add_credit(credit)
        self.wake_senders()

    def deliver(self) -> None:
        """Hand over the messages that came since the last time."""
        self._is_touched = False
        receiver, flow = self._receiver, self.flow
        if receiver is None:
            self._wake_reader()
        elif self._inbox:
            messages = list(self._inbox)
            cost = flow.unconsumed
            self._inbox.clear()
            try:
                receiver.on_messages(messages)
            except Exception as error:
                self._fail_for(error)
            if flow.consume(cost) and not self._is_holding:
                self._grant()
        if not flow.may_receive and not self._is_end_told and self._receiver is not None:
            self._is_end_told = True
            self._tell(self._receiver.on_end)

    def close(self, error: PenstockError | None) -> None:
        """The stream is over: wake everyone who waits on it."""
        self.error = self.error or error
        self.flow.close()
        self._link.spare_window_bytes += self.flow.grown
        self.flow.grown = 0
        self._wake_reader()
        self.wake_senders()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            self._tell(receiver.on_closed, error)

    def _touch(self) -> bool:
        was_touched, self._is_touched = self._is_touched, True
        return not was_touched

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _tell(self, callback: Any, *arguments: Any) -> None:
        """Call the receiver; its mistakes end this stream, and nothing else."""
        try:
            callback(*arguments)
        except Exception as error:
            self._fail_for(error)

    def _fail_for(self, error: Exception) -> None:
        if not isinstance(error, PenstockError):
            log.error("receiver failed", method=self.method, peer=self.peer, exc_info=error)
            error = InternalError(f"a defect in the receiver of {self.method}")
        self._link.fail_stream(self, error)
