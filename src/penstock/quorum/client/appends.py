"""The stream of appends to the leader of a shard: batched, in order, sent again where that is safe.

A transaction is named by (client, seq), and the shard lets each pair take effect once. So an unanswered transaction may
be sent again, to the same leader or the next, under the same pair: until its deadline. What an answer to one copy says
of the transaction is decided in `sending.py`. What always holds:

- The bytes sent without an answer are bounded by `window_bytes`: `append` waits for room.
- Every append ends in one way: an answer, or an error which says whether it may have been written.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import Indeterminate, Overloaded, PenstockError, Unavailable
from penstock.kernel.ids import EntryId
from penstock.plumbing.wire.client import Channel
from penstock.plumbing.wire.client_stream import ClientStream
from penstock.plumbing.wire.deadlines import NEVER, DeadlineSweep
from penstock.plumbing.wire.message import WireMessage
from penstock.quorum.client.finder import SILENT_S, LeaderFinder
from penstock.quorum.client.sending import Answer, Next, Sending
from penstock.quorum.records.answers import Fate
from penstock.quorum.records.api import AppendAnswers, ClientAppend, Hello
from penstock.quorum.records.entry import ClientId

__all__ = ["Appends", "WaitingAppend"]

OVERHEAD_BYTES = 64
_ANSWERS = Codec[AppendAnswers](AppendAnswers)
_encode = msgspec.msgpack.Encoder().encode
RETRY_S = (0.01, 0.1)  # between two tries to find the leader
OPEN_S = 1.0  # for the stream to a leader that has just been found
FULL_S = 0.02  # after the limbo was full, or its leader was replaced


class WaitingAppend(msgspec.Struct, eq=False):
    """One append which is not answered yet."""

    sending: Sending
    future: "asyncio.Future[tuple[Next, Answer]]"
    size: int
    deadline_at: float  # the caller's
    gives_up_at: float  # the leader answers a time-out itself, and knows more: it is given some time for that


class Appends:
    """Finds the leader, and keeps a stream to it. All calls come from one event loop."""

    def __init__(
        self,
        shard: str,
        client: ClientId,
        channels: Callable[[str], Channel],
        finder: LeaderFinder,
        *,
        window_bytes: int,
    ) -> None:
        self._hello = _encode(Hello(shard, client))
        self._channels = channels
        self._finder = finder
        self._window_bytes = window_bytes
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[WaitingAppend, None] = {}  # in the order they were made
        self._sent: dict[int, WaitingAppend] = {}  # on this stream and not answered, by the number of the copy
        self._unsent: list[WaitingAppend] = []
        self._bytes = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._stream: ClientStream | None = None
        self._address = ""  # of the node that the stream goes to: the finder may know of a newer leader already
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._heard_at = 0.0  # when the leader last answered, or was asked after it had answered all
        self._failures = 0
        self._numbers = 0  # of copies
        self._highest_sent = 0  # of transactions
        self._sweep = DeadlineSweep(self._loop, self._expire)

    async def append(self, sending: Sending, timeout_s: float, grace_s: float) -> tuple[Next, Answer]:
        """Have it appended: TOLD and its answer, or UNKNOWN and the last one. Raises only if none came in time."""
        size = len(sending.ops) + OVERHEAD_BYTES
        deadline_at = self._loop.time() + timeout_s
        await self._wait_for_room(size, deadline_at)
        waiting = WaitingAppend(sending, self._loop.create_future(), size, deadline_at, deadline_at + grace_s)
        self._waiting[waiting] = None
        self._bytes += size
        self._queue(waiting)
        if waiting.gives_up_at < self._sweep.next_at:
            self._sweep.note(waiting.gives_up_at)
        try:
            return await waiting.future
        finally:
            self._forget(waiting)

    async def _wait_for_room(self, size: int, deadline_at: float) -> None:
        """Back-pressure, for as long as the caller waits: a silent leader must not keep it for ever."""
        while self._bytes + size > self._window_bytes and self._waiting:
            room = self._loop.create_future()
            self._room.append(room)
            try:
                async with asyncio.timeout_at(deadline_at):
                    await room
            except TimeoutError:
                raise Overloaded(
                    f"{self._bytes} bytes wait for an answer, and none came in time", next_step="penstock quorum status"
                ) from None

    async def close(self) -> None:
        self._sweep.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for waiting in list(self._waiting):
            self._fail(waiting, "the client was closed")

    # Sending

    def _queue(self, waiting: WaitingAppend) -> None:
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
            now = self._loop.time()
            if not self._sent:
                self._heard_at = now
            stream.send_nowait(_encode([self._copy(waiting, now) for waiting in part]))

    def _copy(self, waiting: WaitingAppend, now: float) -> ClientAppend:
        """The next copy, under a number of its own: an answer to an earlier copy is not taken for this one's."""
        self._numbers += 1
        self._sent[self._numbers] = waiting
        copy = waiting.sending.copy(self._numbers, int((waiting.deadline_at - now) * 1000), self._highest_sent)
        self._highest_sent = max(self._highest_sent, copy.seq)
        return copy

    async def _keep_stream(self) -> None:
        """Keep a stream to the leader open, for as long as the client lives."""
        while True:
            self._lost.clear()
            self._address = self._finder.leader
            try:
                self._address = await self._finder.find()
                async with asyncio.timeout(OPEN_S):
                    channel = self._channels(self._address)
                    self._stream = await channel.open("quorum.append", self._hello, receiver=self)
                # Transactions sent on a stream before this one are sent again: their pairs make that safe.
                self._sent.clear()
                self._unsent = list(self._waiting)
                self._flush()
                await self._watch()
            except (PenstockError, TimeoutError):
                self._finder.failed(self._address)
            self._stream = None
            self._failures += 1
            await asyncio.sleep(min(RETRY_S[1], RETRY_S[0] * 2 ** min(self._failures - 1, 6)))

    async def _watch(self) -> None:
        """Return when the stream is lost, or another node leads while this one is silent (O15)."""
        while not self._lost.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(SILENT_S / 2):
                    await self._lost.wait()
            is_silent = bool(self._sent) and self._loop.time() - self._heard_at >= SILENT_S
            if is_silent and not self._lost.is_set() and await self._is_replaced():
                self._leave()

    async def _is_replaced(self) -> bool:
        """Ask the other nodes for a newer leader, unless a read of this client has found one already."""
        if self._finder.leader == self._address:
            await self._finder.find_newer()
        return self._finder.leader != self._address

    def _go_to(self, leader: str) -> None:
        """Leave a node that does not lead, for the one that it names if it names any."""
        self._finder.failed(self._address)
        self._finder.hint(leader)
        self._leave()

    def _leave(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.cancel()
        self._lost.set()

    # Receiver

    def on_messages(self, messages: list[WireMessage]) -> None:
        for message in messages:
            answers = _ANSWERS.decode(message.body)
            self._answered(answers)
            if answers.fate is Fate.NOT_LEADER:
                self._go_to(answers.leader)
                return
            self._failures = 0
            if self._finder.leader == self._address:
                self._finder.used(answers.epoch)

    def _answered(self, answers: AppendAnswers) -> None:
        now = self._heard_at = self._loop.time()
        results = answers.results or (None,) * len(answers.numbers)
        for number, offset, result in zip(answers.numbers, answers.offsets, results, strict=True):
            waiting = self._sent.pop(number, None)
            if waiting is None or waiting.future.done():
                continue
            answer = Answer(answers.fate, EntryId(answers.epoch, offset), result, answers.cause)
            step = waiting.sending.heard(answer, is_late=now + RETRY_S[0] >= waiting.deadline_at)
            if step is not Next.AGAIN:
                waiting.future.set_result((step, answer))
            elif answers.fate is not Fate.NOT_LEADER:  # else the next stream sends it
                self._loop.call_later(FULL_S, self._queue, waiting)

    def on_end(self) -> None:
        pass

    def on_writable(self) -> None:
        self._flush()

    def on_closed(self, error: PenstockError | None) -> None:
        if self._stream is not None:  # not by `_leave`: this node has gone, or has no replica of the shard
            self._finder.failed(self._address)
        self._stream = None
        self._lost.set()

    # Ends

    def _expire(self, now: float) -> float:
        """Fail the appends that have waited too long; return the earliest deadline of the rest."""
        earliest = NEVER
        for waiting in self._waiting:
            if waiting.gives_up_at <= now:
                self._fail(waiting, "no answer came in time")
            else:
                earliest = min(earliest, waiting.gives_up_at)
        return earliest

    def _fail(self, waiting: WaitingAppend, reason: str) -> None:
        if waiting.future.done():
            return
        if waiting.sending.may_be_written:
            error: PenstockError = Indeterminate(
                f"{reason}; the transaction may still commit",
                next_step="append it again under the same seq: it takes effect once",
                seq=waiting.sending.seq,
            )
        else:
            error = Unavailable(f"{reason}; no leader was reached", next_step="penstock quorum status")
        waiting.future.set_exception(error)

    def _forget(self, waiting: WaitingAppend) -> None:
        if waiting in self._waiting:
            del self._waiting[waiting]
            self._bytes -= waiting.size
        while self._room:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
                break


MESSAGE_BYTES = 256 << 10


def _parts(batch: list[WaitingAppend]) -> list[list[WaitingAppend]]:
    """Pieces which fit into a message each, in order."""
    parts: list[list[WaitingAppend]] = []
    size = MESSAGE_BYTES
    for waiting in batch:
        if size + waiting.size > MESSAGE_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(waiting)
        size += waiting.size
    return parts
