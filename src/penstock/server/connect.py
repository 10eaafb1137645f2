"""The way in from Python: a server, its journals and its lake.

with penstock.connect() as stock:                     # what `penstock up` runs here
    stock.lake("shop").branch("main")["a"] = b"..."
    with stock.journal("shop/orders").publisher() as publish:
        publish({"sku": "kettle"})

with penstock.open("data/") as stock: ...             # a server of its own, for as long as the block

async with penstock.aio.connect() as stock: ...       # the same names, with await

Clients are imported when they are first needed, so that `import penstock; penstock.connect` costs little.
"""

import asyncio
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.journals.client.journal import Journals
    from penstock.journals.client.journal_blocking import BlockingJournals
    from penstock.journals.client.named_blocking import Journal
    from penstock.journals.client.named_journal import AsyncJournal
    from penstock.journals.client.transactions.transaction import AsyncJournalTransaction
    from penstock.journals.client.transactions.transaction_blocking import JournalTransaction
    from penstock.lake.client.lake_blocking import Lake, Repository
    from penstock.lake.client.lake_place import LakePlace
    from penstock.lake.client.lake_repository import AsyncLake, AsyncRepository
    from penstock.plumbing.config import Effective
    from penstock.plumbing.process.running import RunningServer
    from penstock.plumbing.wire.tls import Tls
    from penstock.quorum.client.blocking import BlockingQuorumLog
    from penstock.quorum.client.quorum import QuorumLog
    from penstock.server.data_server import DataServer

__all__ = [
    "AsyncOpenStock",
    "AsyncStock",
    "OpenStock",
    "Stock",
    "connect",
    "connect_async",
    "open",
    "open_async",
]

TRANSACTIONS: Final = "spark/transactions"  # that of Spark's sinks: either side finishes what the other left


class _Places:
    """Where everything is: as said, else as configured, else what runs in the data folder. Looked up when needed."""

    def __init__(self, address: str | None, lake: str | None, token: str | None, folder: Path | None = None) -> None:
        self._address = address
        self._lake = lake
        self._token = token
        self._folder = folder  # None: as configured

    @property
    def described(self) -> str:
        """The place in a few words. No server is asked."""
        return self._address or (str(self._folder) if self._folder is not None else "local")

    @cached_property
    def effective(self) -> "Effective":
        from penstock.plumbing.config import load

        at = {"PENSTOCK_DATA_FOLDER": str(self._folder)} if self._folder is not None else {}
        return load(environment={**os.environ, **at})

    @property
    def lake(self) -> "LakePlace":
        from penstock.lake.client.lake_place import find_lake

        return find_lake(self._lake, effective=self.effective)

    @property
    def brokers(self) -> list[str]:
        return self._addresses(lambda up: up.broker)

    @property
    def nodes(self) -> list[str]:
        return self._addresses(lambda up: up.node)

    def _addresses(self, of: "Callable[[RunningServer], str]") -> list[str]:
        from penstock.kernel.errors import NotFound
        from penstock.plumbing.config import ConfigSource
        from penstock.plumbing.process.running import running_in

        if self._address is not None:
            return [self._address]
        up = running_in(self.effective.config.data.folder)
        if up is not None:
            return [of(up)]
        if self.effective.origins["wire.listen"].source is ConfigSource.DEFAULT:
            raise NotFound(
                f"nothing runs in {self.effective.config.data.folder}, and no address was given",
                next_step="run penstock up; or say where: penstock.connect('host:7070')",
            )
        return [str(self.effective.config.wire.listen)]

    def journals(self) -> "Journals":
        from penstock.journals.client.journal import Journals

        return Journals(self.brokers, token=self.token, tls=self.tls)

    def blocking_journals(self) -> "BlockingJournals":
        from penstock.journals.client.journal_blocking import BlockingJournals

        return BlockingJournals(self.brokers, token=self.token, tls=self.tls)

    @property
    def tls(self) -> "Tls | None":
        from penstock.plumbing.wiring.options import wire_tls

        return wire_tls(self.effective.config.tls)

    @property
    def token(self) -> str | None:
        configured = self.effective.config.wire.token
        return self._token or (configured.reveal() if configured is not None else None)


class Stock:
    """One Penstock: its journals and its lake. Connections are made when they are first needed."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._lake: Lake | None = None
        self._journals: BlockingJournals | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Stock({self._places.described})"

    def close(self) -> None:
        """Close the connections."""
        if self._lake is not None:
            self._lake.close()
        if self._journals is not None:
            self._journals.close()
        self._lake = self._journals = None

    def journal(self, name: str) -> "Journal":
        """Return one journal."""
        from penstock.journals.client.named_blocking import Journal

        return Journal(self.journals, name)

    def transaction(self, *, transactions: str = TRANSACTIONS, timeout: float = 60.0) -> "JournalTransaction":
        """Return a transaction over several journals, for a `with`: readers see all of its messages, or none.

        `transactions`: the journal that records which transactions are committed. It is made if it is missing.
        """
        from penstock.journals.client.transactions.transaction_blocking import JournalTransaction

        return JournalTransaction(self.journals, transactions=transactions, timeout=timeout)

    def quorum_log(self, shard: str = "main", *, client_id: str | None = None) -> "BlockingQuorumLog":
        """Return a client of a shard of the quorum log, for a `with`.

        `client_id` names a writer across restarts: a transaction that it sends again under the same `seq` takes effect
        once. The shard `main` of `penstock up` orders the changes of the lake: other programs only read it.
        """
        from penstock.quorum.client.blocking import BlockingQuorumLog

        places = self._places
        return BlockingQuorumLog(places.nodes, shard, client_id=client_id, token=places.token, tls=places.tls)

    def lake(self, repository: str) -> "Repository":
        """Return a repository of the lake."""
        return self.lakes.repository(repository)

    @property
    def lakes(self) -> "Lake":
        """The lake's server: all repositories."""
        if self._lake is None:
            from penstock.lake.client.lake_blocking import Lake

            self._lake = Lake(self._places.lake)
        return self._lake

    @property
    def journals(self) -> "BlockingJournals":
        """The client for all journals."""
        if self._journals is None:
            self._journals = self._places.blocking_journals()
        return self._journals


class AsyncStock:
    """`Stock`, for asyncio."""

    def __init__(self, places: _Places) -> None:
        self._places = places
        self._lake: AsyncLake | None = None
        self._journals: Journals | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Stock({self._places.described})"

    async def close(self) -> None:
        """Close the connections."""
        if self._lake is not None:
            await self._lake.close()
        if self._journals is not None:
            await self._journals.close()
        self._lake = self._journals = None

    def journal(self, name: str) -> "AsyncJournal":
        """Return one journal."""
        from penstock.journals.client.named_journal import AsyncJournal

        return AsyncJournal(self.journals, name)

    def transaction(self, *, transactions: str = TRANSACTIONS, timeout: float = 60.0) -> "AsyncJournalTransaction":
        """Return a transaction over several journals, for an `async with`: readers see all of its messages, or none.

        `transactions`: the journal that records which transactions are committed. It is made if it is missing.
        """
        from penstock.journals.client.transactions.transaction import AsyncJournalTransaction

        return AsyncJournalTransaction(self.journals, transactions=transactions, timeout=timeout)

    def quorum_log(self, shard: str = "main", *, client_id: str | None = None) -> "QuorumLog":
        """Return a client of a shard of the quorum log, for an `async with`.

        `client_id` names a writer across restarts: a transaction that it sends again under the same `seq` takes effect
        once. The shard `main` of `penstock up` orders the changes of the lake: other programs only read it.
        """
        from penstock.quorum.client.quorum import QuorumLog

        places = self._places
        return QuorumLog(places.nodes, shard, client_id=client_id, token=places.token, tls=places.tls)

    def lake(self, repository: str) -> "AsyncRepository":
        """Return a repository of the lake."""
        return self.lakes.repository(repository)

    @property
    def lakes(self) -> "AsyncLake":
        """The lake's server: all repositories."""
        if self._lake is None:
            from penstock.lake.client.lake_repository import AsyncLake

            self._lake = AsyncLake(self._places.lake)
        return self._lake

    @property
    def journals(self) -> "Journals":
        """The client for all journals."""
        if self._journals is None:
            self._journals = self._places.journals()
        return self._journals


class OpenStock(Stock):
    """A Stock and the server which it has started: both end together."""

    def __init__(self, server: "DataServer") -> None:
        super().__init__(_Places(server.running.broker, server.running.lake, None, server.folder))
        self._server = server

    def close(self) -> None:
        """Close the connections, and stop the server: it stores everything first."""
        try:
            super().close()
        finally:
            self._server.stop()


class AsyncOpenStock(AsyncStock):
    """`OpenStock`, for asyncio: its server starts when its block begins."""

    def __init__(self, folder: Path) -> None:
        super().__init__(_Places(None, None, None, folder))
        self._folder = folder
        self._server: DataServer | None = None

    async def __aenter__(self) -> Self:
        from penstock.server.data_server import DataServer

        self._server = server = await asyncio.to_thread(DataServer, self._folder)
        self._places = _Places(server.running.broker, server.running.lake, None, server.folder)
        return self

    async def close(self) -> None:
        """Close the connections, and stop the server: it stores everything first."""
        try:
            await super().close()
        finally:
            if self._server is not None:
                await asyncio.to_thread(self._server.stop)


def open(folder: str | os.PathLike[str] = "penstock-data") -> OpenStock:
    """Start a server with every role on a data folder, for as long as the block: for scripts, notebooks and tests.

    All acknowledged data is in the folder: `open` it again, or run `penstock up` there. `PreconditionFailed` if a
    process runs there already: `connect` to that one.
    """
    from penstock.kernel.extras import require
    from penstock.server.data_server import DataServer

    require("server", "penstock.open")
    return OpenStock(DataServer(Path(folder)))


def open_async(folder: str | os.PathLike[str] = "penstock-data") -> AsyncOpenStock:
    """Do as `penstock.open` does, for asyncio. The server starts when the block begins."""
    from penstock.kernel.extras import require

    require("server", "penstock.aio.open")
    return AsyncOpenStock(Path(folder))


def connect(address: str | None = None, *, lake: str | None = None, token: str | None = None) -> Stock:
    """Connect to the local server; or to the broker at HOST:PORT, and to the lake at a URL.

    Connections are made when they are first needed.
    """
    return Stock(_Places(address, lake, token))


def connect_async(address: str | None = None, *, lake: str | None = None, token: str | None = None) -> AsyncStock:
    """Do as `penstock.connect` does, for asyncio."""
    return AsyncStock(_Places(address, lake, token))
