"""The lake's world: shipped members with their services, their REST and S3 front ends, and shipped clients.

The members' queue is a quorum log in memory (`queue.py`), or one on shipped nodes (`nodes.py`): the first is faster and
has its own faults, the second is what users run. Objects lie in a bucket in memory. A seed draws the settings, the
smallest legal ones included.
"""

from contextlib import nullcontext
from random import Random
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.kernel.errors import Unavailable
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncLake
from penstock.lake.member.committed import TreeOptions
from penstock.lake.member.quorum_queue import QuorumQueue
from penstock.lake.member.services.lake_service import LakeService, serving_lake
from penstock.lake.rest.credentials import Credentials
from penstock.plumbing.http.server import HttpServer
from penstock.server.lake_site import lake_app
from penstock_lab.world.lake.clients import KEY, SECRET, lake_program
from penstock_lab.world.lake.ledger import LakeLedger
from penstock_lab.world.lake.nodes import QueueNodes
from penstock_lab.world.lake.queue import LogServer, SimulatedLog
from penstock_lab.world.process import Life
from penstock_lab.world.scene import SECOND, Scene
from penstock_lab.world.world import World

__all__ = ["STORE", "LakeSettings", "LakeSite"]

pa.array([""])  # imports pandas, where it is installed: within a world that would be a door
PORT: Final = 8000
STORE: Final = "s3://shop/lake"
BRANCHES: Final = ("main", "work-1", "work-2")


class LakeSettings(msgspec.Struct, frozen=True):
    """What a seed draws."""

    members: int
    clients: int
    writers: int  # of a client
    repositories: int
    checkpoint_span: int
    kept: int  # transactions that the queue keeps; 0: all
    pause_s: float
    changes: int  # at most
    sizes: tuple[int, int]
    timeouts_s: tuple[float, ...]
    queue_trouble: str  # of the one in memory: "", away, fails, lags
    nodes: int = 0  # of the queue; 0: it is in memory
    run_s: float = 10.0
    calm_s: float = 10.0

    @classmethod
    def draw(cls, rng: Random) -> "LakeSettings":
        span = rng.choice((5, 20, 100, 4_000))
        return cls(
            members=rng.choice((1, 2, 3, 3)),
            clients=rng.choice((1, 2, 3)),
            writers=rng.choice((2, 3, 4)),
            repositories=rng.choice((1, 1, 2)),
            checkpoint_span=span,
            kept=0,
            pause_s=rng.choice((0.05, 0.2, 0.5)),
            changes=rng.choice((30, 60, 120)),
            sizes=rng.choice(((60, 100), (60, 3_000), (100, 200_000))),
            timeouts_s=rng.choice(((20.0,), (0.5, 3.0, 20.0))),
            queue_trouble=rng.choice(("", "", "away", "fails", "lags")),
            nodes=rng.choice((*[0] * 14, 1, 3)),
        )


class LakeSite:
    """A lake, its clients, and their ledger."""

    def __init__(self, world: World, faults: tuple[str, ...], settings: LakeSettings | None = None) -> None:
        self.world = world
        self.scene = Scene(world)
        rng = world.random("lake")
        self.settings = settings or LakeSettings.draw(rng)
        self.ledger = LakeLedger()
        self.log = LogServer(self.scene, self.settings.kept)
        self.is_over = False  # clients begin nothing more
        self.is_damaged = False  # a fault has damaged objects: reads may fail
        self.may_stop = False  # members may end by themselves
        self.repositories = ["shop", "crm"][: self.settings.repositories]
        self.urls: list[str] = []
        self.services: dict[str, LakeService] = {}  # of the last life of each member
        self.nodes = QueueNodes(self.scene, self.settings.nodes) if self.settings.nodes else None
        self.scene.add("admin", self._admin)
        if self.nodes is not None:
            self.scene.run(0.3)
            if not self.do(self.nodes.create(self.admin), 15):
                self.world.fail("E4: the queue's shard could not be created")
        for number in range(1, self.settings.members + 1):
            name = f"m{number}"
            self.scene.servers.append(name)
            self.urls.append(f"http://{name}:{PORT}")
            self.scene.add(name, self._member)
        self.scene.run(1.0)
        self._create()
        for number in range(1, self.settings.clients + 1):
            self.scene.clients.append(f"c{number}")
            self.scene.add(f"c{number}", lake_program(self, number))

    # Programs

    async def _member(self, life: Life) -> None:
        """Run one member, like `penstock lake serve`."""
        ports = life.ports
        assert ports.open_store is not None
        async with (
            self._log_of(life) as log,
            ports.open_store(STORE) as store,
            serving_lake(
                QuorumQueue(log, clock=ports.clock.time_ns),
                store,
                STORE,
                secret=SECRET,
                name=life.name,
                checkpoint_span=self.settings.checkpoint_span,
                options=TreeOptions(cache_bytes_max=1 << 20, threads_max=2),  # alike on every machine
                ports=ports,
            ) as lake,
            await HttpServer.start(
                lake_app(lake, Credentials(KEY, SECRET, ports.clock), STORE, ports=ports), life.name, PORT, name="lake"
            ),
        ):
            self.services[life.name] = lake
            reason = await lake.engine.host.ended()
            if not self.may_stop:
                self.world.fail(f"E4: member {life.name} stopped: {reason}")
            raise Unavailable(f"the member has stopped: {reason}")

    def _log_of(self, life: Life) -> Any:
        """Return what connects a member with its queue."""
        return self.nodes.client(life) if self.nodes is not None else nullcontext(SimulatedLog(self.log, life))

    async def _admin(self, life: Life) -> None:
        await life.loop.create_future()

    # For clients

    @property
    def is_written(self) -> bool:
        """Return whether clients change nothing more."""
        return self.is_over or len(self.ledger.writes) >= self.settings.changes

    def place(self, rng: Random) -> tuple[str, str]:
        """Draw a repository and a branch of it."""
        return rng.choice(self.repositories), rng.choice(BRANCHES)

    # For the judge

    @property
    def admin(self) -> Life:
        life = self.scene.life("admin")
        assert life is not None
        return life

    def lake(self, member: int = 0) -> AsyncLake:
        """Return a client of a member, for the admin's process."""
        return AsyncLake(LakePlace(self.urls[member], KEY, SECRET), self.admin.ports)

    def do(self, work: Any, seconds: float) -> Any:
        return self.scene.do(self.admin, work, seconds)

    def _create(self) -> None:
        async def create() -> bool:
            async with self.lake() as lake:
                for name in self.repositories:
                    repository = lake.repository(name)
                    await repository.create()
                    for branch in BRANCHES[1:]:
                        await repository.create_branch(branch, "main")
                    self.ledger.names[name].update(BRANCHES)
            return True

        if not self.do(create(), 20):
            self.world.fail("E4: repositories could not be created")
        self.world.check()

    def trouble_log(self, rng: Random) -> None:
        """Let the queue fail now and then."""
        trouble, kind = self.log.trouble, self.settings.queue_trouble
        begin, lasts = rng.uniform(0.5, self.settings.run_s), rng.choice((0.3, 2.0, 8.0))

        def begins() -> None:
            if self.scene.is_calm:
                return
            match kind:
                case "away":
                    trouble.is_away = True
                case "fails":
                    trouble.unavailable, trouble.indeterminate = rng.choice((0.1, 0.5)), rng.choice((0.1, 0.4))
                case _:
                    trouble.lag_ns = rng.choice((50, 1_500)) * 1_000_000
            self.scene.mend_later(int(lasts * SECOND), trouble.heal)

        if kind:
            self.world.after(int(begin * SECOND), begins)
