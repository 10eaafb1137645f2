"""The consumers' world: shipped brokers, shipped consumer processes with a small application, and shipped publishers.

The application counts each message in its store, and publishes it to a second journal. So a message that a shard took
twice, or left out, shows in both.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from penstock.consumers.client.definition import ShardDefinition
from penstock.consumers.client.shards import ShardChange, Shards
from penstock.consumers.stores.application import Application, Publish, ShardContext
from penstock.consumers.worker.process import ConsumerConfig, running_consumer
from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.process import BROKER_LIMITS, running_broker
from penstock.journals.client.journal import Journals
from penstock.journals.client.messages import Message, MessagePublisher
from penstock.journals.core.config import JournalConfig
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import PenstockError, Written
from penstock.kernel.ids import MILLISECOND
from penstock.keyspace.core.allocator.layout import MemberId
from penstock.plumbing.wiring.wiring import Wiring
from penstock_lab.world.consumers.store import DatabaseStore, State, WorldDatabase
from penstock_lab.world.ports.keyspace import KeySpaceClient
from penstock_lab.world.process import Life
from penstock_lab.world.scene import SECOND, Scene
from penstock_lab.world.world import World

__all__ = ["COUNTED", "GROUP", "ConsumersSettings", "ConsumersSite"]

BROKER_PORT: Final = 7201
WORKER_PORT: Final = 7401
STORE: Final = "s3://shop/"
GROUP: Final = "counters"
COUNTED: Final = "shop/counted"


class ConsumersSettings(msgspec.Struct, frozen=True):
    """What a seed draws."""

    brokers: int
    workers: int
    publishers: int
    shards: tuple[ShardDefinition, ...]
    sources: tuple[str, ...]
    pause_s: float
    messages: int  # at most
    lease_ms: int
    database_trouble: str  # "", away, loses
    run_s: float = 10.0
    calm_s: float = 6.0

    @classmethod
    def draw(cls, rng: Random) -> "ConsumersSettings":
        count = rng.choice((1, 2, 3))
        sources = tuple(f"shop/orders/{number}" for number in range(count))
        shards = tuple(
            ShardDefinition(
                id=f"shard-{number}",
                sources=dict.fromkeys(chosen, 0),
                standbys=rng.choice((0, 1)),
                min_txn_ms=rng.choice((0, 0, 50)),
                max_txn_ms=rng.choice((100, 1_000)),
            )
            for number, chosen in enumerate([sources[:1], sources[1:]])
            if chosen
        )
        return cls(
            brokers=rng.choice((1, 3)),
            workers=rng.choice((1, 2, 3)),
            publishers=rng.choice((1, 2)),
            shards=shards,
            sources=sources,
            pause_s=rng.choice((0.02, 0.1)),
            messages=rng.choice((40, 120)),
            lease_ms=rng.choice((1_000, 3_000)),
            database_trouble=rng.choice(("", "", "away", "loses")),
        )


class CountMessages(Application[State]):
    """Counts each message, and says so."""

    def __init__(self, site: "ConsumersSite", life: Life) -> None:
        self._site = site
        self._life = life

    def open_store(self, context: ShardContext) -> DatabaseStore:
        return DatabaseStore(self._site.database, self._life, context.shard)

    def consume(self, message: Message, store: State, publish: Publish) -> None:
        number = str(message.value["number"])
        store[number] = store.get(number, 0) + 1
        publish(COUNTED, {"number": message.value["number"]})


class ConsumersSite:
    """Brokers, workers, publishers, and the fate of each message."""

    def __init__(self, world: World, settings: ConsumersSettings | None = None) -> None:
        self.world = world
        self.scene = Scene(world)
        self._rng = world.random("consumers")
        self.settings = settings or ConsumersSettings.draw(self._rng)
        self.database = WorldDatabase(self.scene)
        self.published: dict[int, tuple[str, str]] = {}  # by number: the journal and the fate
        self.is_over = False
        self.brokers = [f"b{number}" for number in range(1, self.settings.brokers + 1)]
        for name in self.brokers:
            self.scene.servers.append(name)
            self.scene.add(name, self._broker)
        self.scene.add("admin", self._admin)
        self.scene.run(1.0)
        self._create()
        for number in range(1, self.settings.workers + 1):
            self.scene.servers.append(f"w{number}")
            self.scene.add(f"w{number}", self._worker)
        for number in range(1, self.settings.publishers + 1):
            self.scene.clients.append(f"p{number}")
            self.scene.add(f"p{number}", self._publisher)

    # Programs

    async def _broker(self, life: Life) -> None:
        keyspace = KeySpaceClient(self.scene.keyspace, life)
        wiring = Wiring(host=life.name, port=BROKER_PORT, limits=BROKER_LIMITS, ports=life.ports)
        core = JournalConfig(shortage_ns=200 * MILLISECOND, retry_ns_max=500 * MILLISECOND)
        config = BrokerConfig(lease_ms=self.settings.lease_ms, drain_s=0.5, reopen_s=0.5, core=core)
        async with running_broker(MemberId("local", life.name), life.folder, keyspace, wiring, config=config) as broker:
            await broker.until_told()

    async def _worker(self, life: Life) -> None:
        """Run one consumer process."""
        keyspace = KeySpaceClient(self.scene.keyspace, life)
        config = ConsumerConfig(GROUP, lease_ms=self.settings.lease_ms, drain_s=1.0)
        wiring = Wiring(host=life.name, port=WORKER_PORT, ports=life.ports)
        async with (
            Journals(self.addresses, ports=life.ports) as journals,
            running_consumer(
                MemberId("local", life.name), CountMessages(self, life), journals, keyspace, config, wiring
            ) as consumer,
        ):
            await consumer.until_told()

    async def _publisher(self, life: Life) -> None:
        rng = life.rng
        async with Journals(self.addresses, ports=life.ports) as journals, MessagePublisher(journals) as publish:
            while not self.is_over and len(self.published) < self.settings.messages:
                number, journal = len(self.published), rng.choice(self.settings.sources)
                self.published[number] = (journal, "open")
                try:
                    await publish(journal, {"number": number})
                    self.published[number] = (journal, "acknowledged")
                except PenstockError as error:
                    self.published[number] = (journal, "refused" if error.written is Written.NO else "unknown")
                life.note("client", f"{self.published[number]}")
                await self._pause(rng)
            await life.loop.create_future()

    async def _pause(self, rng: Random) -> None:
        from asyncio import sleep

        await sleep(rng.uniform(0, 2 * self.settings.pause_s))

    async def _admin(self, life: Life) -> None:
        await life.loop.create_future()

    @property
    def addresses(self) -> list[str]:
        return [f"{name}:{BROKER_PORT}" for name in self.brokers]

    # For the judge, and for schedules

    @property
    def admin(self) -> Life:
        life = self.scene.life("admin")
        assert life is not None
        return life

    def shards(self, life: Life) -> Shards:
        wiring = Wiring(host=life.name, port=0, ports=life.ports)
        return Shards(KeySpaceClient(self.scene.keyspace, life), GROUP, wiring)

    def do(self, work: Any, seconds: float) -> Any:
        return self.scene.do(self.admin, work, seconds)

    def define(self, *definitions: ShardDefinition) -> None:
        """Put definitions of shards."""

        async def put() -> bool:
            await self.shards(self.admin).apply([ShardChange(upsert=each) for each in definitions])
            return True

        if not self.do(put(), 10):
            self.world.fail("E4: shards could not be defined")
        self.world.check()

    def _create(self) -> None:
        fragment = FragmentSpec(length=64 << 10, stores=(STORE,), refresh_interval_ms=1_000)
        specs = [
            JournalSpec(name=name, replication=self.settings.brokers, fsync=True, fragment=fragment)
            for name in (*self.settings.sources, COUNTED)
        ]

        async def create() -> bool:
            async with Journals(self.addresses, ports=self.admin.ports) as journals:
                await journals.create(*specs)
            return True

        if not self.do(create(), 10):
            self.world.fail("E4: journals could not be created")
        self.world.check()
        self.define(*self.settings.shards)

    def trouble_database(self) -> None:
        """Let the database fail for a while."""
        rng, kind = self.world.random("database trouble"), self.settings.database_trouble
        begin, lasts = rng.uniform(0.5, self.settings.run_s), rng.choice((0.3, 2.0, 8.0))

        def begins() -> None:
            if not self.scene.is_calm:
                self.database.is_away = kind == "away"
                self.database.loses_answers = 0.4 if kind == "loses" else 0.0
                self.scene.mend_later(int(lasts * SECOND), self.database.heal)

        if kind:
            self.world.after(int(begin * SECOND), begins)


Script = Callable[[ConsumersSite], Any]
