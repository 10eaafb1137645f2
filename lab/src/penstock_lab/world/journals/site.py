"""The journals' world: shipped brokers, with membership, allocator, mirror, wire and spools, and shipped clients.

A seed draws the settings, the smallest legal ones included: what a workload does decides what it can find.
"""

from random import Random
from typing import Final

import msgspec

from penstock.journals.broker.config import BrokerConfig
from penstock.journals.broker.process import BROKER_LIMITS, RunningBroker, running_broker
from penstock.journals.client.journal import Journals
from penstock.journals.core.config import JournalConfig
from penstock.journals.records.fragment import CompressionCodec
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.ids import MILLISECOND
from penstock.kernel.ids import SECOND as SECOND_
from penstock.keyspace.core.allocator.layout import MemberId
from penstock.plumbing.wiring.wiring import Wiring
from penstock_lab.world.faults import FAULTS
from penstock_lab.world.journals.clients import client_program
from penstock_lab.world.journals.ledger import JournalsLedger, SentRecord, Shown
from penstock_lab.world.journals.watch import JournalsWatch
from penstock_lab.world.ports.keyspace import KeySpaceClient
from penstock_lab.world.process import Life
from penstock_lab.world.scene import Scene
from penstock_lab.world.world import World

__all__ = ["JournalsSettings", "JournalsSite"]

PORT: Final = 7201
STORE: Final = "s3://shop/"
NAMES: Final = ("shop/orders", "shop/orders-old", "shop/carts", "users")
MESSAGES: Final = "shop/messages"


class JournalsSettings(msgspec.Struct, frozen=True):
    """What a seed draws."""

    brokers: int
    clients: int
    writers: int  # of a client
    journals: tuple[JournalSpec, ...]
    config: BrokerConfig
    pause_s: float
    records: int  # that are written at most
    sizes: tuple[int, ...]  # of records
    timeouts_s: tuple[float, ...]
    run_s: float = 12.0
    calm_s: float = 15.0

    @classmethod
    def draw(cls, rng: Random, *, fsync: bool | None, is_damaged: bool = False) -> "JournalsSettings":
        """`fsync`: of every journal; None: drawn for each. `is_damaged`: one copy of three may be."""
        brokers = rng.choice((3, 4) if is_damaged else (1, 3, 3, 3, 4))

        def spec(name: str) -> JournalSpec:
            return JournalSpec(
                name=name,
                replication=3 if is_damaged else min(brokers, rng.choice((1, 2, 3, 3))),
                fsync=rng.random() < 0.5 if fsync is None else fsync,
                fragment=FragmentSpec(
                    length=rng.choice((1 << 10, 4 << 10, 64 << 10, 512 << 20)),
                    compression_codec=rng.choice((CompressionCodec.NONE, CompressionCodec.NONE, CompressionCodec.GZIP)),
                    stores=(STORE,),  # without one, fragments go with their brokers (docs/how-to/journals.md)
                    refresh_interval_ms=rng.choice((1_000, 1_000, 5_000, 300_000)),
                ),
            )

        names = [*rng.sample(NAMES, rng.randint(1, 3)), MESSAGES]
        core = JournalConfig(
            limit_step=rng.choice((4 << 10, 1 << 20, 64 << 30)),
            in_flight_max=rng.choice((1, 4, 256)),
            queue_max=rng.choice((4, 100, 10_000)),
            pulse_ns=rng.choice((1, 5, 60)) * SECOND_,
            shortage_ns=rng.choice((100, 1_000)) * MILLISECOND,
            retry_ns_max=rng.choice((500, 5_000)) * MILLISECOND,
        )
        config = BrokerConfig(
            lease_ms=rng.choice((1_000, 3_000, 5_000)),
            drain_s=rng.choice((0.5, 3.0)),
            reopen_s=rng.choice((0.2, 2.0)),
            late_upload_ms=rng.choice((100, 3_000, 120_000)),
            core=core,
        )
        return cls(
            brokers=brokers,
            clients=rng.choice((1, 2, 3)),
            writers=rng.choice((1, 2, 4)),
            journals=tuple(map(spec, names)),
            config=config,
            pause_s=rng.choice((0.02, 0.1, 0.3)),
            records=rng.choice((100, 300, 600)),
            sizes=rng.choice(((20, 60), (50, 400), (100, 3_000), (20, 20_000))),
            timeouts_s=rng.choice(((10.0,), (0.3, 2.0, 10.0))),
        )


class JournalsSite:
    """A cluster of brokers, its clients, and their ledger."""

    messages = MESSAGES

    def __init__(self, world: World, faults: tuple[str, ...], settings: JournalsSettings | None = None) -> None:
        self.world = world
        self.scene = Scene(world)
        rng = world.random("journals")
        fsync = True if any(FAULTS[name].loses_unsynced for name in faults) else None
        is_damaged = any(FAULTS[name].damages for name in faults)
        fsync = True if is_damaged else fsync
        self.settings = settings or JournalsSettings.draw(rng, fsync=fsync, is_damaged=is_damaged)
        self.ledger = JournalsLedger(rng)
        is_unsynced_lost = any(FAULTS[name].ends_replicas for name in faults)
        unsynced = (spec.name for spec in self.settings.journals if not spec.fsync)
        self.excused = frozenset(unsynced if is_unsynced_lost else ())  # journals that may lose acknowledged bytes
        self.is_over = False  # clients begin nothing more
        self.deleted: set[str] = set()
        self.made: list[str] = []  # journals that clients created
        self.turns: dict[str, int] = {}  # by journal: the last turn that is known to be taken
        self.ends: dict[str, int] = {}  # by journal: where it ended, as the last answer said
        self._takers: dict[tuple[str, int], int] = {}
        self.brokers: dict[str, tuple[Life, RunningBroker]] = {}
        self._rng = rng
        self.watch = JournalsWatch(self)
        for number in range(1, self.settings.brokers + 1):
            self.scene.servers.append(f"b{number}")
            self.scene.add(f"b{number}", self._broker)
        self.scene.add("admin", self._admin)
        self.scene.run(1.0)
        self._create()
        for number in range(1, self.settings.clients + 1):
            self.scene.clients.append(f"c{number}")
            self.scene.add(f"c{number}", client_program(self, number))

    # Programs

    async def _broker(self, life: Life) -> None:
        keyspace = KeySpaceClient(self.scene.keyspace, life)
        wiring = Wiring(host=life.name, port=PORT, limits=BROKER_LIMITS, ports=life.ports)
        member = MemberId("local", life.name)
        async with running_broker(member, life.folder, keyspace, wiring, config=self.settings.config) as broker:
            self.brokers[life.name] = (life, broker)
            await broker.until_told()

    async def _admin(self, life: Life) -> None:
        await life.loop.create_future()

    # For clients

    def addresses(self, rng: Random) -> list[str]:
        names = list(self.scene.servers)
        rng.shuffle(names)
        return [f"{name}:{PORT}" for name in names]

    @property
    def is_written(self) -> bool:
        """Return whether clients write no more."""
        return self.is_over or len(self.ledger.sent) + len(self.ledger.published) >= self.settings.records

    def spec(self, name: str) -> JournalSpec:
        """Return a spec for another journal, like those of the others."""
        return msgspec.structs.replace(self._rng.choice(self.settings.journals), name=name, fsync=True)

    def readable(self) -> list[str]:
        return [spec.name for spec in self.settings.journals if spec.name != MESSAGES and spec.name not in self.deleted]

    def record(self, rng: Random, journal: str = "") -> SentRecord:
        return self.ledger.record(journal or rng.choice(self.readable()), rng.randint(*self.settings.sizes))

    def shown(self, journal: str, offset: int, content: bytes) -> None:
        if journal not in self.deleted:
            self.ledger.shown.append(Shown(journal, offset, content, self.world.now_ns))

    def took(self, sent: SentRecord, turn: int) -> None:
        """A conditional append was acknowledged: no other append may have taken the turn."""
        other = self._takers.setdefault((sent.journal, turn), sent.number)
        if other != sent.number:
            self.world.fail(f"E2: records {other} and {sent.number} of {sent.journal} both took turn {turn}")
        self.turns[sent.journal] = max(self.turns.get(sent.journal, 0), turn + 1)

    # For the judge

    @property
    def admin(self) -> Life:
        life = self.scene.life("admin")
        assert life is not None
        return life

    def _create(self) -> None:
        async def create() -> bool:
            async with Journals(self.addresses(self._rng), ports=self.admin.ports) as journals:
                await journals.create(*self.settings.journals)
                return True

        if not self.scene.do(self.admin, create(), 10):
            self.world.fail("E4: journals could not be created")
