"""Appends on their way through one broker: what their clients have sent, and what the core was given of it.

Many small appends which came in one message are fed as one (a group): one proposal, one acknowledgement, one fate. The
answer of an append and the register of a transaction tell the sum of the append alone: so it is computed when peers
have the content already, unless there is a transaction.

Clients send without asking whose turn it is, so content waits here until the core asks for it (`ReadContent`). How much
may wait is bounded by the credit of its stream, and for all streams together (`HeldContent`). A client that is too
slow while it is its turn delays every append after it: below the minimum rate its append is aborted (`FlowPolice`). A
journal may have a maximum rate: `FlowBucket`.
"""

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock.journals.records.api import AppendResponse
from penstock.journals.records.fragment import EMPTY_SUM, Fragment, Sum
from penstock.kernel.ids import SECOND, Instant, Offset, RequestId

if TYPE_CHECKING:
    from penstock.journals.broker.feed import Feed
    from penstock.journals.broker.sessions import AppendSession

__all__ = ["Content", "FlowBucket", "FlowPolice", "HeldContent", "Place", "sum_of"]

MIN_BYTES_PER_S: Final = 64 << 10
GRACE_NS: Final = 2 * SECOND  # how far behind the minimum rate a client may fall
HELD_LEAST: Final = 64 << 10  # a stream with less content than this is never ended for it
BURST_S: Final = 0.25  # how much of its maximum rate a journal may take at once


Place = tuple[int, int, int]  # of an append in a group: its number, where it begins there, length


class HeldContent:
    """The content of all clients that waits for its turn. Above the bound, a stream that brings more, and whose turn it
    is not, is ended: its appends that are not committed have no effect.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self.ended = 0  # streams

    def is_too_much(self, own_bytes: int) -> bool:
        """Return whether a stream with this content must end. Small ones stay."""
        return self.bytes > self.bytes_max and own_bytes > HELD_LEAST


class Content:
    """One append: its content as it came, and how much of it was fed."""

    __slots__ = (
        "_hash",
        "_sums",
        "_taken",
        "asks_registers",
        "chunks",
        "feed",
        "is_ended",
        "members",
        "number",
        "register",
        "request",
        "session",
        "waiting_bytes",
    )

    def __init__(
        self,
        feed: "Feed",
        request: RequestId,
        session: "AppendSession",
        number: int,
        members: Sequence[Place] = (),
        *,
        register: str = "",
    ) -> None:
        self.feed = feed
        self.request = request
        self.session: AppendSession | None = session  # None: its client has gone
        self.number = number  # the client's own
        self.members = members  # if it is a group: then all of it is one chunk
        self.register = register  # of its transaction; empty: it has none
        self.asks_registers = False  # it checks or changes them
        self.chunks: deque[Any] = deque()  # bytes, or views of bytes
        self.waiting_bytes = 0
        self.is_ended = False  # the client said commit
        self._taken: list[Any] = []  # and not yet summed
        self._hash: Any = None
        self._sums: list[Sum] = []  # of its members, or its own

    def add(self, content: Any) -> None:
        self.chunks.append(content)
        self.waiting_bytes += len(content)

    def take(self) -> Any:
        """The next chunk; empty if there is none."""
        content = self.chunks.popleft() if self.chunks else b""
        length = len(content)
        self.waiting_bytes -= length
        if self.session is not None:
            self.session.on_taken(length)
        if length:
            self._taken.append(content)
        return content

    def sum_up(self) -> None:
        """Sum the taken content, now that there is time."""
        taken, self._taken = self._taken, []
        for content in taken:
            if self.members:
                self._sums = [sum_of(content[at : at + length]) for _, at, length in self.members]
                continue
            if self._hash is None:
                self._hash = hashlib.sha1(content, usedforsecurity=False)
            else:
                self._hash.update(content)
            self._sums = [self._hash.digest()]

    @property
    def sum(self) -> Sum:
        """SHA-1 of all that was taken."""
        if self._taken:
            self.sum_up()
        return self._sums[0] if self._sums else EMPTY_SUM

    @property
    def numbers(self) -> list[int]:
        """Return its clients' numbers: several, if it is a group."""
        return [each[0] for each in self.members] or [self.number]

    def answers(self, response: AppendResponse) -> list[tuple[int, AppendResponse]]:
        """Return the response to each of its clients' appends: the same, but with the place and sum of its own
        bytes.
        """
        commit = response.commit
        if commit is None or self.register:
            return [(number, response) for number in self.numbers]
        if not self.members:
            own = Fragment(commit.journal, commit.begin, commit.end, self.sum)
            return [(self.number, msgspec.structs.replace(response, commit=own))]
        if self._taken:
            self.sum_up()
        answers: list[tuple[int, AppendResponse]] = []
        for (number, at, length), sum_ in zip(self.members, self._sums, strict=True):
            begin = Offset(commit.begin + at)
            own = Fragment(commit.journal, begin, Offset(begin + length), sum_)
            answers.append((number, msgspec.structs.replace(response, commit=own)))
        return answers

    def drop(self) -> None:
        """Drop the content that has not been taken."""
        if not self.chunks:
            return
        if self.session is not None:
            self.session.on_taken(self.waiting_bytes)
        self.chunks.clear()
        self.waiting_bytes = 0


def sum_of(content: Any) -> Sum:
    """SHA-1 of some content."""
    return hashlib.sha1(content, usedforsecurity=False).digest()


class FlowPolice:
    """Whether the client whose turn it is sends fast enough.

    >>> police = FlowPolice(Instant(0), bytes_per_s=1000, grace_ns=2 * SECOND)
    >>> police.took(500)
    >>> police.is_too_slow(Instant(2 * SECOND)), police.is_too_slow(Instant(3 * SECOND))
    (False, True)
    """

    def __init__(self, now: Instant, bytes_per_s: int = MIN_BYTES_PER_S, grace_ns: int = GRACE_NS) -> None:
        self._bytes_per_s = bytes_per_s
        self._grace_ns = grace_ns
        self._paid_until = now + grace_ns
        self._now = now

    def took(self, length: int) -> None:
        self._paid_until += length * SECOND // self._bytes_per_s

    def forgive(self, now: Instant) -> None:
        """The wait was ours, not the client's."""
        self._paid_until = max(self._paid_until, now + self._grace_ns)

    def is_too_slow(self, now: Instant) -> bool:
        """Return whether the client is too slow. Content that came faster than needed is no credit for later: at most
        the grace is.
        """
        self._paid_until = min(self._paid_until, now + self._grace_ns)
        return now > self._paid_until


class FlowBucket:
    """A maximum rate: how much may be taken now, and when more. One chunk may overdraw it; the next then waits.

    >>> bucket = FlowBucket(1000)
    >>> bucket.wait_ns(Instant(0)), bucket.take(1250), bucket.wait_ns(Instant(0))
    (0, None, 1000000000)
    """

    def __init__(self, bytes_per_s: int) -> None:
        self.bytes_per_s = bytes_per_s
        self._level = bytes_per_s * BURST_S
        self._at = Instant(0)

    def wait_ns(self, now: Instant) -> int:
        """Return how long to wait until content may be taken: 0 for now."""
        if not self.bytes_per_s:
            return 0
        self._level += (now - self._at) * self.bytes_per_s / SECOND
        self._level = min(self._level, self.bytes_per_s * BURST_S)
        self._at = now
        return 0 if self._level >= 0 else int(-self._level * SECOND / self.bytes_per_s) or 1

    def take(self, length: int) -> None:
        self._level -= length
