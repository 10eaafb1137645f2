"""The state machine of the quorum workload: lists by key. A transaction adds one value, which no other one adds.

The ops are `key value attempt`. The attempt makes every request's bytes its own, so that the checkers know it in any
log; the machine does not look at it.
"""

from zlib import crc32

import msgspec

from penstock.kernel.ids import EntryId

__all__ = ["Lists", "encode_ops"]


def encode_ops(key: bytes, client: str, seq: int, attempt: int) -> bytes:
    """Add `client.seq` to the list of a key.

    >>> encode_ops(b"k", "c", 7, 1)
    b'k c.7 1'
    """
    return b"%s %s.%d %d" % (key, client.encode(), seq, attempt)


class Lists:
    """A list of values per key."""

    def __init__(self) -> None:
        self.lists: dict[bytes, list[bytes]] = {}
        self._sum = 0

    def apply(self, entry: EntryId, ops: bytes) -> int:
        """Add the value; the result is how many there are."""
        key, value, _ = ops.split(b" ")
        values = self.lists.setdefault(key, [])
        values.append(value)
        self._sum = crc32(value, self._sum)
        return len(values)

    def damage(self) -> None:
        """Go wrong, as memory does."""
        self.lists.setdefault(b"s0", []).append(b"wrong")
        self._sum ^= 1

    def checksum(self) -> int:
        return self._sum

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode((self.lists, self._sum))

    def restore(self, data: bytes) -> None:
        kind = tuple[dict[bytes, list[bytes]], int]
        self.lists, self._sum = msgspec.msgpack.decode(data, type=kind) if data else ({}, 0)
