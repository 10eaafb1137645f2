"""Sums of what a KeySpace keeps: one for each value, and one digest for all live keys. Design: integrity.md D14.

The digest is the sum of one hash per live key, modulo 2^128. So a change costs two hashes whatever the number of keys,
the order of the keys does not matter, and a compaction changes nothing.
"""

import hashlib
from collections.abc import Iterable
from typing import Final

import google_crc32c

from penstock.kernel.errors import DataDamaged
from penstock.keyspace.core.records import KeyValue

__all__ = ["DIGEST_BYTES", "check_value", "digest_of", "row_hash", "value_sum"]

DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << 128


def value_sum(key: str, value: bytes) -> int:
    """CRC-32C over a key and its value.

    >>> value_sum("a", b"bc") == value_sum("ab", b"c")
    False
    """
    sum_: int = google_crc32c.value(key.encode() + b"\0" + value)
    return sum_


def check_value(entry: KeyValue, expected: int | None, where: str) -> KeyValue:
    """Return the entry, unless its value is not the one that was put. None: an older release put it, without a sum."""
    if expected is not None and value_sum(entry.key, entry.value) != expected:
        raise DataDamaged(
            f"{where}: the value of {entry.key!r} at revision {entry.mod_revision} has another sum than it had",
            next_step=f"penstock fsck {where}",
            key=entry.key,
        )
    return entry


def row_hash(entry: KeyValue) -> int:
    """The hash of one live key."""
    head = f"{entry.create_revision} {entry.mod_revision} {entry.version} {entry.lease} {entry.key}\0".encode()
    return int.from_bytes(hashlib.blake2b(head + entry.value, digest_size=DIGEST_BYTES).digest(), "big")


def digest_of(entries: Iterable[KeyValue]) -> int:
    """The digest of these live keys."""
    return sum(map(row_hash, entries)) % _MODULUS
