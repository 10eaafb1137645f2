"""What a read sees: head and areas of a branch, captured together when a SYNC was applied. Design: lake.md L6.

A snapshot never changes, and any thread may look things up in it. Committed entries are read through `Tree`, for the
snapshot's own head and no other: head and areas from two positions would show a tree that never was.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Protocol

import msgspec
import pyarrow as pa

from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.areas.index import Overlay, newest
from penstock.lake.core.staging.areas.run import Run
from penstock.lake.core.staging.areas.small_overlay import SmallOverlay
from penstock.lake.core.staging.branch import Tag
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import CommitId, Instance, StagingToken

__all__ = ["Listed", "Refs", "Snapshot", "Tree", "after_prefix"]


class Tree(Protocol):
    """A commit's tree."""

    def get(self, path: str) -> Entry | None:
        """The entry under a path, if there is one."""
        ...

    def scan(self, start: str, stop: str | None) -> Iterator[Sequence[tuple[str, Entry]]]:
        """The entries in [start, stop), sorted, some at a time; asked for no more than is needed."""
        ...


class Listed(msgspec.Struct, frozen=True, array_like=True):
    """One line of a list: an entry, or a common prefix if there is none."""

    path: str
    entry: Entry | None


class Snapshot:
    """A branch at one position of the queue."""

    def __init__(
        self,
        applied: int,
        instance: Instance,
        head: CommitId,
        areas: tuple[StagingArea, ...],
        overlay: Overlay | SmallOverlay,
    ) -> None:
        self.applied = applied
        self.instance = instance
        self.head = head
        self.overlay = overlay
        self.tokens = tuple(StagingToken(area.token) for area in areas)
        self._runs = {area.token: area.runs for area in areas}
        self._last = areas[-1].token

    def __repr__(self) -> str:
        return f"Snapshot({self.instance} at {self.applied}: {self.head} + {len(self.tokens)} areas)"

    def get(self, path: str, tree: Tree) -> Entry | None:
        """Return the entry that the branch shows under a path."""
        staged = self.overlay.find(path)
        return tree.get(path) if staged is None else staged[0]

    def list(
        self, tree: Tree, *, prefix: str = "", after: str = "", delimiter: str = "", limit: int = 1000
    ) -> list[Listed]:
        """Return the paths that the branch shows below a prefix and after `after`, sorted; grouped up to the next
        delimiter.
        """
        stop = after_prefix(prefix)
        start = max(prefix, after + "\0" if after else "")
        cut = after.find(delimiter, len(prefix)) if delimiter and after.startswith(prefix) else -1
        if cut >= 0:  # all paths below the common prefix of `after` are one line, which does not come after it
            start = after_prefix(after[: cut + len(delimiter)]) or start
        listed: list[Listed] = []
        while len(listed) < limit:
            for path, entry in islice(self._shown(tree, start, stop), limit - len(listed)):
                cut = path.find(delimiter, len(prefix)) if delimiter else -1
                if cut >= 0:
                    common = path[: cut + len(delimiter)]
                    listed.append(Listed(common, None))
                    behind = after_prefix(common)
                    if behind is None:
                        return listed
                    start = behind
                    break  # paths below the common prefix are skipped, not read
                listed.append(Listed(path, entry))
            else:
                break
        return listed

    def changes(self, tokens: Sequence[StagingToken] | None = None) -> pa.RecordBatch:
        """Return the newest change of each path in these sealed areas (without tokens, of all uncommitted changes),
        sorted.
        """
        if tokens is None:
            return self.overlay.batch()
        return self._newest(tokens).batch

    def staged(self) -> Iterator[pa.RecordBatch]:
        """Every row of every area, those hidden by newer ones included: what a garbage collector must mark."""
        for runs in self._runs.values():
            yield from (run.batch for run in runs)
        yield self.overlay.top()

    def rows(self, tokens: Sequence[StagingToken]) -> dict[str, Entry | None]:
        """The same as a dict: for small areas and for tests."""
        return dict(self._newest(tokens).rows)

    def _newest(self, tokens: Sequence[StagingToken]) -> Run:
        assert self._last not in tokens, "the last area still changes"
        return newest([run for token in tokens for run in self._runs[token]])

    def _shown(self, tree: Tree, start: str, stop: str | None) -> Iterator[tuple[str, Entry]]:
        return merge(self.overlay.entries(start, stop), self._committed(tree, start, stop), key=lambda row: row[0])

    def _committed(self, tree: Tree, start: str, stop: str | None) -> Iterator[tuple[str, Entry]]:
        """Yield the committed entries that no uncommitted change hides."""
        for rows in tree.scan(start, stop):
            hidden = self.overlay.covers([path for path, _ in rows])
            for row, is_hidden in zip(rows, hidden, strict=True):
                if not is_hidden:
                    yield row


class Refs(msgspec.Struct, frozen=True):
    """A repository's branches and tags at one position: for lists of names, for ref expressions, and for marking."""

    applied: int
    repository: Instance
    gce: int
    branches: dict[str, Snapshot]
    tags: dict[str, Tag]
    expired: tuple[CommitId, ...]


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
