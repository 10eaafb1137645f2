"""The clock of messages: 60 bits of 100 ns since 1582-10-15, then 4 bits of sequence. Design: exactly-once.md.

A producer's clock only ever rises, and each UUID gets a clock of its own: that is all a reader needs to tell a message
from its duplicate. The world's time is handed in (`updated`); between two looks at it the clock ticks by itself.
"""

from penstock.kernel.ids import Clock

__all__ = ["NO_CLOCK", "TICK", "UNITS_PER_SECOND", "from_unix_ns", "ticked", "to_unix_ns", "updated"]

NO_CLOCK = Clock(0)  # of a message without a UUID
# one microsecond, as in Gazette: UUIDs of one producer differ even for a reader that drops the sequence bits
TICK = 160
UNITS_PER_SECOND = 160_000_000  # 16 of them are 100 ns
CLOCK_MAX = (1 << 64) - 1

_UNIX_EPOCH = 122_192_928_000_000_000  # in 100 ns since the Gregorian calendar began


def from_unix_ns(unix_ns: int) -> Clock:
    """The clock of a moment, its sequence zero.

    >>> hex(from_unix_ns(0))
    '0x1b21dd2138140000'
    """
    return Clock((unix_ns // 100 + _UNIX_EPOCH) << 4)


def to_unix_ns(clock: Clock) -> int:
    """When a message was published, to 100 ns.

    >>> to_unix_ns(from_unix_ns(1_700_000_000_123_456_789))
    1700000000123456700
    """
    return ((clock >> 4) - _UNIX_EPOCH) * 100


def updated(clock: Clock, unix_ns: int) -> Clock:
    """The clock, moved up to the world's time; a world which goes back does not take it along."""
    return max(clock, from_unix_ns(unix_ns))


def ticked(clock: Clock) -> Clock:
    """The next clock."""
    return Clock(clock + TICK)
