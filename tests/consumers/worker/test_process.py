"""Consumer processes: shards are spread over them, stand by, and are handed over when one leaves or dies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.consumers.worker.test_shard_host import LINES, TEXTS, WORDS, Count, expected, published, say, stored
from tests.journals.broker.cluster import WAIT_S, Cluster, running_cluster

from penstock.consumers.client.definition import ShardDefinition, root_of
from penstock.consumers.client.shards import ShardChange, ShardInfo, Shards
from penstock.consumers.library import ShardCode
from penstock.consumers.stores.application import Application, Publish
from penstock.consumers.worker.process import ConsumerConfig, RunningConsumer, running_consumer
from penstock.journals.client.journal import Change, Journals
from penstock.journals.client.messages import Message
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import ConfigError, InvalidArgument, NotFound, PreconditionFailed, Unavailable
from penstock.keyspace.core.allocator.layout import Layout, MemberId
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace

LOG = "recovery/count"
COUNT = ShardDefinition(id="count", sources={LINES: 0}, standbys=1, recovery_log=LOG)


class Group:
    """Consumers which can be stopped, each with a KeySpace of its own, as processes have."""

    def __init__(self, cluster: Cluster, journals: Journals, application: Application[Any], shards: Shards) -> None:
        self.cluster = cluster
        self.journals = journals
        self.application = application
        self.shards = shards
        self.consumers: dict[str, RunningConsumer] = {}
        self._stacks: dict[str, AsyncExitStack] = {}

    async def start(self, name: str) -> None:
        stack = self._stacks[name] = AsyncExitStack()
        keyspace = await stack.enter_async_context(await open_keyspace(self.cluster))
        config = ConsumerConfig("words", lease_ms=2_000, folder=self.cluster.folder / name)
        self.consumers[name] = await stack.enter_async_context(
            running_consumer(MemberId("local", name), self.application, self.journals, keyspace, config)
        )

    async def stop(self, name: str) -> None:
        del self.consumers[name]
        await self._stacks.pop(name).aclose()

    async def close(self) -> None:
        for name in list(self._stacks):
            await self.stop(name)

    async def until(self, shard: str, *codes: ShardCode) -> ShardInfo:
        """Until its replicas have these codes, the primary first."""
        async with asyncio.timeout(WAIT_S):
            while True:
                info = await self.shards.get(shard)
                replicas = sorted(info.replicas, key=lambda each: not each.is_primary)
                if tuple(each.status.code for each in replicas) == codes:
                    return info
                await asyncio.sleep(0.02)


async def open_keyspace(cluster: Cluster) -> EmbeddedKeySpace:
    return await EmbeddedKeySpace.open(cluster.folder / "keyspace", EmbeddedOptions(poll_ms=10))


@asynccontextmanager
async def group(folder: Path, application: Application[Any], *names: str) -> AsyncIterator[Group]:
    async with running_cluster(folder, 1) as cluster, cluster.client() as journals:
        specs = [JournalSpec(name=name, replication=1) for name in (LINES, WORDS, LOG)]
        await cluster.create(*specs)
        async with await open_keyspace(cluster) as keyspace:
            made = Group(cluster, journals, application, Shards(keyspace, "words"))
            try:
                for name in names:
                    await made.start(name)
                yield made
            finally:
                await made.close()


def _suffix(info: ShardInfo) -> str:
    assert info.primary is not None
    return info.primary.consumer.partition("#")[2]


async def test_a_shard_is_handed_over_to_its_standby_when_its_primary_goes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/words.db"
    async with group(tmp_path, Count(url), "c1", "c2") as words:
        await words.shards.apply([ShardChange(COUNT)])
        first = _suffix(await words.until("count", ShardCode.PRIMARY, ShardCode.STANDBY))
        await words.shards.stat("count", {LINES: await say(words.journals, TEXTS)}, timeout=WAIT_S)
        await words.stop(first)
        second = _suffix(await words.until("count", ShardCode.PRIMARY))
        assert second != first
        end = await say(words.journals, TEXTS)
        await words.shards.stat("count", {LINES: end}, timeout=WAIT_S)
        assert stored(url) == expected(TEXTS * 2)
        assert await published(words.journals) == expected(TEXTS * 2)


async def test_a_process_which_drains_leaves_when_another_is_ready(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/words.db"
    async with group(tmp_path, Count(url), "c1", "c2") as words:
        await words.shards.apply([ShardChange(msgspec.structs.replace(COUNT, standbys=0))])
        first = _suffix(await words.until("count", ShardCode.PRIMARY))
        await words.shards.stat("count", {LINES: await say(words.journals, TEXTS)}, timeout=WAIT_S)
        assert await words.consumers[first].drain() == []
        assert _suffix(await words.until("count", ShardCode.PRIMARY)) != first
        await words.shards.stat("count", {LINES: await say(words.journals, TEXTS)}, timeout=WAIT_S)
        assert stored(url) == expected(TEXTS * 2)


class Tally(Application[dict[str, int]]):
    """The smallest application there is: its state is a dict, and its store the default one."""

    def consume(self, message: Message, store: dict[str, int], publish: Publish) -> None:
        for word in message.value["text"].split():
            store[word] = store.get(word, 0) + 1
            publish(WORDS, {"word": word, "n": 1})


async def test_a_dict_with_a_recovery_log_is_handed_over_hot(tmp_path: Path) -> None:
    async with group(tmp_path, Tally(), "c1", "c2") as words:
        await words.shards.apply([ShardChange(COUNT)])
        for times in (1, 2):
            first = _suffix(await words.until("count", ShardCode.PRIMARY, ShardCode.STANDBY))
            await words.shards.stat("count", {LINES: await say(words.journals, TEXTS)}, timeout=WAIT_S)
            assert await published(words.journals) == expected(TEXTS * times)
            await words.stop(first)
            await words.start(first)


async def test_a_failed_shard_says_why_in_the_keyspace_and_can_be_restarted(tmp_path: Path) -> None:
    count = Count(f"sqlite:///{tmp_path}/words.db")
    count.failures = 1_000
    async with group(tmp_path, count, "c1") as words:
        await words.shards.apply([ShardChange(msgspec.structs.replace(COUNT, standbys=0))])
        end = await say(words.journals, ["a"])
        info = await words.until("count", ShardCode.FAILED)
        assert info.primary is not None
        assert info.primary.status.reason == "ValueError: the application cannot go on"
        with pytest.raises(Unavailable, match="the application cannot go on"):
            await words.shards.stat("count", {LINES: end}, timeout=0.2)
        count.failures = 0
        await words.shards.restart("count")
        assert (await words.shards.stat("count", {LINES: end}, timeout=WAIT_S)).read_through[LINES] >= end


async def test_definitions_are_changed_all_or_none_and_a_disabled_shard_is_run_by_nobody(tmp_path: Path) -> None:
    async with group(tmp_path, Tally(), "c1") as words:
        one = msgspec.structs.replace(COUNT, standbys=0)
        await words.shards.apply([ShardChange(one, expect_mod_revision=0)])
        await words.until("count", ShardCode.PRIMARY)
        two = msgspec.structs.replace(one, id="other", recovery_log="recovery/other")
        with pytest.raises(PreconditionFailed):
            await words.shards.apply([ShardChange(two), ShardChange(one, expect_mod_revision=0)])
        assert [info.definition.id for info in await words.shards.list()] == ["count"]
        await words.shards.apply([ShardChange(msgspec.structs.replace(one, is_disabled=True))])
        await words.until("count")
        with pytest.raises(Unavailable, match="no process runs shard count now"):
            await words.shards.stat("count", timeout=0.2)
        await words.shards.apply([ShardChange(delete="count")])
        with pytest.raises(NotFound):
            await words.shards.stat("count")


async def test_a_recovery_log_of_another_shard_or_with_a_retention_is_refused(tmp_path: Path) -> None:
    async with group(tmp_path, Tally()) as words:
        one = msgspec.structs.replace(COUNT, standbys=0)
        other = msgspec.structs.replace(one, id="other")
        with pytest.raises(InvalidArgument, match="two shards have one recovery log"):
            await words.shards.apply([ShardChange(one), ShardChange(other)])
        await words.shards.apply([ShardChange(one)])
        for group_name in ("words", "verses"):
            shards = Shards(words.shards.keyspace, group_name)
            with pytest.raises(InvalidArgument, match="recovery/count is the recovery log of shard words/count"):
                await shards.apply([ShardChange(other)])
        await words.shards.apply([ShardChange(one)])
        await words.shards.apply([ShardChange(delete="count"), ShardChange(other)])
        spec = JournalSpec(name="recovery/short", replication=1, fragment=FragmentSpec(retention_ms=60_000))
        await words.cluster.create(spec)
        with pytest.raises(ConfigError, match="retention_ms is 60000; a recovery log needs 0"):
            await words.shards.apply([ShardChange(msgspec.structs.replace(other, recovery_log="recovery/short"))])


async def test_stores_refuse_the_recovery_log_of_another_shard(tmp_path: Path) -> None:
    async with group(tmp_path, Tally(), "c1") as words:
        await words.shards.apply([ShardChange(msgspec.structs.replace(COUNT, standbys=0))])
        end = await say(words.journals, TEXTS)
        await words.shards.stat("count", {LINES: end}, timeout=WAIT_S)
        thief = msgspec.structs.replace(COUNT, id="thief", standbys=0)
        put = PutKey(Layout(root_of("words")).item_key("thief"), thief.encode())  # past the check of `apply`
        await words.shards.keyspace.transact([], [put])
        info = await words.until("thief", ShardCode.FAILED)
        assert info.primary is not None
        assert "recovery/count is the recovery log of penstock-consumers/words/count" in info.primary.status.reason
        end = await say(words.journals, TEXTS)
        await words.shards.stat("count", {LINES: end}, timeout=WAIT_S)
        await words.stop("c1")
        await words.shards.apply([ShardChange(delete="thief")])
        (log,) = await words.journals.list("name=recovery/count")
        short = msgspec.structs.replace(log.spec, fragment=FragmentSpec(retention_ms=60_000))
        await words.journals.apply([Change(upsert=short)])
        await words.start("c1")
        info = await words.until("count", ShardCode.FAILED)
        assert info.primary is not None
        assert "a recovery log needs 0" in info.primary.status.reason


@pytest.mark.parametrize(
    "wrong",
    [
        {"sources": {}},
        {"sources": {"no journal!": 0}},
        {"sources": {LINES: -1}},
        {"standbys": 99},
        {"max_txn_ms": 0},
        {"id": "a shard"},
    ],
)
def test_a_definition_which_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        msgspec.structs.replace(COUNT, **wrong).validate()
