"""Faults by name. Each draws its victim and its time, and ends again; the calm ends those that are left.

A world draws some of them for each seed, so that some seeds are quiet and some are bad (a swarm).
"""

import errno
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock_lab.world.ports.files import DiskTrouble
from penstock_lab.world.process import FOLDER
from penstock_lab.world.scene import SECOND, Scene

__all__ = ["ABOUT_FAULTS", "FAULTS", "WorldFault", "check_faults", "plan"]

MS: Final = 1_000_000
Do = Callable[[Scene, Random], None]


class WorldFault(msgspec.Struct, frozen=True):
    """A kind of fault."""

    about: str
    do: Do
    loses_unsynced: bool = False  # bytes that were not synced may be lost, on every replica
    ends_replicas: bool = False  # a replica starts again, without its unsynced bytes
    damages: bool = False  # it excuses the loss of a copy: it meets one server of a world only


def check_faults(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names, or raise `InvalidArgument` that lists the known ones."""
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise InvalidArgument(f"no fault {unknown[0]!r}: the faults are {', '.join(FAULTS)}")
    return tuple(dict.fromkeys(names))


def plan(scene: Scene, names: Sequence[str], *, begin_s: float, end_s: float, count: int = 3) -> None:
    """Let each fault happen up to `count` times between two times.

    Each occurrence has a name, like `kill#2`, and draws of its own: those that `shrink` leaves out change no other one.
    """
    world = scene.world
    for name in names:
        rng = world.random(f"fault {name}")
        for number in range(1, rng.randint(1, count) + 1):
            at, label = int(rng.uniform(begin_s, end_s) * SECOND), f"{name}#{number}"
            if label not in world.without:
                world.happened.append(label)
                world.at(at, _do, scene, name, world.random(f"fault {label}"))


def _do(scene: Scene, name: str, rng: Random) -> None:
    if not scene.is_calm:
        FAULTS[name].do(scene, rng)


def _while(rng: Random) -> int:
    """Draw the time that a fault lasts: mostly short, at times longer than every time-out."""
    return int(rng.choice((0.05, 0.5, 2.0, 6.0)) * rng.uniform(0.5, 1.5) * SECOND)


def _kill(scene: Scene, rng: Random) -> None:
    life = scene.life(rng.choice(scene.servers))
    if life is not None:
        life.kill()


def _at_disk(scene: Scene, rng: Random, do: Do) -> None:
    """Do something to a server inside the Nth call of its disk from now on: at any step of any protocol."""
    name, left = rng.choice(scene.servers), rng.randint(1, 60)
    trouble, count = scene.computers[name].files.trouble, [0]
    before = trouble.script

    def at(operation: str, path: str) -> int:
        count[0] += 1
        if count[0] == left and not scene.is_calm:
            trouble.script = before
            scene.world.note(name, "disk", f"dies at {operation} {path}")
            do(scene, _Always(name))
            return errno.EIO
        return before(operation, path)

    trouble.script = at


class _Always(Random):
    """Draws one server; everything else as a generator does."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._name = name

    def choice(self, seq: Any) -> Any:
        return self._name if self._name in seq else super().choice(seq)

    def random(self) -> float:
        return 0.5


def _kill_all(scene: Scene, rng: Random) -> None:
    for name in scene.servers:
        life = scene.life(name)
        if life is not None:
            life.kill()


def _power(scene: Scene, rng: Random) -> None:
    for name in scene.servers if rng.random() < 0.3 else [rng.choice(scene.servers)]:
        scene.hold(name)
        scene.computers[name].lose_power()
        scene.mend_later(_while(rng), lambda name=name: scene.start(name))  # type: ignore[misc]


def _freeze(scene: Scene, rng: Random) -> None:
    life = scene.life(rng.choice(scene.servers))
    if life is not None:
        life.freeze()
        scene.mend_later(_while(rng), life.thaw)


def _drain(scene: Scene, rng: Random) -> None:
    life = scene.life(rng.choice(scene.servers))
    if life is not None:
        life.note("process", "asked to end")
        life.loop.call_soon(life.task.cancel)


def _client_kill(scene: Scene, rng: Random) -> None:
    life = scene.life(rng.choice(scene.clients))
    if life is not None:
        life.kill()


def _cut(scene: Scene, rng: Random) -> None:
    names = [*scene.servers, "keyspace", *scene.clients]
    one = rng.choice(scene.servers)
    others = rng.sample([name for name in names if name != one], rng.randint(1, len(names) - 1))
    ways = rng.choice(("both", "both", "in", "out"))
    pairs = [(one, other) for other in others if ways != "in"] + [(other, one) for other in others if ways != "out"]
    for pair in pairs:
        scene.links.cut(*pair)

    def heal() -> None:
        for pair in pairs:
            scene.links.heal(*pair)

    scene.mend_later(_while(rng), heal)


def _reset(scene: Scene, rng: Random) -> None:
    life = scene.life(rng.choice([*scene.servers, *scene.clients]))
    if life is not None:
        scene.links.reset_some(life, rng.random())


def _clock(scene: Scene, rng: Random) -> None:
    clock = scene.computers[rng.choice([*scene.servers, *scene.clients])].clock
    clock.jump()
    clock.drift()


def _store_away(scene: Scene, rng: Random) -> None:
    for bucket in scene.buckets.values():
        bucket.trouble.is_away = True

    def back() -> None:
        for bucket in scene.buckets.values():
            bucket.trouble.is_away = False

    scene.mend_later(_while(rng), back)


def _store_fails(scene: Scene, rng: Random) -> None:
    for bucket in scene.buckets.values():
        bucket.trouble.fails, bucket.trouble.delay_ns = rng.choice((0.05, 0.5)), (MS, rng.choice((20, 2000)) * MS)
        bucket.trouble.listing_lag_ns = rng.choice((0, 3 * SECOND))

    def well() -> None:
        for bucket in scene.buckets.values():
            bucket.trouble.heal()

    scene.mend_later(_while(rng), well)


def _disk(scene: Scene, rng: Random, change: Callable[[DiskTrouble], None]) -> None:
    """Let something be wrong with a disk, or with all of them, for a while."""
    for name in scene.servers if rng.random() < 0.3 else [rng.choice(scene.servers)]:
        trouble = scene.computers[name].files.trouble
        scene.world.note(name, "disk", "begins to fail")
        change(trouble)
        scene.mend_later(_while(rng), trouble.heal)


def _disk_full(scene: Scene, rng: Random) -> None:
    def change(trouble: DiskTrouble) -> None:
        trouble.is_full, trouble.full_code = True, rng.choice((errno.ENOSPC, errno.EDQUOT))

    _disk(scene, rng, change)


def _disk_slow(scene: Scene, rng: Random) -> None:
    def change(trouble: DiskTrouble) -> None:
        trouble.sync_ns = (MS, rng.choice((50, 500, 3000)) * MS)

    _disk(scene, rng, change)


def _short_writes(scene: Scene, rng: Random) -> None:
    def change(trouble: DiskTrouble) -> None:
        trouble.short_writes = 0.5

    _disk(scene, rng, change)


def _write_fails(scene: Scene, rng: Random) -> None:
    def change(trouble: DiskTrouble) -> None:
        trouble.write_code = errno.EIO

    _disk(scene, rng, change)


def _read_fails(scene: Scene, rng: Random) -> None:
    def change(trouble: DiskTrouble) -> None:
        trouble.read_code = errno.EIO

    _disk(scene, rng, change)


def _sync_fails(scene: Scene, rng: Random) -> None:
    trouble = scene.computers[scene.victim].files.trouble
    scene.world.note(scene.victim, "disk", "begins to lose unsynced bytes")
    trouble.sync_code = errno.EIO
    scene.mend_later(_while(rng), trouble.heal)


def _flip(scene: Scene, rng: Random) -> None:
    """Change one byte of the data of one server between two lives: what a program reads again must be checked."""
    name = scene.victim
    life, files = scene.life(name), scene.computers[name].files
    if life is not None:
        life.kill()
    scene.hold(name)
    scene.mend_later(_while(rng), lambda: scene.start(name))
    paths = [path for path in files.walk(FOLDER) if files.file(path).data and path.parent != FOLDER]
    if paths:
        path = rng.choice(paths)
        files.flip(path, rng.randrange(len(files.file(path).data)))


def _keyspace(scene: Scene, rng: Random, unavailable: float, indeterminate: float) -> None:
    trouble = scene.keyspace.trouble
    trouble.unavailable, trouble.indeterminate = unavailable, indeterminate
    scene.mend_later(_while(rng), trouble.heal)


def _lag(scene: Scene, rng: Random) -> None:
    scene.keyspace.trouble.lag_ns = (MS, rng.choice((200, 1500)) * MS)
    scene.mend_later(_while(rng), scene.keyspace.trouble.heal)


def _session(scene: Scene, rng: Random) -> None:
    scene.keyspace.end_lease_of(rng.choice(scene.servers))


FAULTS: Final[dict[str, WorldFault]] = {
    "kill": WorldFault("a server is killed, as by SIGKILL", _kill, loses_unsynced=True),
    "kill-all": WorldFault("every server is killed at once", _kill_all, loses_unsynced=True),
    "power": WorldFault("a machine loses power, or all do; unsynced bytes and names may be gone", _power, True),
    "kill-at": WorldFault(
        "a server is killed inside a call of its disk", lambda scene, rng: _at_disk(scene, rng, _kill), True
    ),
    "power-at": WorldFault(
        "a machine loses power inside a call of its disk", lambda scene, rng: _at_disk(scene, rng, _power), True
    ),
    "freeze": WorldFault("a server does nothing for a while, and does not know", _freeze),
    "drain": WorldFault("a server is asked to end, as by SIGTERM", _drain),
    "client-kill": WorldFault("a client is killed", _client_kill),
    "cut": WorldFault("a server is cut off from some others, one way or both", _cut),
    "reset": WorldFault("connections break", _reset),
    "clock": WorldFault("the time of day jumps by up to an hour, and clocks run 1 % wrong", _clock),
    "store-away": WorldFault("object stores are away", _store_away),
    "store-fails": WorldFault("object stores fail some calls, are slow, and list late", _store_fails),
    "disk-full": WorldFault("a disk has no room, or all have none", _disk_full),
    "disk-slow": WorldFault("syncs take up to 3 s", _disk_slow),
    "short-writes": WorldFault("half of all writes take a part of their bytes only", _short_writes),
    "write-fails": WorldFault("every write of a disk fails, or of all disks", _write_fails, ends_replicas=True),
    "read-fails": WorldFault("every read of a disk fails, or of all disks", _read_fails, ends_replicas=True),
    "sync-fails": WorldFault("one server's syncs fail, and lose its unsynced bytes", _sync_fails, damages=True),
    "flip": WorldFault("one server is killed, and a byte of its data changes", _flip, damages=True),
    "keyspace-unavailable": WorldFault(
        "the KeySpace refuses some requests; nothing was written",
        lambda scene, rng: _keyspace(scene, rng, rng.choice((0.1, 0.5)), 0.0),
    ),
    "keyspace-indeterminate": WorldFault(
        "the KeySpace leaves some requests without an answer",
        lambda scene, rng: _keyspace(scene, rng, 0.0, rng.choice((0.1, 0.5))),
    ),
    "keyspace-lag": WorldFault("watches lag by up to 1.5 s, and show many changes at once", _lag),
    "compaction": WorldFault("the KeySpace forgets its history", lambda scene, _: scene.keyspace.compact()),
    "session": WorldFault("a server's lease ends although it believes in it", _session),
}

ABOUT_FAULTS: Final = "Faults of a world, with commas between: " + ", ".join(FAULTS) + "; none. Default: drawn."
