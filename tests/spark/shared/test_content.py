"""The bytes of a journal for tasks: from the store, from the broker, across both, and behind what is gone."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.journals.broker.cluster import running_cluster
from tests.spark.histories import make

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import Gone, Unavailable
from penstock.plumbing.objects import open_store
from penstock.spark.options import source_options
from penstock.spark.shared.content import Access, Content


def access_to(addresses: list[str], **given: str) -> Access:
    return Access(source_options({"brokers": ",".join(addresses), "path": "any", **given}, is_stream=False).connection)


def joined(content: Content, begin: int, end: int) -> bytes:
    """All of it, and no gap in between."""
    found = b""
    for offset, data in content.read(begin, end):
        assert offset == begin + len(found)
        found += data
    return found


def until_stored(journals: BlockingJournals, name: str, count: int) -> None:
    end = time.monotonic() + 60.0
    while sum(bool(each.backing_store) for each in journals.fragments(name).fragments) < count:
        assert time.monotonic() < end, "the broker stores nothing"
        time.sleep(0.01)


def read_all(addresses: list[str], store: Path) -> None:
    with BlockingJournals(addresses) as journals, access_to(addresses) as access:
        name = make(journals, "content/all")
        parts = [bytes([number]) * 700 for number in range(8)]  # two to a fragment, and then it is stored
        for part in parts:
            journals.append(name, part, timeout=60.0)
        until_stored(journals, name, 3)  # so most of it comes from there
        expected = b"".join(parts)
        for begin, end in [(0, 5600), (650, 3000), (1399, 1401), (5599, 5600), (100, 100)]:
            content = Content(access, name, fails_on_loss=True)
            assert joined(content, begin, end) == expected[begin:end]

        access.run(access.stores.close())
        access.stores = FragmentStores(lambda _: open_store(f"file://{store}/elsewhere"))
        unreachable = Content(access, name, fails_on_loss=True)  # from here; brokers serve what they have in theirs
        assert joined(unreachable, 0, 5600) == expected


def lose(addresses: list[str]) -> None:
    with BlockingJournals(addresses) as journals, access_to(addresses, timeoutSeconds="1") as access:
        name = make(journals, "content/short")
        journals.append(name, b"x" * 10, timeout=60.0)
        content = Content(access, name, fails_on_loss=True)
        with pytest.raises((Gone, Unavailable)):
            joined(content, 0, 20)


async def test_bytes_are_read_wherever_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.spark.shared.content.CHUNK_BYTES", 900)
    async with running_cluster(tmp_path, 1) as cluster:
        store = Path(cluster.config.default_store.removeprefix("file://"))
        await asyncio.to_thread(read_all, cluster.addresses, store)
        await asyncio.to_thread(lose, cluster.addresses)


def test_questions_are_asked_again_until_the_time_is_over() -> None:
    with access_to(["127.0.0.1:1"], timeoutSeconds="1") as access:
        asked = list[int]()

        async def fails_twice() -> str:
            asked.append(len(asked))
            if len(asked) < 3:
                raise Unavailable("not yet")
            return "answer"

        async def always_fails() -> str:
            raise Unavailable("never")

        assert access.ask(fails_twice) == "answer"
        assert asked == [0, 1, 2]
        with pytest.raises(Unavailable, match="never"):
            access.ask(always_fails)
