"""Storage namespaces: which belong to whom, so that no collector ever meets another's objects. Design: D17.

A namespace is `SCHEME://SEGMENT/SEGMENT…`, spelled in one way only. Every member decides at apply whether a new one is
free: no namespace equals, contains or lies in another. The epochs of a deleted repository outlive it: the next
repository in its namespace begins above them. So a late sweep of the old one deletes nothing of the new one, and the
new collector may delete all objects of the old one.
"""

import re
from collections import Counter
from typing import Final

__all__ = ["NAMESPACE_BYTES_MAX", "Namespaces", "is_canonical", "segments"]

NAMESPACE_BYTES_MAX: Final = 1024
RESERVED: Final = "_penstock"  # the lake's own folder

_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f\\]")


def segments(namespace: str) -> tuple[str, ...]:
    """Return the scheme and the parts of the path of any spelling.

    >>> segments("local:///shop//raw/")
    ('local', 'shop', 'raw')
    """
    scheme, _, path = namespace.partition("://")
    return (scheme, *(part for part in path.split("/") if part))


def is_canonical(namespace: str) -> bool:
    """Return whether a namespace has its one spelling and no reserved part.

    >>> is_canonical("s3://bucket/shop"), is_canonical("local:///shop"), is_canonical("local://a/../b")
    (True, False, False)
    """
    scheme, *parts = segments(namespace)
    return (
        bool(parts)
        and _SCHEME.fullmatch(scheme) is not None
        and namespace == f"{scheme}://{'/'.join(parts)}"
        and not {".", "..", RESERVED} & set(parts)
        and _CONTROL.search(namespace) is None
        and len(namespace.encode("utf-8", "surrogatepass")) <= NAMESPACE_BYTES_MAX
    )


class Namespaces:
    """The owners of namespaces. A lookup costs by the depth of one namespace, not by their number."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, ...], list[str]] = {}
        self._at_or_below: Counter[tuple[str, ...]] = Counter()

    def add(self, namespace: str, owner: str) -> None:
        parts = segments(namespace)
        self._owners.setdefault(parts, []).append(owner)
        self._at_or_below.update(_beginnings(parts))

    def remove(self, namespace: str, owner: str) -> None:
        parts = segments(namespace)
        owners = self._owners[parts]
        owners.remove(owner)
        if not owners:
            del self._owners[parts]
        for beginning in _beginnings(parts):
            self._at_or_below[beginning] -= 1
            if not self._at_or_below[beginning]:
                del self._at_or_below[beginning]

    def overlapping(self, namespace: str, *, may_be_equal: bool = False) -> str | None:
        """Return an owner of a namespace that equals, contains or lies in this one."""
        mine = segments(namespace)
        around = (self._owners.get(each) for each in _beginnings(mine) if each != mine or not may_be_equal)
        owners = next((each for each in around if each), None)
        if owners is None and self._at_or_below[mine] > len(self._owners.get(mine, ())):
            owners = next(each for parts, each in self._owners.items() if parts[: len(mine)] == mine != parts)
        return None if owners is None else owners[0]


def _beginnings(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[:count] for count in range(1, len(parts) + 1)]
