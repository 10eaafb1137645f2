"""MachineClock and chance of a simulated machine.

Faults: the monotonic clock runs up to 1 % wrong (adjtimex slews by 0.05 %, virtual machines by more); the wall clock
jumps by up to an hour (a step of NTP); after a power loss the boot id is another.
"""

from random import Random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock_lab.world.world import World

__all__ = ["MachineClock", "SeededChance"]

DRIFT_MAX: Final = 0.01
HOUR_NS: Final = 3_600_000_000_000


class MachineClock:
    """The clocks of one machine, as `Clocks` asks. Monotonic time is what the machine's loops count in, too."""

    def __init__(self, world: "World", rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._rate = 1.0
        self._base_ns = rng.randint(1, 1000) * 1_000_000_000  # the monotonic clock at
        self._since_ns = world.now_ns  # this time of the world
        self._wall_ns = 0  # how wrong the time of day is
        self._boot = rng.randbytes(16)

    def drift(self) -> None:
        """Run at another speed from now on."""
        self._base_ns, self._since_ns = self.monotonic_ns(), self._world.now_ns
        self._rate = 1.0 + self._rng.uniform(-DRIFT_MAX, DRIFT_MAX)

    def jump(self) -> None:
        """The time of day is another one from now on."""
        self._wall_ns = self._rng.randint(-HOUR_NS, HOUR_NS)

    def step(self, nanoseconds: int) -> None:
        """Step the time of day."""
        self._wall_ns += nanoseconds

    def reboot(self) -> None:
        self._boot = self._rng.randbytes(16)

    def world_ns(self, local_ns: float) -> int:
        """Return when the monotonic clock shows a time; not before it has."""
        return self._since_ns + int((local_ns - self._base_ns) / self._rate) + 1

    def monotonic_ns(self) -> int:
        return self._base_ns + int((self._world.now_ns - self._since_ns) * self._rate)

    boot_ns = monotonic_ns

    def perf_counter(self) -> float:
        return self.monotonic_ns() / 1e9

    def time_ns(self) -> int:
        return self._world.epoch_ns + self._world.now_ns + self._wall_ns

    def boot(self) -> bytes:
        return self._boot.hex().encode()


class SeededChance:
    """The randomness of one process: a stream of its own."""

    def __init__(self, rng: Random) -> None:
        self._rng = Random(rng.getrandbits(64))

    def generator(self) -> Random:
        return Random(self._rng.getrandbits(64))

    def token(self, size: int) -> bytes:
        return self._rng.randbytes(size)
