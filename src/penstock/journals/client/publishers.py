"""Publishers of one journal: messages in, one at a time or many, for asyncio and for any thread.

    async with journal.publisher() as publish:
        await publish({"sku": "kettle"})        # waits for room only
    with journal.publisher() as publish:
        publish({"sku": "kettle"})              # returns at once; at the end all are on every replica

A value is encoded when it is handed in. What one turn of the event loop brings becomes one list of frames and one
append, so that a message by itself costs little more than one in a list. What always holds:

- Messages of one publisher are in the order in which they were published, also through outages of the brokers.
- If no broker takes messages, the log says why they wait, and after `patience` seconds they fail with that reason.
- Leaving the block, or `flush`, raises the first error; nothing is published after the message that it is about.
- A block that raises still publishes the messages before, within `CLOSE_S`. A note on the exception counts those that
  may be missing.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from penstock.journals.client.append_service import PATIENCE_S
from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.messages import MessagePublisher
from penstock.kernel.errors import AlreadyClosed, PenstockError
from penstock.messages.framing.framing import Framing
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess

__all__ = ["AsyncJournalPublisher", "JournalPublisher"]

HANDED_MAX: Final = 10_000  # values that wait for the event loop; a thread that publishes more waits for it
GATHERED_MAX: Final = 1_000  # values of one turn of the loop
SENT_MAX: Final = 10_000  # values of one append
CLOSE_S: Final = 10.0  # for the messages of a block that raised


class AsyncJournalPublisher:
    """Publishes to one journal. `await publish(value)` waits for room only; `flush` until all is published."""

    def __init__(self, journals: Journals, name: str, framing: Framing, patience_s: float = PATIENCE_S) -> None:
        self._name = name
        self._framing = framing
        self._publisher = MessagePublisher(journals, framing, patience_s=patience_s)
        self._gathered: list[Any] = []  # prepared values of this turn
        self._is_due = False  # `_send` will run
        self._last: asyncio.Future[Appended] | None = None
        self._unsettled = 0  # values that were sent and are not answered
        self.failure: BaseException | None = None  # the first; nothing is published after it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
            elif error is not self.failure and not isinstance(error, asyncio.CancelledError):
                await self._flush_behind(error)
        finally:
            await self._publisher.__aexit__(kind, error, trace)

    async def __call__(self, *values: Any) -> None:
        """Publish. A value is read now: it may be changed afterwards."""
        self.check()
        if len(values) == 1:
            self._gathered.append(self._framing.prepare(values[0]))
        else:
            self._gathered += self._framing.prepare_all(values)
        if len(self._gathered) >= GATHERED_MAX or self._publisher.is_full:
            await self._pass_on()
        elif not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def adopt(self, prepared: list[Any]) -> None:
        """Take values that the framing has prepared, for the next `flush`."""
        self._gathered += prepared

    async def put(self, prepared: list[Any]) -> None:
        """Publish values that the framing has prepared. Waits for room."""
        self.check()
        self._gathered += prepared
        await self._pass_on()

    def put_soon(self, prepared: list[Any]) -> bool:
        """Publish values that the framing has prepared. False: that must wait for room, or for values before them."""
        if self._publisher.is_full or self._gathered or len(prepared) > SENT_MAX:
            return False
        self._gathered = prepared
        self._send()
        return True

    async def flush(self) -> None:
        """Wait until everything is on every replica."""
        await self._pass_on()
        last = self._last
        if last is not None:
            await asyncio.wait([last])  # they end in order
        self.check()

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self.failure is not None:
            raise self.failure

    async def _flush_behind(self, error: BaseException) -> None:
        """The block raised: publish the messages before, and count the missing ones in a note on its exception."""
        try:
            await asyncio.wait_for(self.flush(), CLOSE_S)
        except (PenstockError, TimeoutError) as failure:
            count = self._unsettled + len(self._gathered)
            why = failure.message if isinstance(failure, PenstockError) else f"no answer within {CLOSE_S:g} s"
            error.add_note(f"{self._name}: {count} of the messages handed in may not be published: {why}")

    async def _pass_on(self) -> None:
        while self._gathered and self.failure is None:
            await self._publisher.wait_for_room()
            self._send()
            await asyncio.sleep(0)  # the append service gathers the puts of one turn

    def _send(self) -> None:
        self._is_due = False
        if self._publisher.is_full or self.failure is not None:
            return  # the next caller, or `flush`, waits for room
        gathered, self._gathered = self._gathered[:SENT_MAX], self._gathered[SENT_MAX:]
        if not gathered:
            return
        count = len(gathered)
        try:
            last = self._publisher.put_now(self._name, gathered)
        except PenstockError as error:
            self.failure = error
            return
        self._unsettled += count
        self._last = last
        last.add_done_callback(lambda done: self._settled(done, count))

    def _settled(self, done: "asyncio.Future[Appended]", count: int) -> None:
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._unsettled -= count
        elif self.failure is None:
            self.failure = error


class JournalPublisher:
    """Publishes messages to one journal, in order, from any thread.

    `publish(value)` returns at once. When the block ends, every message is on every replica, or the first error is
    raised. After a fork the child has a publisher of its own: its parent publishes the values handed over before.
    """

    def __init__(self, publisher: Callable[[], AsyncJournalPublisher], framing: Framing) -> None:
        self._is_closed = False
        self._publisher = publisher
        self._framing = framing
        self._hands = PerProcess(self._make_hand)
        self._hands.get()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closed = True
        hand = self._hands.peek()
        if hand is not None:
            hand.close(kind, error, trace)

    def __call__(self, *values: Any) -> None:
        """Publish. A value is read now: it may be changed afterwards."""
        hand = self._hands.made
        if hand is None or len(values) != 1 or hand.is_closed or hand.publisher.failure is not None:
            self._hands.get().give(values)
            return
        # What `give` does for one value, because each call costs: this one runs for every message.
        handed = hand.handed
        handed.append(hand.prepare(values[0]))
        if not hand.is_due or len(handed) >= HANDED_MAX:
            hand.pass_on()

    def flush(self) -> None:
        """Wait until everything is on every replica."""
        self._hands.get().flush()

    def _make_hand(self) -> "_Hand":
        if self._is_closed:
            raise AlreadyClosed("the publisher is closed")
        return _Hand(LoopThread.shared().run(_made(self._publisher)), self._framing)


class _Hand:
    """Hands values of any thread to the publisher of this process.

    Both ends of a deque are safe without a lock: a thread appends before it looks at `is_due`, and the loop clears
    `is_due` before it takes.
    """

    def __init__(self, publisher: AsyncJournalPublisher, framing: Framing) -> None:
        self.publisher = publisher
        self.prepare = framing.prepare
        self._prepare_all = framing.prepare_all
        self._thread = LoopThread.shared()
        self._in_order = asyncio.Lock()
        self.handed: deque[Any] = deque()
        self.is_due = False  # the loop will call `_take_soon`
        self.is_closed = False
        self._waiting: asyncio.Task[None] | None = None

    def give(self, values: tuple[Any, ...]) -> None:
        if self.is_closed:
            raise AlreadyClosed("the publisher is closed")
        if self.publisher.failure is not None:
            raise self.publisher.failure
        self.handed.extend(self._prepare_all(values))
        self.pass_on()

    def pass_on(self) -> None:
        """Let the loop take the values; wait for it if they are many."""
        if len(self.handed) >= HANDED_MAX:
            self._thread.run(self._take())
        elif not self.is_due:
            self.is_due = True
            self._thread.call(self._take_soon)

    def flush(self) -> None:
        self._thread.run(self._flushed())

    def close(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.is_closed = True
        self._thread.run(self._close(kind, error, trace))

    async def _close(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        async with self._in_order:
            self.publisher.adopt(self._taken())
        await self.publisher.__aexit__(kind, error, trace)

    async def _flushed(self) -> None:
        await self._take()
        await self.publisher.flush()

    async def _take(self) -> None:
        async with self._in_order:
            taken = self._taken()
            if taken:
                await self.publisher.put(taken)

    def _taken(self) -> list[Any]:
        self.is_due = False
        handed = self.handed
        return [handed.popleft() for _ in range(len(handed))]

    def _take_soon(self) -> None:
        """Take what threads handed over. An error is raised by the next call of `publish`."""
        if not self._in_order.locked():
            taken = self._taken()
            if not taken or self.publisher.put_soon(taken):
                return
            self.handed.extendleft(reversed(taken))
            self.is_due = True
        self._waiting = asyncio.get_running_loop().create_task(self._take_quietly())

    async def _take_quietly(self) -> None:
        """Take as `_take`. The next call of `publish` raises an error."""
        try:
            await self._take()
        except PenstockError as error:
            self.publisher.failure = self.publisher.failure or error


async def _made(publisher: Callable[[], AsyncJournalPublisher]) -> AsyncJournalPublisher:
    return publisher()
