"""Shards at work, on real brokers and databases: every message takes effect once, whatever fails in between."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, create_engine, text
from tests.journals.broker.cluster import WAIT_S, Cluster, running_cluster

from penstock.consumers.core.shard import ShardSpec
from penstock.consumers.core.stat import Stat
from penstock.consumers.library import (
    Application,
    Publish,
    ShardCode,
    ShardContext,
    ShardHost,
    SqlStore,
    application_of,
    sql_store,
)
from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import JSON, Message, MessagePublisher, read_committed
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import Unavailable
from penstock.kernel.ids import MILLISECOND, Offset

LINES, WORDS = "words/lines", "words/counts"
SPEC = ShardSpec("count", {LINES: JSON})
TEXTS = ["a rose is", "a rose is", "a rose"] * 50


def make_tables(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE IF NOT EXISTS words (word VARCHAR(40) PRIMARY KEY, n INTEGER NOT NULL)"))


def add(store: Connection, word: str, n: int = 1) -> None:
    store.execute(
        text("INSERT INTO words (word, n) VALUES (:word, :n) ON CONFLICT (word) DO UPDATE SET n = words.n + :n"),
        {"word": word, "n": n},
    )


class Count(Application[Connection]):
    """Counts words in its store, and publishes the counts, transaction by transaction."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.counted: Counter[str] = Counter()
        self.failures = 0  # still to come

    def open_store(self, context: ShardContext) -> SqlStore:
        return SqlStore(self.url, context.shard, setup=make_tables)

    def begin(self, store: Connection) -> None:
        self.counted.clear()

    def consume(self, message: Message, store: Connection, publish: Publish) -> None:
        for word in message.value["text"].split():
            self.counted[word] += 1
            add(store, word)
        if self.failures:
            self.failures -= 1
            raise ValueError("the application cannot go on")

    def finalize(self, store: Connection, publish: Publish) -> None:
        for word, n in self.counted.items():
            publish(WORDS, {"word": word, "n": n})


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/words.db"


def stored(url: str) -> dict[str, int]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = {row.word: row.n for row in connection.execute(text("SELECT word, n FROM words"))}
    engine.dispose()
    return found


async def published(journals: Journals) -> dict[str, int]:
    totals: Counter[str] = Counter()
    async for message in read_committed(journals, WORDS):
        totals[message.value["word"]] += message.value["n"]
    return dict(totals)


def expected(texts: list[str]) -> dict[str, int]:
    return dict(Counter(word for line in texts for word in line.split()))


@asynccontextmanager
async def words(folder: Path) -> AsyncIterator[tuple[Cluster, Journals]]:
    async with running_cluster(folder, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=LINES, replication=1), JournalSpec(name=WORDS, replication=1))
        yield cluster, journals


async def say(journals: Journals, texts: list[str]) -> Offset:
    """Publish lines; return the journal's end after them."""
    async with MessagePublisher(journals) as publish:
        done = [await publish.put(LINES, [{"text": each}]) for each in texts]
        return (await done[-1]).end


async def test_every_message_takes_effect_once_and_stat_reads_what_was_written(tmp_path: Path, url: str) -> None:
    async with words(tmp_path) as (_, journals), ShardHost(SPEC, Count(url), journals) as shard:
        end = await say(journals, TEXTS)
        stat = await shard.stat(Stat({LINES: end}), timeout=WAIT_S)
        assert stat.read_through[LINES] >= end
        assert stored(url) == expected(TEXTS)
        assert await published(journals) == expected(TEXTS)
        assert stat.publish_at[WORDS] == (await journals.stat(WORDS)).write_head
        assert shard.status.code is ShardCode.PRIMARY


async def test_a_source_that_returns_is_not_consumed_again(tmp_path: Path, url: str) -> None:
    other = msgspec.structs.replace(SPEC, sources={"words/other": SPEC.sources[LINES]})
    async with words(tmp_path) as (cluster, journals):
        await cluster.create(JournalSpec(name="words/other", replication=1))
        for spec in (SPEC, other, SPEC):
            async with ShardHost(spec, Count(url), journals) as shard:
                async with MessagePublisher(journals) as publish:
                    end = (await publish(next(iter(spec.sources)), {"text": "a rose"})).end
                await shard.stat(Stat({next(iter(spec.sources)): end}), timeout=WAIT_S)
        assert stored(url) == {"a": 3, "rose": 3}


async def test_the_same_on_postgresql(tmp_path: Path, postgres: str) -> None:
    async with words(tmp_path) as (_, journals), ShardHost(SPEC, Count(postgres), journals) as shard:
        end = await say(journals, TEXTS)
        await shard.stat(Stat({LINES: end}), timeout=WAIT_S)
        assert stored(postgres) == expected(TEXTS)
        assert await published(journals) == expected(TEXTS)


async def test_a_shard_which_fails_says_why_and_begins_again_without_a_trace(tmp_path: Path, url: str) -> None:
    count = Count(url)
    count.failures = 2
    said: list[str] = []
    async with words(tmp_path) as (_, journals):
        end = await say(journals, TEXTS)
        host = ShardHost(SPEC, count, journals, on_status=lambda status: said.append(status.reason))
        async with host as shard:
            await shard.stat(Stat({LINES: end}), timeout=WAIT_S)
            assert stored(url) == expected(TEXTS)
            assert await published(journals) == expected(TEXTS)
    assert [each for each in said if each] == ["ValueError: the application cannot go on"] * 2


async def test_a_closed_shard_goes_on_where_it_was(tmp_path: Path, url: str) -> None:
    async with words(tmp_path) as (_, journals):
        for part in range(4):
            async with ShardHost(SPEC, Count(url), journals) as shard:
                end = await say(journals, TEXTS)
                if part % 2:
                    await shard.stat(Stat({LINES: end}), timeout=WAIT_S)
                else:
                    await shard.wait_for_status(ShardCode.PRIMARY)  # and is closed at whatever it does
        assert stored(url) == expected(TEXTS * 4)
        assert await published(journals) == expected(TEXTS * 4)


async def test_a_zombie_beside_the_new_primary_changes_nothing(tmp_path: Path, url: str) -> None:
    async with words(tmp_path) as (_, journals), ShardHost(SPEC, Count(url), journals) as old:
        await old.stat(Stat({LINES: await say(journals, TEXTS)}), timeout=WAIT_S)
        async with ShardHost(SPEC, Count(url), journals) as new:
            await new.wait_for_status(ShardCode.PRIMARY)
            end = await say(journals, TEXTS)
            failed = await asyncio.wait_for(old.wait_for_status(ShardCode.FAILED), WAIT_S)
            assert "another process has taken it over" in failed.reason
            await old.close()
            await new.stat(Stat({LINES: end}), timeout=WAIT_S)
            assert stored(url) == expected(TEXTS * 2)
            assert await published(journals) == expected(TEXTS * 2)


async def test_it_goes_on_through_the_loss_of_brokers(tmp_path: Path, url: str) -> None:
    async with running_cluster(tmp_path, 3) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name=LINES, replication=2), JournalSpec(name=WORDS, replication=2))
        async with ShardHost(SPEC, Count(url), journals) as shard:
            await shard.stat(Stat({LINES: await say(journals, TEXTS)}), timeout=WAIT_S)
            await cluster.stop(cluster.primary(WORDS))
            end = await say(journals, TEXTS)
            await shard.stat(Stat({LINES: end}), timeout=WAIT_S)
            assert stored(url) == expected(TEXTS * 2)
            assert await published(journals) == expected(TEXTS * 2)


async def test_applications_are_functions_too(tmp_path: Path, url: str) -> None:
    def plain(message: Message, store: Connection, publish: Publish) -> None:
        for word in message.value["text"].split():
            add(store, word)
            publish(WORDS, {"word": word, "n": 1})

    async def awaiting(message: Message, store: Connection, publish: Publish) -> None:
        await asyncio.sleep(0)
        plain(message, store, publish)

    async def generating(messages: AsyncIterator[Message], store: Connection) -> AsyncIterator[Any]:
        counted: Counter[str] = Counter()
        async for message in messages:
            counted.update(message.value["text"].split())
        for word, n in counted.items():
            add(store, word, n)
            yield WORDS, {"word": word, "n": n}

    async with words(tmp_path) as (_, journals):
        functions: list[Any] = [plain, awaiting, generating]
        for times, function in enumerate(functions, start=1):
            application = application_of(function, store=sql_store(url, setup=make_tables))
            async with ShardHost(SPEC, application, journals) as shard:
                await shard.stat(Stat({LINES: await say(journals, TEXTS)}), timeout=WAIT_S)
            assert stored(url) == expected(TEXTS * times), function
            assert await published(journals) == expected(TEXTS * times), function


async def test_stat_waits_no_longer_than_told_and_says_what_is_wrong(tmp_path: Path, url: str) -> None:
    count = Count(url)
    count.failures = 1_000
    async with words(tmp_path) as (_, journals), ShardHost(SPEC, count, journals) as shard:
        end = await say(journals, ["a"])
        await shard.wait_for_status(ShardCode.FAILED)
        with pytest.raises(Unavailable, match="the application cannot go on"):
            await shard.stat(Stat({LINES: end}), timeout=0.2)
        count.failures = 0
        shard.restart()
        await shard.stat(Stat({LINES: end}), timeout=WAIT_S)
        assert stored(url) == {"a": 1}


async def test_transactions_last_as_long_as_told(tmp_path: Path, url: str) -> None:
    spec = ShardSpec("count", {LINES: JSON}, min_txn_ns=50 * MILLISECOND)
    async with words(tmp_path) as (_, journals), ShardHost(spec, Count(url), journals) as shard:
        await shard.wait_for_status(ShardCode.PRIMARY)
        async with MessagePublisher(journals) as publish:
            ends = [(await publish(LINES, {"text": each})).end for each in TEXTS]
        await shard.stat(Stat({LINES: ends[-1]}), timeout=WAIT_S)
        assert stored(url) == expected(TEXTS)
    assert shard.transactions < len(TEXTS)
