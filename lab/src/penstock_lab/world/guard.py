"""The guard: no real door (W6), and no callback that spins (W8).

    with guarded(world):
        ...

A process that opens a socket, starts a program or opens a file outside the installation gets an error with its stack.
So does one that imports a library whose native code opens doors that no audit event shows. A callback that uses more
than 3 s of processor time ends the world: the alarm records where it was, because asyncio swallows exceptions.
"""

import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock_lab.world.world import World

__all__ = ["Ended", "LeftTheWorld", "guarded"]

SECONDS_MAX: Final = 3.0  # of processor time, for one callback
TICKS: Final = 3  # how often the alarm looks in that time
FORBIDDEN: Final = frozenset({"obstore", "grpc", "sqlite3", "pyspark", "apsw", "sqlalchemy", "uvloop"})
_FILES: Final = ("open", "os.listdir", "os.scandir")
_SOCKETS: Final = ("socket.__new__", "socket.connect", "socket.bind", "socket.getaddrinfo")
_PROGRAMS: Final = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn")
_CHANGES: Final = ("os.remove", "os.rename", "os.rmdir", "os.truncate", "os.chmod", "os.mkdir", "shutil.rmtree")
DOORS: Final = frozenset((*_FILES, *_SOCKETS, *_PROGRAMS, *_CHANGES))
_HOMES: Final = tuple(
    {str(Path(__file__).resolve().parents[4]), sys.prefix, sys.base_prefix, sys.exec_prefix}
    | {place for place in sysconfig.get_paths().values() if place}
)

_world: "World | None" = None  # guarded now
_thread = 0
_is_hooked = False


class Ended(KeyboardInterrupt):
    """The world was ended from within a callback. asyncio passes on no other exception of a callback."""


class LeftTheWorld(RuntimeError):
    """A process of a world reached for the real machine."""


@contextmanager
def guarded(world: "World", seconds: float = SECONDS_MAX) -> Iterator[None]:
    """Guard this thread while a world runs in it. `seconds`: the processor time of one callback."""
    global _world, _thread, _is_hooked
    if not _is_hooked:
        sys.addaudithook(_audit)  # it cannot be removed
        sys.meta_path.insert(0, _Imports())
        _is_hooked = True
    assert _world is None, "one world at a time"
    _world, _thread = world, threading.get_ident()
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # of modules that are imported in a world
    before: Any = None
    is_main = threading.current_thread() is threading.main_thread()
    if is_main:
        seen = [0, 0]

        def tick(_: int, frame: FrameType | None) -> None:
            seen[1] = seen[1] + 1 if seen[0] == world.turns else 0
            seen[0] = world.turns
            if seen[1] >= TICKS:
                where = "".join(traceback.format_stack(frame)[-8:])
                world.fail(f"a callback used {seconds:g} s of processor time:\n{where}")
                raise Ended

        before = signal.signal(signal.SIGVTALRM, tick)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds / TICKS, seconds / TICKS)
    try:
        yield
    finally:
        if is_main:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
        _world = None
        sys.dont_write_bytecode = writes_bytecode


def _audit(event: str, args: tuple[Any, ...]) -> None:
    world = _world
    if world is None or event not in DOORS or threading.get_ident() != _thread:
        return
    if event in _FILES and _is_ours(event, args):
        return
    _refuse(world, f"{event} {args[:2]!r}")


def _is_ours(event: str, args: tuple[Any, ...]) -> bool:
    """Return whether a file is only read, and is part of an installed package."""
    path = args[0]
    if isinstance(path, int) or path is None:
        return False
    mode = args[1] if event == "open" and len(args) > 1 else "r"
    flags = args[2] if event == "open" and len(args) > 2 else 0
    if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & 3):
        return False
    name = path.decode(errors="replace") if isinstance(path, bytes) else str(path)
    return name.startswith((*_HOMES, "<")) or "zoneinfo" in name


def _refuse(world: "World", door: str) -> None:
    stack = "".join(traceback.format_stack()[-10:-2])
    world.fail(f"InternalError: {door} left the world\n{stack}")
    raise LeftTheWorld(door)


class _Imports:
    """Refuses libraries whose doors no audit event shows."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        world = _world
        if world is not None and name.partition(".")[0] in FORBIDDEN and threading.get_ident() == _thread:
            _refuse(world, f"import {name}")
