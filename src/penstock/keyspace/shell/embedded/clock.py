"""The clock which leases run on: monotonic, shared by every process since the machine's start, and named.

A lease's deadline has a meaning only for readers of the same clock, so it is stored with the clock's id: the boot, and
the time namespace, since a container may have one of its own. The wall clock has no say: it jumps.
"""

import os
import time
import uuid
from pathlib import Path
from typing import Final, Protocol

__all__ = ["BootClock", "LeaseClock"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE: Final = "/proc/self/ns/time"


class LeaseClock(Protocol):
    """A clock and its name. Times of equal names compare; others do not."""

    id: str

    def now_ns(self) -> int: ...


class BootClock:
    """Time since the machine started, the time it was suspended included."""

    def __init__(self) -> None:
        self.id = _clock_id()

    def now_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns()


def _clock_id() -> str:
    try:
        boot = _BOOT_ID.read_text().strip()
    except OSError:
        # no shared name for the clock: no other process may read our deadlines by its own
        return f"process {uuid.uuid4()}"
    try:
        return f"boot {boot} {os.readlink(_TIME_NAMESPACE)}"
    except OSError:  # a kernel without time namespaces has one clock
        return f"boot {boot}"
