"""What a process says of a shard which is assigned to it. Design: gazette.md 1.8, ReplicaStatus.

It is the value of the assignment's key, so everybody sees it, and it goes with the process.
"""

from enum import Enum

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame

__all__ = ["ShardCode", "ShardStatus"]


class ShardCode(Enum):
    """How far a process is with a shard."""

    IDLE = "idle"  # assigned, and nothing was begun
    STANDBY = "standby"  # ready to take over
    PRIMARY = "primary"  # consumes
    FAILED = "failed"  # cannot, for a reason; it is tried again


class ShardStatus(msgspec.Struct, frozen=True):
    """The code; and why, if it failed."""

    code: ShardCode = ShardCode.IDLE
    reason: str = ""
    failures: int = 0  # in a row

    @property
    def is_ready(self) -> bool:
        """May others leave, because this one serves, or could?"""
        return self.code in (ShardCode.STANDBY, ShardCode.PRIMARY)

    def encode(self) -> bytes:
        return _codec.encode(self)

    @classmethod
    def decode(cls, value: bytes) -> "ShardStatus":
        """Decode an assignment's value. A new assignment has none yet, and a malformed value is no status either."""
        try:
            return _codec.decode(value) if value else cls()
        except MalformedFrame:
            return cls()


_codec = Codec[ShardStatus](ShardStatus)
