"""What may be chosen about a WAL: sizes and limits."""

from typing import Final

import msgspec

from penstock.kernel.errors import ConfigError

__all__ = ["WalOptions"]

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_BYTES_MAX: Final = 1024 * _MIB  # the format has 32 bits for the payload of a batch


class WalOptions(msgspec.Struct, frozen=True):
    """Sizes and limits. None of them is part of the format: each may change from one opening to the next."""

    segment_bytes: int = 64 * _MIB  # how much is reserved at once
    batch_bytes_max: int = 4 * _MIB  # payload of one batch, unless a single append has more
    record_bytes_max: int = 16 * _MIB
    queue_bytes_max: int = 64 * _MIB  # appended and not yet durable
    mark_after_s: float | None = 1.0  # how long the log is idle before its end is marked as durable; None: never

    def check(self) -> None:
        """Raise `ConfigError` for what cannot work."""
        if not 4 * _KIB <= self.segment_bytes <= 4 * _BYTES_MAX:
            raise ConfigError(f"segment_bytes is {self.segment_bytes}: it must be from 4 KiB to 4 GiB")
        if not 1 <= self.record_bytes_max < self.queue_bytes_max:
            raise ConfigError(
                f"record_bytes_max is {self.record_bytes_max}: it must be from 1 to below queue_bytes_max"
            )
        if self.queue_bytes_max + self.batch_bytes_max > _BYTES_MAX:
            raise ConfigError("queue_bytes_max and batch_bytes_max together must not be above 1 GiB")
        if self.batch_bytes_max < 1:
            raise ConfigError(f"batch_bytes_max is {self.batch_bytes_max}: it must be at least 1")
