"""Keys as bytes: every backend stores and orders them as UTF-8, which is also the order of Python's strings."""

__all__ = ["prefix_end"]


def prefix_end(prefix: bytes) -> bytes | None:
    """Return the first key after all keys with the prefix; None if there is no such key.

    >>> prefix_end(b"items/"), prefix_end(b"a\\xff"), prefix_end(b"")
    (b'items0', b'b', None)
    """
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None
