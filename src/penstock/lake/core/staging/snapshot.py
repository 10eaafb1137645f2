"""What a read sees: head and areas of a branch, captured together when a SYNC was applied. Design: lake.md L6.

A snapshot never changes, and any thread may look things up in it. Committed entries are read through `Tree`, for the
snapshot's own head and no other: head and areas from two positions would show a tree that never was.
"""

from collections.abc import Iterator, Sequence
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

__all__ = ["Snapshot", "SnapshotRefs", "Tree"]


class Tree(Protocol):
    """A commit's tree."""

    def get(self, path: str) -> Entry | None:
        """The entry under a path, if there is one."""
        ...


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


class SnapshotRefs(msgspec.Struct, frozen=True):
    """A repository's branches and tags at one position: for lists of names, for ref expressions, and for marking."""

    applied: int
    repository: Instance
    gce: int
    branches: dict[str, Snapshot]
    tags: dict[str, Tag]
    expired: tuple[CommitId, ...]
