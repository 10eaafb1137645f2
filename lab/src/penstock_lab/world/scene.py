"""A scene: the machines of a world, and programs on them that are started again when they end.

What always holds: a machine runs one life of its program at a time; in the calm no fault is left, and every program
that ended runs again.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from penstock.kernel.errors import PenstockError
from penstock_lab.world.ports.keyspace import KeySpaceServer
from penstock_lab.world.ports.links import Links
from penstock_lab.world.ports.objects import Bucket, SimulatedObjects
from penstock_lab.world.process import Computer, Life, Main
from penstock_lab.world.world import World, WorldFailed

__all__ = ["SECOND", "Scene"]

SECOND: Final = 1_000_000_000
AGAIN_NS: Final = (100_000_000, 2_000_000_000)  # until a supervisor starts a program again
T = TypeVar("T")


async def _nothing(life: Life) -> None:
    """Do nothing, for ever."""
    await life.loop.create_future()


class Scene:
    """Machines, a KeySpace, object stores."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.links = Links(world)
        self.keyspace = KeySpaceServer(world)
        self.buckets: dict[str, Bucket] = {}
        self.computers: dict[str, Computer] = {}
        self.servers: list[str] = []  # that faults may meet
        self.clients: list[str] = []
        self.is_calm = False
        self._rng = world.random("scene")
        self._programs: dict[str, Main] = {}
        self._held: set[str] = set()  # a fault has ended these, and says when they start again
        self._mends: list[Callable[[], None]] = []
        self.links.machines(lambda name: name in self.computers and not self.computers[name].is_on)

    def add(self, name: str, program: Main) -> None:
        """Add a machine with a program, and start it; without a program, if the world is to do without it."""
        computer = self.computers[name] = Computer(self.world, self.links, name)
        computer.stores = self._stores_of
        self.world.happened.append(name)
        if name in self.world.without:
            program = _nothing
        self._programs[name] = program
        self.start(name)

    @property
    def victim(self) -> str:
        """Return the one server that faults may damage, so that no excuse covers two copies."""
        return self.servers[self.world.random("victim").randrange(len(self.servers))]

    def life(self, name: str) -> Life | None:
        """Return the process of a machine, if one runs."""
        life = self.computers[name].process
        return life if life is not None and not life.is_dead else None

    def start(self, name: str) -> None:
        """Start a machine's program, unless it runs."""
        self._held.discard(name)
        if self.life(name) is None:
            self.computers[name].start(self._programs[name], on_end=self._ended)

    def hold(self, name: str) -> None:
        """Leave a machine as it is when its program ends, until `start`."""
        if not self.is_calm:
            self._held.add(name)

    def _ended(self, life: Life) -> None:
        if life.name not in self._held:
            self.world.after(self._rng.randint(*AGAIN_NS), self._again, life)

    def _again(self, life: Life) -> None:
        if life.machine.process is life and life.name not in self._held:
            self.start(life.name)

    # Object stores

    def bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            self.buckets[name] = Bucket(self.world, name)
        return self.buckets[name]

    def _stores_of(self, life: Life) -> Callable[[str], Any]:
        return lambda url: SimulatedObjects(self.bucket(url), life)

    # Faults that end

    def mend_later(self, delay_ns: int, mend: Callable[[], None]) -> None:
        """End a fault after a while, or when the calm begins."""
        self._mends.append(mend)
        self.world.after(delay_ns, self._mend, mend)

    def _mend(self, mend: Callable[[], None]) -> None:
        if mend in self._mends:
            self._mends.remove(mend)
            mend()

    def calm(self) -> None:
        """End all faults, and have every program run."""
        self.is_calm = True
        self.world.note("scene", "scene", "calm")
        for mend in list(self._mends):
            self._mend(mend)
        self.links.heal_all()
        for name in list(self._programs):
            life = self.life(name)
            if life is None:
                self.start(name)
            else:
                life.thaw()

    # Running

    def run(self, seconds: float) -> None:
        self.world.run(lambda: False, until_ns=self.world.now_ns + int(seconds * SECOND))

    def do(self, life: Life, work: Coroutine[Any, Any, T], seconds: float) -> T | None:
        """Run a coroutine in a process; None if it has not ended in time. It must return something else."""
        task = life.spawn(work, "asked by the judge")
        if not self.world.run(task.done, until_ns=self.world.now_ns + int(seconds * SECOND)):
            return None
        try:
            found: T = task.result()
        except PenstockError as error:
            self.world.fail(f"E4: the judge was answered {error!r}")
            raise WorldFailed(self.world.failure) from error
        return found
