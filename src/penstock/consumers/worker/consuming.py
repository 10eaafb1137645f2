"""Runs an application for one shard: hands it messages in the store's open transaction, and gathers the messages that
it publishes.

Calls come one after the other. A batch of messages costs one hop into the shard's thread, however many they are.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from penstock.consumers.core.effects import Publication
from penstock.consumers.core.store import Store
from penstock.consumers.stores.application import Application, Consumer, FunctionApplication, Generator, Publish
from penstock.journals.client.messages import Message as CommittedMessage
from penstock.kernel.errors import InvalidArgument
from penstock.messages.message import Message

__all__ = ["Consuming"]

R = TypeVar("R")
Publications = tuple[Publication, ...]


class Consuming:
    """An application at work on one shard's messages."""

    def __init__(self, application: Application[Any], store: Store[Any]) -> None:
        self._application = application
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="shard")
        self._txn: int | None = None
        self._consume: Consumer = application.consume
        self._generate: Generator | None = None
        if isinstance(application, FunctionApplication):
            self._consume, self._generate = application.function, application.generate
        self._run: _GeneratorRun | None = None

    async def consume(self, txn: int, journal: str, messages: tuple[Message, ...]) -> Publications:
        """Let the application consume messages of a transaction."""
        framing = self._application.framing_of(journal)
        consumed = [CommittedMessage(journal, message, framing) for message in messages]
        store = await self._begin(txn)
        if self._run is not None:
            return await self._run.feed(consumed)
        publish = Publish()
        consume = self._consume
        if inspect.iscoroutinefunction(consume):
            for message in consumed:
                await consume(message, store, publish)
        else:
            await self._in_thread(lambda: [consume(message, store, publish) for message in consumed])
        return publish.take()

    async def finalize(self, txn: int) -> Publications:
        """Let the application finish a transaction."""
        store = await self._begin(txn)
        self._txn = None
        run, self._run = self._run, None
        if run is not None:
            return await run.finish()
        publish = Publish()
        await self._call(self._application.finalize, store, publish)
        return publish.take()

    async def close(self) -> None:
        """Give up the transaction under way; wait for a call that is in its thread."""
        if self._run is not None:
            await self._run.close()
        await asyncio.to_thread(self._thread.shutdown, wait=True, cancel_futures=True)

    async def _begin(self, txn: int) -> Any:
        store = await self._store.transaction()
        if self._txn != txn:
            self._txn = txn
            if self._generate is not None:
                self._run = _GeneratorRun(self._generate, store)
            else:
                await self._call(self._application.begin, store)
        return store

    async def _call(self, method: Callable[..., Awaitable[None] | None], *arguments: Any) -> None:
        if inspect.iscoroutinefunction(method):
            await method(*arguments)
        elif getattr(method, "__func__", None) not in _DEFAULTS:
            await self._in_thread(lambda: method(*arguments))

    async def _in_thread(self, call: Callable[[], R]) -> R:
        """In the shard's thread. It is waited for even if we are cancelled: the store must not be used by two callers
        at once.
        """
        future = asyncio.get_running_loop().run_in_executor(self._thread, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.gather(future, return_exceptions=True)
            raise


_DEFAULTS = (Application.begin, Application.finalize)  # which do nothing


class _GeneratorRun:
    """One transaction of an async generator: it is fed batches, and says when it wants more than there is."""

    def __init__(self, generate: Generator, store: Any) -> None:
        self._messages: asyncio.Queue[CommittedMessage | None] = asyncio.Queue()
        self._wants_more = asyncio.Event()
        self._publish = Publish()
        self._task = asyncio.create_task(self._gather(generate, store), name="consumer generator")

    async def feed(self, messages: list[CommittedMessage]) -> Publications:
        self._wants_more.clear()
        for message in messages:
            self._messages.put_nowait(message)
        wants_more = asyncio.create_task(self._wants_more.wait())
        try:
            await asyncio.wait({wants_more, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            wants_more.cancel()
        if self._task.done():
            self._task.result()
            raise InvalidArgument("the generator ended before its messages did: it must read all of them")
        return self._publish.take()

    async def finish(self) -> Publications:
        self._messages.put_nowait(None)
        await self._task
        return self._publish.take()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _gather(self, generate: Generator, store: Any) -> None:
        async for to, value in generate(self._each(), store):
            self._publish(to, value)

    async def _each(self) -> AsyncIterator[CommittedMessage]:
        while True:
            if self._messages.empty():
                self._wants_more.set()
            message = await self._messages.get()
            if message is None:
                return
            yield message
