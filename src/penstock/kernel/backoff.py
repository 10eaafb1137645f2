"""Back-off: how long to wait before the next attempt to connect.

The ceiling doubles with each failure; the pause is drawn evenly between half of it and all of it, so that many clients
of one server do not come back in step. What always holds: half the base <= pause <= pause_ms_max.
"""

from random import Random

__all__ = ["Backoff"]


class Backoff:
    """Pauses between attempts, for one channel."""

    def __init__(self, random: Random, *, base_ms: float = 50.0, pause_ms_max: float = 5_000.0) -> None:
        self._random = random
        self._base_ms = base_ms
        self.pause_ms_max = pause_ms_max
        self.failures = 0

    def pause_ms(self) -> float:
        """Count one more failure; the pause after it."""
        ceiling = min(self._base_ms * 2.0 ** min(self.failures, 62), self.pause_ms_max)
        self.failures += 1
        return self._random.uniform(ceiling / 2, ceiling)

    def reset(self) -> None:
        self.failures = 0
