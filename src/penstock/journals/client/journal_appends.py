"""A client's stream of appends to the primary of one journal: parts out, answers in, many appends in flight.

Parts of one turn of the loop are one message, or a few; an append which has the stream to itself leaves at once.
Invariants: the parts of an append are in order, and appends begin in the order they were asked for; the queue is
bounded, and a caller that sends more waits; every append ends in one answer, or in `Lost`, which says whether its last
part was sent, or will be.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from penstock.journals.client.asking import SILENT_S
from penstock.journals.records.api import AppendResponse
from penstock.journals.records.protocol import (
    APPEND,
    APPEND_ANSWERS,
    APPEND_PARTS,
    AppendHello,
    AppendPart,
    AppendWish,
    PartKind,
)
from penstock.kernel.errors import PenstockError, Unavailable
from penstock.kernel.ids import Revision
from penstock.keyspace.core.records import NO_REVISION
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.deadlines import NEVER, DeadlineSweep
from penstock.plumbing.wire.message import WireMessage

__all__ = ["PART_BYTES", "Answered", "AppendStream", "Lost"]

PART_BYTES: Final = 512 << 10  # of one append in one message
GROUP_BYTES: Final = 192 << 10  # of several: the broker begins with the first while the next ones are on their way
QUEUE_BYTES: Final = 4 << 20  # not sent yet, because the broker has no room for it
COMMIT: Final = PartKind.COMMIT  # to find it in its Enum costs as much as a call


class Lost(Exception):
    """The stream ended before the answer came."""

    def __init__(self, error: PenstockError | None, *, was_sent: bool) -> None:
        super().__init__(str(error) if error is not None else "the stream has ended")
        self.error = error
        self.was_sent = was_sent  # all of it, commit included, or it still will be: it may take effect


class Answered(msgspec.Struct, frozen=True):
    """What the broker said, and where the primary is if it is not that broker."""

    response: AppendResponse
    primary: str


class _Waiting:
    __slots__ = ("answer", "deadline_at", "is_repeatable", "was_sent")

    def __init__(self, answer: "asyncio.Future[Answered]") -> None:
        self.answer = answer
        self.deadline_at = NEVER
        self.was_sent = False
        self.is_repeatable = False

    def lose(self, error: PenstockError | None) -> None:
        """No answer will come, or none in time."""
        if not self.answer.done():
            self.answer.set_exception(Lost(error, was_sent=self.was_sent))
            self.answer.exception()  # a waiting caller gets it; without one it may fail unseen


class AppendStream:
    """One stream: a `Receiver` of the wire. Make it with `open`."""

    def __init__(self, address: str, journal: str, on_silent: Callable[["AppendStream"], None]) -> None:
        self.address = address
        self.journal = journal
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._stream: ClientStream
        self._waiting: dict[int, _Waiting] = {}
        self._numbers = 0
        self._parts: list[AppendPart] = []
        self._contents: list[Any] = []
        self._size = 0
        self._queue: deque[tuple[bytes, Any, list[int]]] = deque()
        self._queued_bytes = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._is_flush_due = False
        self._is_retiring = False
        self._sweep = DeadlineSweep(self._loop, self._expire)
        self._on_silent = on_silent
        self._silence: asyncio.TimerHandle | None = None  # while answers are waited for
        self._answers = self._answers_seen = 0

    @classmethod
    async def open(
        cls,
        channel: Channel,
        journal: str,
        *,
        timeout_s: float,
        min_revision: Revision = NO_REVISION,
        on_silent: Callable[["AppendStream"], None] = lambda _: None,
    ) -> "AppendStream":
        """Open one. The broker waits until it knows the KeySpace as of `min_revision`.

        `on_silent` is called, again and again, while appends wait and no answer comes.
        """
        stream = cls(channel.address, journal, on_silent)
        hello = msgspec.msgpack.encode(AppendHello(journal, min_revision))
        async with asyncio.timeout(timeout_s):
            stream._stream = await channel.open(APPEND, hello, receiver=stream)
        return stream

    def begin(self) -> int:
        """A new append: its number."""
        self._numbers += 1
        self._waiting[self._numbers] = _Waiting(self._loop.create_future())
        return self._numbers

    def send(self, number: int, content: Any, kind: PartKind, wish: AppendWish | None = None) -> None:
        """Send a part at the end of this turn of the loop; at once, if it is a whole append and the only one."""
        if self.is_over:
            return
        is_alone = len(self._waiting) == 1 and wish is not None and kind is COMMIT
        if is_alone and not self._parts and not self._queue:
            self._send_alone(number, content, wish)
            return
        length = len(content)
        if self._contents and self._size + length > GROUP_BYTES:
            self._close_message()
        self._parts.append(AppendPart(number, length, kind, wish))
        if length:
            self._contents.append(content)
            self._size += length
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _send_alone(self, number: int, content: Any, wish: AppendWish | None) -> None:
        body = APPEND_PARTS.encode([AppendPart(number, len(content), COMMIT, wish)])
        if self._stream.send_at_once(body, content):
            self._waiting[number].was_sent = True
        else:
            self._queue.append((body, content, [number]))
            self._queued_bytes += len(body) + len(content)

    @property
    def is_full(self) -> bool:
        """True if the broker has to take something before more may be sent."""
        return self._queued_bytes + self._size > QUEUE_BYTES

    async def wait_for_room(self) -> None:
        """Wait until the broker has taken enough of the sent content."""
        while self.is_full and not self.is_over:
            room = self._loop.create_future()
            self._room.append(room)
            await room

    def answered(self, number: int) -> "asyncio.Future[Answered]":
        """Return a future of the answer; it fails if the stream is lost."""
        return self._waiting[number].answer

    def answered_within(
        self, number: int, timeout_s: float, *, is_repeatable: bool = False
    ) -> "asyncio.Future[Answered]":
        """The same, and it is lost after a while. A caller that stops waiting, for whatever reason, calls `forget`.

        `is_repeatable`: the append may be sent again elsewhere, although this broker has it.
        """
        waiting = self._waiting[number]
        waiting.is_repeatable = is_repeatable
        if self._silence is None:
            self._answers_seen = self._answers
            self._silence = self._loop.call_later(SILENT_S, self._look)
        waiting.deadline_at = deadline_at = self._loop.time() + timeout_s
        if deadline_at < self._sweep.next_at:
            self._sweep.note(deadline_at)
        return waiting.answer

    def _look(self) -> None:
        """Look whether answers still come."""
        self._silence = None
        if not self._waiting or self.is_over:
            return
        if self._answers == self._answers_seen:
            self._on_silent(self)
        self._answers_seen = self._answers
        self._silence = self._loop.call_later(SILENT_S, self._look)

    def supersede(self, primary: str) -> None:
        """Lose what another broker may be asked for: it is the primary now, and this one answers nothing.

        Unsent appends are never sent here; a sent one that cannot be repeated waits for its answer.
        """
        self._queue.clear()
        self._queued_bytes = self._size = 0
        self._parts, self._contents = [], []
        error = Unavailable(f"{self.address} does not answer, and {primary} is the primary")
        for waiting in list(self._waiting.values()):
            if waiting.is_repeatable or not waiting.was_sent:
                waiting.lose(error)
        self._wake_room()

    def _expire(self, now: float) -> float:
        """Fail the appends that have waited long enough; return when the next one has."""
        left = NEVER
        for number, waiting in self._waiting.items():
            if waiting.answer.done():
                continue
            if waiting.deadline_at > now:
                left = min(left, waiting.deadline_at)
                continue
            if not waiting.was_sent and not self._abort(number):
                waiting.was_sent = True  # as soon as the broker has room for it
            waiting.lose(None)
        return left

    def _abort(self, number: int) -> bool:
        """Take an unsent append back. Return False if its last part is in line: then it will be sent."""
        in_line = any(number in commits for _, _, commits in self._queue)
        if in_line or any(part.number == number and part.kind is COMMIT for part in self._parts):
            return False
        self.send(number, b"", PartKind.ABORT)
        return True

    def forget(self, number: int) -> None:
        """Forget an append whose caller no longer waits; if it was not sent whole, it is aborted."""
        waiting = self._waiting.pop(number, None)
        if waiting is not None and not waiting.was_sent and not waiting.answer.done():
            self._abort(number)
        if self._is_retiring and not self._waiting:
            self._loop.call_soon(self._end)

    def retire(self) -> None:
        """Take no more appends; end when the last one on its way is answered."""
        self._is_retiring = True
        if not self._waiting:
            self._end()

    def _end(self) -> None:
        if not self.is_over:
            self._stream.end()

    def close(self) -> None:
        if not self.is_over:
            self._stream.cancel()

    # sending

    def _close_message(self) -> None:
        bulk = self._contents[0] if len(self._contents) == 1 else b"".join(self._contents)
        body = APPEND_PARTS.encode(self._parts)
        commits = [part.number for part in self._parts if part.kind is COMMIT]
        self._queue.append((body, bulk, commits))
        self._queued_bytes += len(body) + len(bulk)
        self._parts, self._contents, self._size = [], [], 0

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._parts and not self.is_over:
            self._close_message()
            self.on_writable()

    def on_writable(self) -> None:
        while self._queue and self._stream.can_send(len(self._queue[0][0]) + len(self._queue[0][1])):
            body, bulk, commits = self._queue.popleft()
            self._queued_bytes -= len(body) + len(bulk)
            self._stream.send_nowait(body, bulk)
            for number in commits:
                if number in self._waiting:
                    self._waiting[number].was_sent = True
        self._wake_room()

    def _wake_room(self) -> None:
        while self._room and self._queued_bytes <= QUEUE_BYTES // 2:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)

    # receiving

    def on_messages(self, messages: list[WireMessage]) -> None:
        self._answers += 1
        for message in messages:
            for answer in APPEND_ANSWERS.decode(message.body):
                waiting = self._waiting.get(answer.number)
                if waiting is not None and not waiting.answer.done():
                    waiting.answer.set_result(Answered(answer.response, answer.primary))

    def on_end(self) -> None:
        pass

    def on_closed(self, error: PenstockError | None) -> None:
        self.is_over = True
        self._sweep.close()
        if self._silence is not None:
            self._silence.cancel()
        for waiting in self._waiting.values():
            waiting.lose(error)
        for room in self._room:
            if not room.done():
                room.set_result(None)
