"""Flow: the state of one stream, seen from one side, without any I/O: who may still send, and how much.

Each side grants the other a window of bytes when the stream opens. A message takes its cost from the sender's credit;
once the receiver has consumed it, the cost goes back in a CREDIT frame, in steps of a quarter of the window. A sender
without credit waits, so what a stream holds at its receiver is bounded by the window, however slow the reader is.

A window that is too small for the way between the two sides costs throughput: the sender waits for credit, and at the
same time the reader waits for messages. A sender therefore says of a message that it had to wait, and if the reader
waits when that arrives, the window grows, as far as the connection has memory to spare. The window of a slow reader,
which never waits, never grows.

    state           we may send        the peer may send
    OPEN            messages, END      messages, END
    LOCAL_ENDED     credit             messages, END
    REMOTE_ENDED    messages, END      credit
    CLOSED          nothing            nothing that is looked at

What always holds: 0 <= credit <= CREDIT_MAX; 0 <= granted; granted + unconsumed + owed == window (`check`). A peer that
sends beyond its credit, grants without end or sends after its END gets a `ProtocolViolation`.
"""

from enum import Enum
from typing import Final

from penstock.kernel.errors import AlreadyClosed, LimitExceeded, Overloaded, ProtocolViolation

__all__ = ["MESSAGE_COST", "FlowState", "WireFlow", "message_cost"]

CREDIT_MAX: Final = 2**31 - 1
WINDOW_BYTES_MAX: Final = 4 * 1024 * 1024  # up to which a window grows by itself
GRANT_PARTS: Final = 4  # credit goes back in steps of this part of the window: often enough that a sender need not wait
MESSAGE_COST: Final = 64  # the cost to hold a message on top of its payload, so that empty messages are bounded too


def message_cost(payload_bytes: int) -> int:
    """Return the credit that a message takes from its stream."""
    return payload_bytes + MESSAGE_COST


class FlowState(Enum):
    """Which halves of the stream are open."""

    OPEN = "open"
    LOCAL_ENDED = "local ended"
    REMOTE_ENDED = "remote ended"
    CLOSED = "closed"


class WireFlow:
    """One side of a stream. Costs are in bytes, `message_cost` included."""

    __slots__ = (
        "_is_too_small",
        "credit",
        "granted",
        "grown",
        "may_receive",
        "may_send",
        "owed",
        "peer_window",
        "state",
        "unconsumed",
        "window",
    )

    def __init__(self, *, window: int, peer_window: int) -> None:
        self.state = FlowState.OPEN
        self.may_send = True  # what the state says about this side,
        self.may_receive = True  # and about the other: asked for several times with each message
        self.window = window  # what we hold for this stream at most
        self.grown = 0  # how much of that was added later
        self.peer_window = peer_window  # the same at the peer, when the stream was opened
        self.credit = peer_window  # what we may still send
        self.granted = window  # what the peer may still send
        self.unconsumed = 0  # received, and not yet taken by the reader
        self.owed = 0  # taken by the reader, and not yet granted again
        self._is_too_small = False  # the peer waits for credit while the reader waits for messages

    def send(self, cost: int) -> None:
        """Take the cost of a message we send from our credit."""
        if not self.may_send:
            raise AlreadyClosed("this side of the stream has ended")
        if cost > self.credit:
            self.check_size(cost)
            raise Overloaded("the stream has no credit for this message", credit=self.credit, cost=cost)
        self.credit -= cost

    def check_size(self, cost: int) -> None:
        """Refuse a message which no credit will ever cover."""
        if cost > self.peer_window:
            raise LimitExceeded(
                f"a message of {cost - MESSAGE_COST} bytes does not fit the stream's window of {self.peer_window}",
                next_step="send it as several messages",
            )

    def receive(self, cost: int, *, both_wait: bool = False) -> None:
        """Account for a message from the peer. `both_wait`: it had to wait for credit, and our reader for messages."""
        if not self.may_receive:
            raise ProtocolViolation("a message after the end of its stream")
        if cost > self.granted:
            raise ProtocolViolation("a message beyond the stream's credit", granted=self.granted, cost=cost)
        self._is_too_small |= both_wait
        self.granted -= cost
        self.unconsumed += cost

    def pass_on(self, cost: int, *, both_wait: bool = False) -> bool:
        """`receive` and `consume` in one: the reader takes the message as it comes."""
        if cost > self.granted or not self.may_receive:
            self.receive(cost)  # which names the error
        self._is_too_small |= both_wait
        self.granted -= cost
        self.owed = owed = self.owed + cost
        return self._is_too_small or GRANT_PARTS * owed >= self.window

    def consume(self, cost: int) -> bool:
        """The reader has taken messages of this cost. Whether it is time to look at `take_grant`."""
        self.unconsumed -= cost
        self.owed = owed = self.owed + cost
        return self._is_too_small or GRANT_PARTS * owed >= self.window

    def take_grant(self, spare_bytes: int = 0) -> int:
        """Return how much to grant the peer now; 0 while it is not worth a frame.

        The window may grow by `spare_bytes`.
        """
        if not self.may_receive:
            return 0
        growth = 0
        if self._is_too_small:
            self._is_too_small = False
            growth = max(0, min(self.window, spare_bytes, WINDOW_BYTES_MAX - self.window))
            self.window += growth
            self.grown += growth
        if growth == 0 and GRANT_PARTS * self.owed < self.window:
            return 0
        grant, self.owed = self.owed + growth, 0
        self.granted += grant
        return grant

    def add_credit(self, credit: int) -> None:
        """The peer has granted us more."""
        if credit == 0 or self.credit + credit > CREDIT_MAX:
            raise ProtocolViolation("a credit of nothing, or without end", credit=self.credit, added=credit)
        self.credit += credit

    def end_local(self) -> None:
        """We have sent END."""
        if not self.may_send:
            raise AlreadyClosed("this side of the stream has ended")
        self.may_send = False
        self.state = FlowState.LOCAL_ENDED if self.may_receive else FlowState.CLOSED

    def end_remote(self) -> None:
        """The peer has sent END."""
        if not self.may_receive:
            raise ProtocolViolation("a second end of the same stream")
        self.may_receive = False
        self.state = FlowState.REMOTE_ENDED if self.may_send else FlowState.CLOSED

    def close(self) -> None:
        """Both halves are over: a failure, a cancellation, or the connection is gone."""
        self.may_send = self.may_receive = False
        self.state = FlowState.CLOSED

    def check(self) -> None:
        assert self.may_send is (self.state in (FlowState.OPEN, FlowState.REMOTE_ENDED))
        assert self.may_receive is (self.state in (FlowState.OPEN, FlowState.LOCAL_ENDED))
        assert 0 <= self.credit <= CREDIT_MAX, self.credit
        assert self.granted >= 0, self.granted
        assert self.unconsumed >= 0, self.unconsumed
        assert self.owed >= 0, self.owed
        assert self.granted + self.unconsumed + self.owed == self.window
