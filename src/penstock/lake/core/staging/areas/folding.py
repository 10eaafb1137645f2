"""Fold staged entries into the names of a list: a path, or a folder in place of all paths below it. Design: B2.

A folder is passed over by a search, not row by row, so a folder of a million staged files costs some searches.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from penstock.lake.core.staging.entry import Entry

__all__ = ["StagedBlock", "StagedChanges", "after_prefix", "fold", "folder_in", "name_after"]

PASSED_ROWS: Final = 64  # a folder that fills more of a block than this is left by a search from its end on


class StagedBlock(Protocol):
    """Some staged paths, sorted."""

    paths: list[str]

    def entries(self, rows: Sequence[int]) -> list[Entry]: ...


class StagedChanges(Protocol):
    """The uncommitted changes of a branch: `Overlay` and `SmallOverlay`."""

    def blocks(self, start: str = "", stop: str | None = None) -> Iterator[StagedBlock]: ...

    def covers(self, paths: Sequence[str]) -> list[bool]: ...

    def changed_in(self, start: str, stop: str | None) -> int: ...


def fold(staged: StagedChanges, prefix: str, after: str, delimiter: str, limit: int) -> list[tuple[str, Entry | None]]:
    """Return the names after `after`, sorted, with entries; a folder has none. Fewer than `limit` if that was all."""
    found: list[tuple[str, Entry | None]] = []
    start = name_after(prefix, after, delimiter)
    while start is not None and len(found) < limit:
        start = _fold_from(staged, start, prefix, delimiter, limit, found)
    return found


def _fold_from(
    staged: StagedChanges, start: str, prefix: str, delimiter: str, limit: int, found: list[tuple[str, Entry | None]]
) -> str | None:
    """Add names from a path on; return where to search for more, or none if the page is full or that was all."""
    first = start
    for block in staged.blocks(start, after_prefix(prefix)):
        paths = block.paths
        at = passed = bisect_left(paths, first)
        plain: list[tuple[int, int]] = []  # place among the names, row of the block
        while at < len(paths) and len(found) < limit:
            folder = folder_in(paths[at], prefix, delimiter)
            if folder:
                found.append((folder, None))
                behind = after_prefix(folder)
                if behind is None:
                    limit = 0
                    break
                first, begin = behind, at
                at = bisect_left(paths, first, at)
                passed = at - begin
            else:
                plain.append((len(found), at))
                found.append((paths[at], None))
                at, passed = at + 1, 0
        for (place, row), entry in zip(plain, block.entries([row for _, row in plain]), strict=True):
            found[place] = (paths[row], entry)
        if len(found) >= limit:
            return None
        if passed > PASSED_ROWS:
            return first
    return None


def folder_in(path: str, prefix: str, delimiter: str) -> str:
    """Return the folder below a prefix that stands for a path in a list; empty if the path is shown itself."""
    cut = path.find(delimiter, len(prefix)) if delimiter else -1
    return path[: cut + len(delimiter)] if cut >= 0 else ""


def name_after(prefix: str, after: str, delimiter: str) -> str | None:
    """Return the least path that can be of a name after `after`; none if there is no such path.

    All paths below the folder of `after` are one name, which does not come after it.
    """
    folder = folder_in(after, prefix, delimiter) if after.startswith(prefix) else ""
    first = after_prefix(folder) if folder else after + "\0" if after else ""
    return None if first is None else max(prefix, first)


def after_prefix(prefix: str) -> str | None:
    """Return the first string after all that begin with a prefix; None if there is none.

    >>> after_prefix("a/")
    'a0'
    """
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code == 0xD800:  # surrogates are no characters: they cannot be in a path
            code = 0xE000
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(code)
    return None
