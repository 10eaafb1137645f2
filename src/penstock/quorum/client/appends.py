"""The stream of appends to whoever leads a shard: batched, in order, sent again where that is safe.

A transaction is named by (client, seq), and the shard lets each pair take effect once. So what was sent and not
answered may be sent again, to the same leader or the next, under the same pair: until its deadline. What always holds:

- What is sent and not answered is bounded by `window_bytes`: `append` waits for room.
- Every append ends in one way: an answer, or an error which says whether it may have been written.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import Indeterminate, PenstockError, Unavailable
from penstock.kernel.ids import EntryId
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.deadlines import NEVER, DeadlineSweep
from penstock.plumbing.wire.message import Message
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.api import AppendAnswers, ClientAppend, Hello
from penstock.quorum.records.entry import ClientId

__all__ = ["Answer", "Appends", "Waiting"]

OVERHEAD_BYTES = 64
_ANSWERS = Codec[AppendAnswers](AppendAnswers)
_encode = msgspec.msgpack.Encoder().encode
RETRY_S = (0.01, 0.25)  # between two tries to find the leader


class Answer(msgspec.Struct, frozen=True):
    """What the leader said of one append."""

    fate: Fate
    entry: EntryId
    result: Any = None


class Waiting(msgspec.Struct, eq=False):
    """One append which is not answered yet."""

    append: ClientAppend
    future: "asyncio.Future[Answer]"
    size: int
    deadline_at: float
    was_sent: bool = False


class Appends:
    """Finds the leader, and keeps a stream to it. All calls come from one event loop."""

    def __init__(
        self,
        shard: str,
        client: ClientId,
        channels: Callable[[str], Channel],
        addresses: list[str],
        *,
        window_bytes: int,
    ) -> None:
        self._hello = _encode(Hello(shard, client))
        self._channels = channels
        self._addresses = deque(addresses)
        self._window_bytes = window_bytes
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, Waiting] = {}  # in the order they were made
        self._unsent: list[Waiting] = []
        self._bytes = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._stream: ClientStream | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._failures = 0
        self._numbers = 0
        self._sweep = DeadlineSweep(self._loop, self._expire)

    @property
    def leader(self) -> str:
        """Where the leader was last seen, or is looked for next."""
        return self._addresses[0]

    async def append(self, append: ClientAppend, timeout_s: float) -> Answer:
        """Have it appended; the answer, whatever it is. Raises only if none came in time."""
        size = len(append.ops) + OVERHEAD_BYTES
        while self._bytes + size > self._window_bytes and self._waiting:
            room = self._loop.create_future()
            self._room.append(room)
            await room
        deadline_at = self._loop.time() + timeout_s
        waiting = Waiting(append, self._loop.create_future(), size, deadline_at)
        self._waiting[append.number] = waiting
        self._bytes += size
        self._queue(waiting)
        if deadline_at < self._sweep.next_at:
            self._sweep.note(deadline_at)
        try:
            return await waiting.future
        finally:
            self._forget(waiting)

    def next_number(self) -> int:
        """The number of an append: its name on this client's streams."""
        self._numbers += 1
        return self._numbers

    async def close(self) -> None:
        self._sweep.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiting in list(self._waiting.values()):
            self._fail(waiting, "the client was closed")

    # Sending

    def _queue(self, waiting: Waiting) -> None:
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(waiting)

    def _flush(self) -> None:
        """Send everything of this turn of the loop as one message."""
        stream = self._stream
        if stream is None:
            if self._task is None:
                self._task = self._loop.create_task(self._keep_stream())
            return
        batch = [waiting for waiting in self._unsent if not waiting.future.done()]
        self._unsent = []
        for part in _parts(batch):
            if not stream.can_send(sum(waiting.size for waiting in part)):
                self._unsent = [*part, *self._unsent]  # on_writable sends it
                continue
            stream.send_nowait(_encode([waiting.append for waiting in part]))
            for waiting in part:
                waiting.was_sent = True

    async def _keep_stream(self) -> None:
        """Keep a stream to the leader open, for as long as the client lives."""
        while True:
            self._lost.clear()
            try:
                channel = self._channels(self.leader)
                self._stream = await channel.open("quorum.append", self._hello, receiver=self)
                # What was sent on a stream before this one is sent again: its pair makes that safe.
                self._unsent = list(self._waiting.values())
                self._flush()
                await self._lost.wait()
            except PenstockError:
                self._addresses.rotate(-1)
            self._stream = None
            self._failures += 1
            await asyncio.sleep(min(RETRY_S[1], RETRY_S[0] * 2 ** min(self._failures, 6)))

    def _go_to(self, leader: str) -> None:
        """This one does not lead. Try who it says does, or the next."""
        if leader and leader != self.leader:
            if leader in self._addresses:
                self._addresses.remove(leader)
            self._addresses.appendleft(leader)
        else:
            self._addresses.rotate(-1)
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.cancel()

    # Receiver

    def on_messages(self, messages: list[Message]) -> None:
        for message in messages:
            answers = _ANSWERS.decode(message.body)
            if answers.fate is Fate.NOT_LEADER:
                self._go_to(answers.leader)
                return
            self._failures = 0
            results = answers.results or (None,) * len(answers.numbers)
            for number, offset, result in zip(answers.numbers, answers.offsets, results, strict=True):
                waiting = self._waiting.get(number)
                if waiting is not None and not waiting.future.done():
                    waiting.future.set_result(Answer(answers.fate, EntryId(answers.epoch, offset), result))

    def on_end(self) -> None:
        pass

    def on_writable(self) -> None:
        self._flush()

    def on_closed(self, error: PenstockError | None) -> None:
        if self._stream is not None:  # not by `_go_to`: this node has gone, or has no replica of the shard
            self._addresses.rotate(-1)
        self._stream = None
        self._lost.set()

    # Ends

    def _expire(self, now: float) -> float:
        """Give up what has waited too long; the earliest deadline of the rest."""
        earliest = NEVER
        for waiting in self._waiting.values():
            if waiting.deadline_at <= now:
                self._fail(waiting, "no answer came in time")
            else:
                earliest = min(earliest, waiting.deadline_at)
        return earliest

    def _fail(self, waiting: Waiting, reason: str) -> None:
        if waiting.future.done():
            return
        if waiting.was_sent:
            error: PenstockError = Indeterminate(
                f"{reason}; the transaction may still commit",
                next_step="append it again under the same seq: it takes effect once",
                seq=waiting.append.seq,
            )
        else:
            error = Unavailable(f"{reason}; no leader was reached", next_step="penstock quorum status")
        waiting.future.set_exception(error)

    def _forget(self, waiting: Waiting) -> None:
        if self._waiting.pop(waiting.append.number, None) is not None:
            self._bytes -= waiting.size
        while self._room:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
                break


MESSAGE_BYTES = 256 << 10


def _parts(batch: list[Waiting]) -> list[list[Waiting]]:
    """Pieces which fit into a message each, in order."""
    parts: list[list[Waiting]] = []
    size = MESSAGE_BYTES
    for waiting in batch:
        if size + waiting.size > MESSAGE_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(waiting)
        size += waiting.size
    return parts
