"""Mappings: into which journal a message goes.

`modulo` and `rendezvous` keep a key's messages in one journal, and so in order. When journals come or go, `modulo`
moves most keys, `rendezvous` only those of the journal which went, or the new one's share.
"""

from collections.abc import Callable, Sequence
from random import Random

from penstock.kernel.errors import InvalidArgument

__all__ = ["Mapping", "fnv1a_32", "modulo", "random", "rendezvous"]

Mapping = Callable[[bytes], str]  # from a message's key to its journal


def fnv1a_32(data: bytes) -> int:
    """The hash Gazette maps by.

    >>> hex(fnv1a_32(b"foobar"))
    '0xbf9cf968'
    """
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def random(journals: Sequence[str], rng: Random) -> Mapping:
    """Any journal, whatever the key."""
    names = _sorted(journals)
    return lambda _: rng.choice(names)


def modulo(journals: Sequence[str]) -> Mapping:
    """The journal at the place of the key's hash."""
    names = _sorted(journals)
    return lambda key: names[fnv1a_32(key) % len(names)]


def rendezvous(journals: Sequence[str]) -> Mapping:
    """The journal which draws the highest number together with the key."""
    names = _sorted(journals)
    hashes = [fnv1a_32(name.encode()) for name in names]

    def mapped(key: bytes) -> str:
        of_key = fnv1a_32(key)
        return max(zip((of_key ^ of_journal for of_journal in hashes), names, strict=True))[1]

    return mapped


def _sorted(journals: Sequence[str]) -> list[str]:
    if not journals:
        raise InvalidArgument("there is no journal to map to")
    return sorted(set(journals))
