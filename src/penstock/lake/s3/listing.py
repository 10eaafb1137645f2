"""Pages from sorted keys: prefix, delimiter and limit as S3 means them. Pure."""

from collections.abc import Iterable
from typing import TypeVar

__all__ = ["page_of"]

T = TypeVar("T")


def page_of(
    entries: Iterable[tuple[str, T]], *, prefix: str, after: str, delimiter: str, limit: int
) -> tuple[list[tuple[str, T]], list[str], str]:
    """Objects, common prefixes, and what to give as `after` for the rest ("" at the end). The entries are sorted.

    >>> page_of([("a/1", 1), ("a/2", 2), ("b", 3)], prefix="", after="", delimiter="/", limit=1)
    ([], ['a/'], 'a/')
    """
    objects: list[tuple[str, T]] = []
    prefixes: list[str] = []
    last = ""
    for key, value in entries:
        if not key.startswith(prefix) or key <= after or (prefixes and key.startswith(prefixes[-1])):
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        common = key[: cut + len(delimiter)] if cut >= 0 else ""
        if common and after.startswith(common):
            continue  # it was on an earlier page
        if len(objects) + len(prefixes) >= limit:
            return objects, prefixes, last
        last = common or key
        if common:
            prefixes.append(common)
        else:
            objects.append((key, value))
    return objects, prefixes, ""
