"""The site of the consumer benchmarks: brokers in processes of their own, a KeySpace for hints, and fresh journals."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from penstock.consumers.stores.application import ShardContext
from penstock.consumers.stores.recovered_stores import open_recovery_log
from penstock.consumers.stores.recoverylog.recovery_log import RecoveryLog
from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PenstockError
from penstock.keyspace.shell import open_keyspace
from penstock.keyspace.shell.port import KeySpace
from penstock.server.cluster.local import LocalCluster

__all__ = ["MessageSite", "running_site"]

READY_S: Final = 60.0
FRAGMENT_BYTES: Final = 16 << 20


class MessageSite:
    """A running cluster, seen from this process."""

    def __init__(self, folder: Path, brokers: int, journals: Journals, keyspace: KeySpace) -> None:
        self.folder = folder
        self.brokers = brokers
        self.journals = journals
        self._keyspace = keyspace

    async def create(self, name: str, *, replication: int) -> None:
        """A journal which takes appends when this returns."""
        fragment = FragmentSpec(length=FRAGMENT_BYTES)
        await self.journals.create(JournalSpec(name=name, replication=replication, fragment=fragment))
        await self.journals.append(name, b"", timeout=READY_S)

    def recovery_log(self, shard: str, log: str, **settings: Any) -> RecoveryLog:
        context = ShardContext(shard, self.journals, recovery_log=log)
        return open_recovery_log(context, self._keyspace, self.folder / "work", **settings)

    async def stored(self, journal: str) -> None:
        """Wait until all but the last fragment of a journal are in the object store."""
        deadline = time.monotonic() + READY_S
        while True:
            known = await self.journals.fragments(journal)
            if all(each.backing_store for each in known.fragments[:-1]):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{journal} is not stored after {READY_S:g} s")
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running_site(brokers: int) -> AsyncIterator[MessageSite]:
    """Next to the work, not in /tmp, which is memory on many machines."""
    folder = Path(tempfile.mkdtemp(prefix=".bench-messages-", dir=Path.cwd()))
    cluster = LocalCluster.create(folder / "brokers", nodes=0, brokers=brokers, lease_ms=20_000)
    try:
        cluster.start_all()
        async with Journals(cluster.addresses("broker")) as journals:
            await _answering(journals, brokers)
            async with await open_keyspace(f"embedded://{cluster.folder.resolve()}/keyspace") as keyspace:
                yield MessageSite(folder, brokers, journals, keyspace)
    finally:
        cluster.stop_all()
        shutil.rmtree(folder, ignore_errors=True)


async def _answering(journals: Journals, brokers: int) -> None:
    """Wait until a journal can be made on all of them."""
    deadline = time.monotonic() + READY_S
    while True:
        try:
            await journals.create(JournalSpec(name="bench/warm", replication=brokers))
            break
        except PenstockError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
    await journals.append("bench/warm", b"warm", timeout=READY_S)
