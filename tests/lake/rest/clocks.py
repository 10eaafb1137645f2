"""The clocks of a test that sets the time of day."""

from penstock.plumbing.ports.ports import Clocks, SystemClocks


class ClockAt:
    """The clocks of this machine, but for the time of day."""

    def __init__(self, now_s: int) -> None:
        self.now_s = now_s
        system: Clocks = SystemClocks()
        self.monotonic_ns, self.boot_ns, self.boot = system.monotonic_ns, system.boot_ns, system.boot
        self.perf_counter = system.perf_counter

    def time_ns(self) -> int:
        return self.now_s * 10**9
