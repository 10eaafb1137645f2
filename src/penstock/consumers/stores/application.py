"""What a consumer application is: one small class, a plain function, or an async generator.

    class Count(Application[dict[str, Any]]):
        def consume(self, message, store, publish):
            store["count"] = store.get("count", 0) + 1
            publish("shop/counts", {"count": store["count"]})

    def count(message, store, publish): ...          # the same, as a function

    async def count(messages, store):                # one call per transaction: code after the loop finishes it
        total = 0
        async for message in messages:
            total += message.value["quantity"]
        yield "shop/totals", {"total": total}

Its changes to the store and its published messages take effect together, once; all other effects of the function may
happen again. A function which is not `async` runs in a thread of its shard, so that it may block (a SQL driver does);
an `async` one runs on the event loop, and must not.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from penstock.consumers.core.effects import Publication
from penstock.consumers.core.store import Store
from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import JSON, Message
from penstock.journals.records.names import check_journal_name
from penstock.kernel.errors import ConfigError, InvalidArgument
from penstock.keyspace.shell.port import KeySpace
from penstock.messages.framing.framing import Framing
from penstock.messages.mapping import Mapping

__all__ = ["Application", "Publish", "ShardContext", "StoreFactory", "application_of"]

T = TypeVar("T")


class ShardContext(msgspec.Struct, frozen=True):
    """What a store may need to know of the shard it is opened for."""

    shard: str
    journals: Journals
    recovery_log: str = ""  # the journal of its recovery log, if its definition names one
    keyspace: KeySpace | None = None  # where its hints are,
    root: str = "/penstock"  # under which root,
    folder: Path | None = None  # and below which folder its files


StoreFactory = Callable[[ShardContext], Store[Any]]


class Publish:
    """Takes what an application publishes. A value is read when it is handed in: it may be changed afterwards."""

    def __init__(self) -> None:
        self._framings: dict[str, Framing] = {}
        self._values: dict[str, list[Any]] = {}

    def __call__(self, to: str | Mapping, value: Any, *, key: str | bytes = b"", framing: Framing = JSON) -> None:
        """Publish to a journal, or to the journal that a mapping gives for the key."""
        journal = to if isinstance(to, str) else to(key.encode() if isinstance(key, str) else key)
        known = self._framings.get(journal)
        if known is None:
            check_journal_name(journal)
            self._framings[journal] = framing
            self._values[journal] = []
        elif known is not framing:
            raise InvalidArgument(f"{journal}: a journal has one framing, not both {known} and {framing}")
        self._values[journal].append(framing.prepare(value))

    def take(self) -> tuple[Publication, ...]:
        """Return the messages published since the last call."""
        taken = tuple(
            Publication(journal, self._framings[journal], tuple(values)) for journal, values in self._values.items()
        )
        self._framings, self._values = {}, {}
        return taken


class Application(Generic[T]):
    """An exactly-once consumer of messages. `T` is what its stores give it: a dict, a Connection, ..."""

    framing: Framing = JSON  # of its source journals; `framing_of` may know better

    def framing_of(self, journal: str) -> Framing:
        """Return the framing of a source journal's messages."""
        return self.framing

    def open_store(self, context: ShardContext) -> Store[T]:
        """The store of a shard. Each life of the shard calls it.

        By default a dict, in a JSON file with a recovery log.
        """
        from penstock.consumers.stores.recovered_stores import json_file_store  # which knows this module

        if context.keyspace is None or context.folder is None:
            raise ConfigError(f"{type(self).__name__} does not say where its state is kept: define open_store")
        store: Store[Any] = json_file_store(context.keyspace, context.folder, root=context.root)(context)
        return store

    def begin(self, store: T) -> Awaitable[None] | None:
        """A transaction begins. Its first message is at hand."""
        return None

    def consume(self, message: Message, store: T, publish: Publish) -> Awaitable[None] | None:
        """Take one message: change the store, publish."""
        raise NotImplementedError(f"{type(self).__name__} does not consume: define consume")

    def finalize(self, store: T, publish: Publish) -> Awaitable[None] | None:
        """The transaction ends: put the state gathered since `begin` into the store, or publish it."""
        return None


Consumer = Callable[[Message, Any, Publish], Awaitable[None] | None]
Generator = Callable[[AsyncIterator[Message], Any], AsyncIterator[tuple[str, Any]]]


class FunctionApplication(Application[Any]):
    """A function as an application: plain or `async` (`function`), or an async generator (`generate`)."""

    def __init__(self, function: Callable[..., Any], store: StoreFactory, framing: Framing) -> None:
        is_generator = inspect.isasyncgenfunction(function)
        self.framing = framing
        self.function: Consumer = self.consume if is_generator else function
        self.generate: Generator | None = function if is_generator else None
        self._store = store

    def open_store(self, context: ShardContext) -> Store[Any]:
        return self._store(context)


def application_of(function: Consumer | Generator, *, store: StoreFactory, framing: Framing = JSON) -> Application[Any]:
    """An application of a function `(message, store, publish)`, or an async generator `(messages, store)`."""
    wanted = ("messages", "store") if inspect.isasyncgenfunction(function) else ("message", "store", "publish")
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError:
        name = getattr(function, "__name__", function)
        raise InvalidArgument(f"{name}: a consumer takes ({', '.join(wanted)})") from None
    return FunctionApplication(function, store, framing)
