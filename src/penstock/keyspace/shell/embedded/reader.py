"""The reader: one thread with a connection of its own, so that no read waits for a write to reach the disk."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from penstock.kernel.errors import Overloaded
from penstock.keyspace.shell.embedded.database import Database, storage_errors
from penstock.keyspace.shell.embedded.queries import Queries

__all__ = ["StoreReader"]

R = TypeVar("R")


class StoreReader:
    """Runs queries against the store, in the order they came."""

    def __init__(self, reads_max: int) -> None:
        self._reads_max = reads_max
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="keyspace-reader")
        self._loop = asyncio.get_running_loop()
        self._database: Database | None = None
        self._queries: Queries

    async def open(self, make: Callable[[], Database]) -> None:
        def blocking() -> None:
            self._database = make()
            self._queries = Queries(self._database.connection, str(self._database.path.parent))

        await self._loop.run_in_executor(self._thread, blocking)

    async def do(self, query: Callable[[Queries], R]) -> R:
        """Run a query, and return its result."""
        if self._waiting >= self._reads_max:
            raise Overloaded(f"{self._reads_max} reads already wait for the KeySpace")
        self._waiting += 1
        try:
            return await self._loop.run_in_executor(self._thread, self._run, query)
        finally:
            self._waiting -= 1

    @property
    def database(self) -> Database:
        """The database for queries, to use on the reader's thread."""
        assert self._database is not None, "open comes first"
        return self._database

    def close(self) -> None:
        """Close from any thread but the reader's, after the running query."""
        if self._database is not None:
            self._thread.submit(self._database.close).result()
        self._thread.shutdown()

    def _run(self, query: Callable[[Queries], R]) -> R:
        with storage_errors(self.database.path):
            return query(self._queries)
