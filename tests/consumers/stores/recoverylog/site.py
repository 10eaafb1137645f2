"""A broker, a KeySpace and a recovery log of one shard, on which stores of several processes can be opened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
from tests.journals.broker.cluster import Cluster, running_cluster

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.consumers.stores.json_file_store import JsonFileStore
from penstock.consumers.stores.recoverylog.hints_keeper import HintsKeeper
from penstock.consumers.stores.recoverylog.recovery_log import RecoveryLog
from penstock.consumers.stores.sqlite_store import SqliteStore
from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.ids import Offset
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.port import KeySpace
from penstock.messages.read_state import ReadState

LOG = "recovery/shard-one"
PREFIX = "/penstock/hints/shard-one"


def checkpoint(offset: int) -> Checkpoint:
    return Checkpoint({"shop/orders": ReadState(Offset(offset))}, {"shop/out": b"ack"})


class Site:
    """What all processes of a test share; here they are objects."""

    def __init__(self, cluster: Cluster, journals: Journals, keyspace: KeySpace, folder: Path) -> None:
        self.cluster = cluster
        self.journals = journals
        self.keyspace = keyspace
        self.folder = folder

    def keeper(self, backups: int = 2) -> HintsKeeper:
        return HintsKeeper(self.keyspace, PREFIX, LOG, backups=backups)

    def log(self, **settings: Any) -> RecoveryLog:
        return RecoveryLog(self.journals, self.keeper(), self.folder, **settings)

    def sqlite(self, **settings: Any) -> SqliteStore:
        return SqliteStore(self.log(**settings), setup=make_tables)

    def json(self, **settings: Any) -> JsonFileStore[dict[str, Any]]:
        return JsonFileStore(self.log(**settings), lambda: {"notes": []})

    async def stored(self) -> None:
        """Everything which is final is in the object store."""
        for host in self.cluster.hosts(LOG).values():
            await host.fragments.stored()


def make_tables(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE notes (note TEXT)")


@asynccontextmanager
async def running_site(folder: Path, *, fragment_bytes: int = 64 << 10) -> AsyncIterator[Site]:
    spec = JournalSpec(name=LOG, replication=1, fragment=FragmentSpec(length=fragment_bytes))
    async with running_cluster(folder, 1) as cluster, cluster.client() as journals:
        await cluster.create(spec)
        async with await EmbeddedKeySpace.open(folder / "keyspace", EmbeddedOptions(poll_ms=10)) as keyspace:
            yield Site(cluster, journals, keyspace, folder / "work")


async def write(store: SqliteStore, note: str, offset: int) -> None:
    (await store.transaction()).execute("INSERT INTO notes VALUES (?)", (note,))
    await store.seal(checkpoint(offset))
    await store.commit()


async def notes(store: SqliteStore) -> list[str]:
    return [row[0] for row in (await store.transaction()).execute("SELECT note FROM notes ORDER BY rowid")]


async def fill(site: Site, commits: int, size: int = 1_000) -> list[str]:
    """Run one life of a store to its end; return its commits."""
    store = site.sqlite()
    last = await store.restore()
    offset = last.sources["shop/orders"].offset if last.sources else 0
    for number in range(commits):
        await write(store, f"{offset + number}:{'x' * size}", offset + number + 1)
    written = await notes(store)
    await store.close()
    return written
