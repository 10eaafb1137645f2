"""Processes and machines. A machine has clocks, a disk and a name; a process is one life of a program on it.

W5. Kill: the loop never turns again, links reset, descriptors close, the page cache stays. Power loss: unsynced bytes
and names are kept, torn or dropped as well. Freeze: no turn and no worker, links fill. A dead process's tasks are kept
to the end of the world. A machine has at most one process at a time, which is the lock of its folder.
"""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.plumbing.ports.ports import Ports
from penstock_lab.world.loop import LEARN_NS, WORKER_NS, NodeLoop
from penstock_lab.world.ports.clocks import MachineClock, SeededChance
from penstock_lab.world.ports.disk import SimulatedDisk
from penstock_lab.world.ports.files import Files
from penstock_lab.world.ports.workers import SimulatedWorkers

if TYPE_CHECKING:
    from penstock_lab.world.ports.links import Links
    from penstock_lab.world.world import World

__all__ = ["Computer", "Life", "Main"]

Main = Callable[["Life"], Coroutine[Any, Any, None]]
FOLDER: Final = Path("/data")


class Computer:
    """A machine: it outlives its processes."""

    def __init__(self, world: "World", links: "Links", name: str) -> None:
        self.world = world
        self.links = links
        self.name = name
        self.rng = world.random(f"machine {name}")
        self.clock = MachineClock(world, self.rng)
        self.files = Files(world, name, self.rng)
        self.files.install(FOLDER)
        self.stores: Callable[[Life], Callable[[str], Any]] | None = None  # makes a process's object stores
        self.is_on = True
        self.process: Life | None = None
        self.lives = 0

    def start(self, main: Main, *, on_end: Callable[["Life"], None] = lambda _: None) -> "Life":
        """Start a life of a program. Only one lives at a time."""
        assert self.process is None or self.process.is_dead, f"{self.name} runs already"
        self.is_on = True
        self.lives += 1
        self.process = Life(self, on_end)
        self.process.begin(main)
        return self.process

    def lose_power(self) -> None:
        """Everything that was not synced may be gone, and the process with it. The machine starts again when told."""
        if self.process is not None:
            self.process.die(speaks=False)
        self.is_on = False
        self.files.lose_power()
        self.clock.reboot()
        self.world.note(self.name, "machine", "loses power")


class Life:
    """One life of a program."""

    def __init__(self, machine: Computer, on_end: Callable[["Life"], None]) -> None:
        self.machine = machine
        self.folder = FOLDER  # its data folder, on the machine's disk
        self.world = machine.world
        self.name = machine.name
        self.life = machine.lives
        self.rng = machine.world.random(f"{machine.name} life {self.life}")
        self.clock = machine.clock
        self.world_links = machine.links
        self.is_dead = False
        self.is_frozen = False
        self.busy_until_ns = 0  # the loop's thread waits for the disk
        self.error: BaseException | None = None  # with which its program ended
        self._on_end = on_end
        self._thawing: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._waited_ns: int | None = None  # disk time of the worker call that runs now
        self.open_links: dict[Any, None] = {}
        self.disk = SimulatedDisk(self, machine.files)
        self.loop = NodeLoop(self)
        chance = SeededChance(self.rng)
        stores = machine.stores(self) if machine.stores is not None else None
        self.ports = Ports(self.clock, self.disk, chance, stores, SimulatedWorkers(self))
        self.task: Any = None
        self.world.processes.append(self)

    def begin(self, main: Main) -> None:
        self.world.note(self.name, "process", f"begins life {self.life}")
        self.task = self.loop.create_task(main(self), name=f"{self.name} main")
        self.task.add_done_callback(self._ended)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> Any:
        """Start a task of this process from outside: it runs in the process's own turns."""
        return self.loop.create_task(work, name=name)

    def note(self, port: str, operation: str, data: bytes | bytearray | memoryview = b"") -> None:
        self.world.note(self.name, port, operation, data)

    # Waiting

    def wait_for_disk(self, nanoseconds: int) -> None:
        """A call of the disk took this long: a worker's result comes later, or the loop's next turn does."""
        if self._waited_ns is not None:
            self._waited_ns += nanoseconds
        else:
            self.busy_until_ns = max(self.busy_until_ns, self.world.now_ns) + nanoseconds

    def work(self, call: Callable[[], Any], done: Callable[[BaseException | None, Any], None]) -> None:
        """Do something in a thread: as one event, later; its result arrives after the time its disk calls took."""
        self.later(self.rng.randint(*WORKER_NS), self._work, call, done)

    def _work(self, call: Callable[[], Any], done: Callable[[BaseException | None, Any], None]) -> None:
        error, result = None, None
        self._waited_ns = 0
        try:
            result = call()
        except Exception as caught:
            error = caught
        waited, self._waited_ns = self._waited_ns, None
        self.later(waited + self.rng.randint(*LEARN_NS), done, error, result)

    def later(self, delay_ns: int, call: Callable[..., Any], *args: Any) -> None:
        """Do something for this process, unless it dies before; not while it is frozen."""
        self.world.after(delay_ns, self._alive, call, args)

    def _alive(self, call: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if self.is_frozen:
            self._thawing.append((self._alive, (call, args)))
        elif not self.is_dead and not self.world.is_over:
            call(*args)

    def when_thawed(self, call: Callable[..., Any], *args: Any) -> None:
        self._thawing.append((call, args))

    # Faults, and the end

    def freeze(self) -> None:
        if not self.is_frozen and not self.is_dead:
            self.world.note(self.name, "process", "freezes")
            self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen and not self.is_dead:
            self.world.note(self.name, "process", "thaws")
            self.is_frozen = False
            calls, self._thawing = self._thawing, []
            for call, args in calls:
                self.world.after(0, call, *args)

    def kill(self) -> None:
        """End this life at once, like SIGKILL: the kernel closes its links and files."""
        if not self.is_dead:
            self.world.note(self.name, "process", "killed")
            self.die(speaks=True)

    def die(self, *, speaks: bool) -> None:
        """End this life. `speaks`: the machine still runs, and tells the peers."""
        if self.is_dead:
            return
        self.is_dead = True
        self._thawing.clear()
        self.disk.close_all()
        self.world_links.drop(self, speaks=speaks)
        self.world.after(0, self._on_end, self)

    def _ended(self, task: Any) -> None:
        if self.is_dead:
            return
        self.error = None if task.cancelled() else task.exception()
        self.world.note(self.name, "process", f"ends {type(self.error).__name__}")
        self.world.tell(self.name, f"process  ended with {self.error!r}")
        self.die(speaks=True)
