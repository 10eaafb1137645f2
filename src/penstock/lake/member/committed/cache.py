"""A cache of what never changes: a name stands for the same content for ever, so nothing in it is ever stale.

Bounded by bytes: the least recently used entry leaves first. Of several callers who want the same thing at once, one
loads it and the others wait for that.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["Cache"]

V = TypeVar("V")


class Cache(Generic[V]):
    """Values by name. For one event loop."""

    def __init__(self, bytes_max: int, size_of: Callable[[V], int]) -> None:
        self._bytes_max = bytes_max
        self._size_of = size_of
        self._held: OrderedDict[str, tuple[V, int]] = OrderedDict()  # the most recently used last
        self._loading: dict[str, asyncio.Future[V]] = {}
        self.bytes = 0
        self.hits = 0
        self.misses = 0

    def peek(self, name: str) -> V | None:
        """The value if it is held."""
        found = self._held.get(name)
        if found is None:
            return None
        self._held.move_to_end(name)
        self.hits += 1
        return found[0]

    async def get(self, name: str, load: Callable[[], Awaitable[V]]) -> V:
        """The value, loaded if it is not held."""
        found = self.peek(name)
        if found is not None:
            return found
        loading = self._loading.get(name)
        if loading is None:
            self.misses += 1
            loading = self._loading[name] = asyncio.ensure_future(self._load(name, load))
            # retrieved, if all waiters left
            loading.add_done_callback(lambda done: done.cancelled() or done.exception())
        # One waiter's cancellation must not end what others wait for.
        return await asyncio.shield(loading)

    def put(self, name: str, value: V) -> None:
        """Hold a value which is at hand anyway."""
        if name in self._held:
            return
        size = self._size_of(value)
        self._held[name] = (value, size)
        self.bytes += size
        while self.bytes > self._bytes_max:
            _, (_, dropped) = self._held.popitem(last=False)
            self.bytes -= dropped

    async def close(self) -> None:
        """End the loads under way, and release everything."""
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
        self._held.clear()
        self.bytes = 0

    async def _load(self, name: str, load: Callable[[], Awaitable[V]]) -> V:
        try:
            value = await load()
            self.put(name, value)
            return value
        finally:
            del self._loading[name]
