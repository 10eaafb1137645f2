"""Primaries store at once, replicas late and only missing Fragments; failures are tried again, and nothing is lost."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from structlog.testing import capture_logs
from tests.keyspace.shell.behaviours import WAIT_S

from penstock.journals.broker.persister import Persister, PersisterOptions
from penstock.journals.broker.spools.spool_file import SpoolFile
from penstock.journals.records.fragment import Fragment
from penstock.journals.storage.fragment_store import FragmentContent, FragmentStores
from penstock.kernel.errors import PenstockError
from penstock.kernel.ids import Offset
from penstock.plumbing.ports.ports import system_ports

AT_ONCE = PersisterOptions(late_ms=0, retry_ms=1, retry_ms_max=2)
NEVER_LATE = PersisterOptions(late_ms=3_600_000, retry_ms=1, retry_ms_max=2)


class WatchedStores(FragmentStores):
    """Tells of uploads which failed."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: asyncio.Queue[PenstockError] = asyncio.Queue()

    async def upload(self, fragment: Fragment, file: FragmentContent, url: str) -> Fragment:
        try:
            return await super().upload(fragment, file, url)
        except PenstockError as error:
            self.failures.put_nowait(error)
            raise


class Broker:
    """A persister, with Fragments to store and their results."""

    def __init__(self, folder: Path, options: PersisterOptions) -> None:
        self.folder = folder
        self.stores = WatchedStores()
        self.persister = Persister(self.stores, Random(1), options)
        self.url = f"file://{folder}/store/"
        self.told: list[Fragment] = []
        self.files: list[SpoolFile] = []

    def submit(self, content: bytes, begin: int, *, is_late: bool, urls: tuple[str, ...] = ()) -> Fragment:
        sum_ = hashlib.sha1(content, usedforsecurity=False).digest()
        fragment = Fragment("a/journal", Offset(begin), Offset(begin + len(content)), sum_)
        file = SpoolFile(system_ports().disk, self.folder / f"spool-{uuid4()}", fragment.begin)
        file.write(content)
        self.files.append(file)
        self.persister.submit(fragment, file.hold(), urls or (self.url,), is_late=is_late, on_stored=self.told.append)
        return fragment

    async def stored(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.persister.stored()

    async def failed(self, times: int) -> None:
        """Wait for `times` failures of the first Fragment under way."""
        failures = self.stores.failures
        async with asyncio.timeout(WAIT_S):
            for _ in range(times):
                await failures.get()

    async def close(self) -> None:
        await self.persister.close()
        await self.stores.close()


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path, NEVER_LATE)
    yield broker
    await broker.close()


async def test_a_primary_stores_at_once_and_the_file_is_let_go(broker: Broker) -> None:
    fragment = broker.submit(b"content", 0, is_late=False)
    assert broker.persister.waiting("a/journal") == [fragment]
    await broker.stored()
    assert [(each.content_path, each.backing_store) for each in broker.told] == [(fragment.content_path, broker.url)]
    assert broker.persister.waiting() == []
    broker.files[0].release()
    assert broker.files[0].fd is None, "nobody holds it any more"


async def test_a_replica_waits_until_it_is_hastened(broker: Broker) -> None:
    fragment = broker.submit(b"content", 0, is_late=True)
    await asyncio.sleep(0)
    assert broker.told == []
    assert broker.persister.waiting() == [fragment]
    broker.persister.hasten("another/journal")
    await asyncio.sleep(0)
    assert broker.persister.waiting() == [fragment]
    broker.persister.hasten("a/journal")
    await broker.stored()
    assert len(broker.told) == 1


async def test_a_replica_finds_what_the_primary_stored(tmp_path: Path) -> None:
    primary, replica = Broker(tmp_path, AT_ONCE), Broker(tmp_path, AT_ONCE)
    primary.submit(b"content", 0, is_late=False)
    await primary.stored()
    path = tmp_path / "store" / primary.told[0].content_path
    before = path.stat().st_mtime_ns
    replica.submit(b"content", 0, is_late=True)
    await replica.stored()
    assert replica.told == primary.told
    assert path.stat().st_mtime_ns == before
    await primary.close()
    await replica.close()


async def test_a_store_that_is_away_is_tried_until_it_is_back(broker: Broker) -> None:
    blocker = broker.folder / "store"
    blocker.write_text("a file where the store's folder should be")
    with capture_logs() as logs:
        broker.submit(b"content", 0, is_late=False)
        await broker.failed(3)
        assert broker.told == []
        blocker.unlink()
        await broker.stored()
    assert len(broker.told) == 1
    assert {entry["event"] for entry in logs} == {"fragment not stored"}


async def test_who_exits_tries_the_other_stores_too(broker: Broker) -> None:
    (broker.folder / "store").write_text("in the way")
    other = f"file://{broker.folder}/other/"
    broker.submit(b"content", 0, is_late=True, urls=(broker.url, other))
    broker.persister.hasten()
    await broker.stored()
    assert [fragment.backing_store for fragment in broker.told] == [other]


async def test_one_fragment_is_on_its_way_once(broker: Broker) -> None:
    broker.submit(b"content", 0, is_late=True)
    broker.submit(b"content", 0, is_late=False)
    assert len(broker.persister.waiting()) == 1
    broker.persister.hasten()
    await broker.stored()
    assert len(broker.told) == 1
    for file in broker.files:
        file.release()
        assert file.fd is None


async def test_many_at_once_are_all_stored(broker: Broker) -> None:
    for number in range(100):
        broker.submit(b"content", 7 * number, is_late=False)
    await broker.stored()
    assert sorted(each.begin for each in broker.told) == [7 * number for number in range(100)]
    assert len(await broker.stores.list("a/journal", [broker.url])) == 100


async def test_what_is_cancelled_is_not_stored(broker: Broker) -> None:
    broker.submit(b"content", 0, is_late=True)
    broker.persister.cancel("a/journal")
    await broker.stored()
    assert broker.told == []
    assert await broker.stores.list("a/journal", [broker.url]) == []


async def test_closing_gives_up_and_lets_files_go(broker: Broker) -> None:
    broker.submit(b"content", 0, is_late=True)
    await broker.persister.close()
    assert broker.persister.waiting() == []
    broker.files[0].release()
    assert broker.files[0].fd is None
