"""What a role needs of its machine besides the network, the KeySpace and object stores: clock, disk, chance, workers.

    ports = system_ports()                    # at a composition root: a server, or a client that a user made
    running_broker(..., Wiring(ports=ports))  # handed in from there on

The loop is the port for links and timers (`create_connection`, `create_server`, `call_later`) and for blocking calls
(`run_in_executor`); the KeySpace is a port of its own. Design: rooms.md W7.
"""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

import msgspec

from penstock.plumbing.ports.disk import FileSystem, LocalDisk
from penstock.plumbing.ports.workers import SerialWorkers, SystemWorkers

__all__ = ["Chance", "Clocks", "Ports", "SystemChance", "SystemClocks", "system_ports"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Clocks(Protocol):
    """The clocks of one machine."""

    def monotonic_ns(self) -> int:
        """Return the time since some moment. It never goes back."""
        ...

    def boot_ns(self) -> int:
        """Return a time that also runs while the machine is suspended."""
        ...

    def perf_counter(self) -> float:
        """Return the time in seconds since some moment, as exactly as the machine knows it."""
        ...

    def time_ns(self) -> int:
        """Return the time of day since 1970. It may jump."""
        ...

    def boot(self) -> bytes:
        """Return the id of this start of the machine. Content of the page cache lives that long.

        It is empty if the machine does not tell.
        """
        ...


class SystemClocks:
    """The clocks of this machine."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    perf_counter = staticmethod(time.perf_counter)
    time_ns = staticmethod(time.time_ns)

    def boot_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()

    def boot(self) -> bytes:
        try:
            return _BOOT_ID.read_bytes().strip()
        except OSError:
            return b""


class Chance(Protocol):
    """Randomness."""

    def generator(self) -> Random:
        """Return a new generator, with a state of its own."""
        ...

    def token(self, size: int) -> bytes:
        """Return bytes that cannot be guessed."""
        ...


class SystemChance:
    """The randomness of this machine."""

    token = staticmethod(secrets.token_bytes)

    def generator(self) -> Random:
        return Random()


class Ports(msgspec.Struct, frozen=True):
    """The ports of one process."""

    clock: Clocks
    disk: FileSystem
    chance: Chance
    open_store: Callable[[str], Any] | None = None  # an object store by its URL; None: as `plumbing.objects` opens it
    workers: SerialWorkers = msgspec.field(default_factory=SystemWorkers)


def system_ports() -> Ports:
    """Return the ports of this machine."""
    return Ports(SystemClocks(), LocalDisk(), SystemChance())
