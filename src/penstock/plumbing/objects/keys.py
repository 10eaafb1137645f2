"""Keys: which names an object may have, the same on every store.

A key which one store takes and another does not, or which two stores spell differently, is refused before it reaches
any of them. Kept by every store: no key is the folder of another (`a` and `a/b` cannot both be files), so do not use
such pairs; the local folder refuses them.
"""

import unicodedata

from penstock.kernel.errors import InvalidArgument

__all__ = ["KEY_BYTES_MAX", "RESERVED", "SEGMENT_BYTES_MAX", "SumsKey", "check_key", "check_prefix", "is_key"]

KEY_BYTES_MAX = 900  # S3 and GCS take 1024 bytes, the store's own prefix included
SEGMENT_BYTES_MAX = 255  # what a file name may have
RESERVED = ".penstock"  # the local folder keeps its locks and unfinished objects there

_SUMS = f"{RESERVED}/sums/"
_RULES = "see docs/reference/objectstore.md#keys"


class SumsKey(str):
    """The key of an object's sums, in the folder that is reserved. No request can name one.

    >>> check_key(SumsKey.of("shop/orders/0-1f-ab.gz"))
    '.penstock/sums/shop/orders/0-1f-ab.gz'
    """

    __slots__ = ()

    @classmethod
    def of(cls, key: str) -> "SumsKey":
        """Return the key of the sums of an object."""
        return cls(_SUMS + check_key(key))


def check_key(key: str) -> str:
    """Return the key, or raise `InvalidArgument` with the problem.

    >>> check_key("shop/orders/0-1f-ab.gz")
    'shop/orders/0-1f-ab.gz'
    """
    problem = None if isinstance(key, SumsKey) else _problem(key)  # made of a key that was checked
    if problem:
        raise InvalidArgument(f"{_shown(key)} is no key: {problem}", next_step=_RULES)
    return key


def check_prefix(prefix: str) -> str:
    """The prefix itself, which must be empty or a folder: a key and a slash."""
    if prefix:
        problem = _problem(prefix[:-1]) if prefix.endswith("/") else "it does not end in '/'"
        if problem:
            raise InvalidArgument(f"{_shown(prefix)} is no prefix: {problem}", next_step=_RULES)
    return prefix


def is_key(name: str) -> bool:
    """Return whether a name found in a store could be one of our keys: other programs may write there too."""
    return _problem(name) is None


def _problem(key: str) -> str | None:
    if not key:
        return "it is empty"
    if not key.isascii():
        problem = _unicode_problem(key)
        if problem:
            return problem
    if not key.isprintable() and any(unicodedata.category(char) == "Cc" for char in key):
        return "it has a control character"
    if "\\" in key:
        return "it has a backslash"
    if len(key.encode()) > KEY_BYTES_MAX:
        return f"it is longer than {KEY_BYTES_MAX} bytes"
    segments = key.split("/")
    if segments[0] == RESERVED:
        return f"{RESERVED}/ is reserved"
    return next(filter(None, map(_segment_problem, segments)), None)


def _unicode_problem(key: str) -> str | None:
    try:
        key.encode()
    except UnicodeEncodeError:
        return "it is not valid Unicode"
    if any(ord(char) & 0xFFFE == 0xFFFE for char in key):
        return "it has a code point which is no character"
    if not unicodedata.is_normalized("NFC", key):
        return "it is not in Unicode's normal form C, so it could be spelt in two ways"
    return None


def _segment_problem(segment: str) -> str | None:
    if not segment:
        return "it has an empty segment (a slash at the start, at the end, or twice)"
    if segment.endswith("."):
        return "a segment is '.' or '..', or ends in a dot"
    if len(segment.encode()) > SEGMENT_BYTES_MAX:
        return f"a segment is longer than {SEGMENT_BYTES_MAX} bytes"
    return None


def _shown(key: str) -> str:
    shown = ascii(key)
    return shown if len(shown) <= 80 else shown[:77] + "..."
