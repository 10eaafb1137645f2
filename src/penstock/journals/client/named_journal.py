"""One journal by its name, as `stock.journal("shop/orders")` gives it: publish messages, read them, append bytes.

    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle", "quantity": 2})               # returns at once; at the end all are on every replica
    for message in stock.journal("shop/orders").read():         # the committed ones, each once
        print(message.published_at, message.value)

The same names with `await` are on `AsyncJournal`. What always holds: messages of one publisher are in the order in
which they were published, through outages of the brokers; leaving its block, or `flush`, raises what went wrong.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.journal_content import Source
from penstock.journals.client.journal_outcomes import Appended
from penstock.journals.client.messages import JSON, CommittedMessage, MessagePublisher, as_it_is_now, read_committed
from penstock.journals.records.labels import LabelSelector, LabelSet
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import AlreadyClosed, PenstockError, PreconditionFailed
from penstock.messages.framing.framing import Framing
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess

__all__ = ["AsyncJournal", "AsyncJournalPublisher", "Journal", "JournalPublisher"]

HANDED_MAX: Final = 10_000  # values that wait for the event loop; a caller that publishes more waits for it
READ_AHEAD: Final = 1_000  # messages


class AsyncJournal:
    """A journal, for asyncio."""

    def __init__(self, journals: Journals, name: str) -> None:
        self.name = name
        self._journals = journals

    def __repr__(self) -> str:
        return f"journal {self.name}"

    async def create(self, *, replication: int = 1, exists_ok: bool = False, **settings: Any) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`."""
        spec = JournalSpec(name=self.name, replication=replication, **settings)
        try:
            await self._journals.create(spec)
        except PreconditionFailed:
            named = LabelSelector(LabelSet.of({"name": self.name}))
            if not exists_ok or not await self._journals.list(named):
                raise
        return self

    async def append(self, content: Source, **options: Any) -> Appended:
        """Append bytes, all or none of them. Options as of `Journals.append`."""
        return await self._journals.append(self.name, content, **options)

    def publisher(self, framing: Framing = JSON) -> "AsyncJournalPublisher":
        """Return a publisher of messages to it, for an `async with`."""
        return AsyncJournalPublisher(self._journals, self.name, framing)

    def read(
        self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False
    ) -> AsyncIterator[CommittedMessage]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        return read_committed(self._journals, self.name, offset, framing=framing, follow=follow)


class AsyncJournalPublisher:
    """Publishes to one journal. `await publish(value)` waits for room only; `flush` for all which was published."""

    def __init__(self, journals: Journals, name: str, framing: Framing) -> None:
        self._name = name
        self._framing = framing
        self._publisher = MessagePublisher(journals, framing)
        self._last: asyncio.Future[Appended] | None = None
        self.failure: BaseException | None = None  # the first: nothing is published after it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await self.flush()
        finally:
            await self._publisher.__aexit__(kind, error, trace)

    async def __call__(self, *values: Any) -> None:
        """Publish. A value is read now: it may be changed afterwards."""
        await self.put([as_it_is_now(self._framing, value) for value in values])

    async def put(self, values: list[Any]) -> None:
        """Publish values, which must not change any more."""
        self.check()
        self._last = await self._publisher.put(self._name, values)
        self._last.add_done_callback(self._note)

    async def flush(self) -> None:
        """Wait until everything is on every replica."""
        last = self._last
        if last is not None:
            await asyncio.wait([last])  # they end in order
        self.check()

    def _note(self, done: "asyncio.Future[Appended]") -> None:
        if self.failure is None and not done.cancelled():
            self.failure = done.exception()

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self.failure is not None:
            raise self.failure


class Journal:
    """A journal, without `await`."""

    def __init__(self, journals: BlockingJournals, name: str) -> None:
        self.name = name
        self._journals = journals

    @property
    def _journal(self) -> AsyncJournal:
        return AsyncJournal(self._journals.journals, self.name)

    @property
    def _thread(self) -> LoopThread:
        return LoopThread.shared()

    def __repr__(self) -> str:
        return f"journal {self.name}"

    def create(self, *, replication: int = 1, exists_ok: bool = False, **settings: Any) -> Self:
        """Make it, as a `JournalSpec` with these settings. `PreconditionFailed` if it exists, unless `exists_ok`."""
        self._thread.run(self._journal.create(replication=replication, exists_ok=exists_ok, **settings))
        return self

    def append(self, content: Source, **options: Any) -> Appended:
        """Append bytes, all or none of them. Options as of `Journals.append`."""
        return self._thread.run(self._journal.append(content, **options))

    def publisher(self, framing: Framing = JSON) -> "JournalPublisher":
        """Return a publisher of messages to it, for a `with`."""
        return JournalPublisher(lambda: self._journal, framing)

    def read(self, offset: int = 0, *, framing: Framing = JSON, follow: bool = False) -> Iterator[CommittedMessage]:
        """Yield its committed messages from an offset on; with `follow`, also new ones as they come."""
        return self._thread.iterate(self._journal.read(offset, framing=framing, follow=follow), ahead=READ_AHEAD)


class JournalPublisher:
    """`AsyncJournalPublisher`, for any thread: `publish(value)` hands it to the event loop, and returns.

    After a fork the child has a publisher of its own: its parent publishes the values handed over before.
    """

    def __init__(self, journal: Callable[[], AsyncJournal], framing: Framing) -> None:
        self._framing = framing
        self._is_closed = False
        self._hands = PerProcess(lambda: _Hand(LoopThread.shared().run(_made(journal(), framing))))
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
        hand = self._hands.get()
        hand.publisher.check()
        hand.give([as_it_is_now(self._framing, value) for value in values], is_closed=self._is_closed)

    def flush(self) -> None:
        """Wait until everything is on every replica."""
        self._hands.get().flush()


class _Hand:
    """Hands values of any thread to the publisher of this process."""

    def __init__(self, publisher: AsyncJournalPublisher) -> None:
        self.publisher = publisher
        self._thread = LoopThread.shared()
        self._in_order = asyncio.Lock()
        self._lock = threading.Lock()  # of what follows
        self._handed: list[Any] = []
        self._is_due = False  # a task takes the values handed over
        self._is_closed = False

    def give(self, values: list[Any], *, is_closed: bool) -> None:
        with self._lock:
            if self._is_closed or is_closed:
                raise AlreadyClosed("the publisher is closed")
            self._handed += values
            is_first, self._is_due = not self._is_due, True
            is_full = len(self._handed) >= HANDED_MAX
        if is_full:
            self._thread.run(self._take())
        elif is_first:
            self._thread.start(self._take_quietly())

    def flush(self) -> None:
        self._thread.run(self._flushed())

    def close(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._is_closed = True
        try:
            if error is None:
                self.flush()
        finally:
            self._thread.run(self.publisher.__aexit__(kind, error, trace))

    async def _flushed(self) -> None:
        await self._take()
        await self.publisher.flush()

    async def _take(self) -> None:
        async with self._in_order:
            with self._lock:
                handed, self._handed, self._is_due = self._handed, [], False
            if handed:
                await self.publisher.put(handed)

    async def _take_quietly(self) -> None:
        """Take the values; the next call raises the error, if there is one."""
        try:
            await self._take()
        except PenstockError as error:
            self.publisher.failure = self.publisher.failure or error


async def _made(journal: AsyncJournal, framing: Framing) -> AsyncJournalPublisher:
    return journal.publisher(framing)
