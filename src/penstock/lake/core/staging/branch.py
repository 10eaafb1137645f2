"""Branches, tags and repositories as the state machine holds them. Design: lake.md "State", L11, L14, L15.

A branch is a head and a list of staging areas; it shows the tree of its head overlaid by its areas in order. Only the
last area takes changes.
"""

from collections.abc import Sequence

import msgspec

from penstock.lake.core.refs.protection import ProtectionRule
from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.areas.index import Index, Overlay
from penstock.lake.core.staging.areas.small_overlay import SmallOverlay
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import CommitId, Instance, Request, StagingToken

__all__ = ["Attempt", "Branch", "Repository", "SinkState", "Tag"]


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """A commit on its way (L7). Not a lock: it only says what a PERFORM of it may do."""

    request: Request
    number: int
    instance: Instance
    parent: CommitId
    range: tuple[StagingToken, ...]
    deadline: int
    gce: int  # the link epoch of its files


class SinkState(msgspec.Struct, frozen=True, array_like=True):
    """The last batch of a query on a branch (L14)."""

    batch: int
    end: str
    commit: CommitId


class Tag(msgspec.Struct, frozen=True, array_like=True):
    """A name for a commit."""

    name: str
    instance: Instance
    commit: CommitId


class Branch:
    """One life of a branch."""

    def __init__(
        self,
        instance: Instance,
        repository: Instance,
        name: str,
        head: CommitId,
        areas: Sequence[StagingArea],
        *,
        is_hidden: bool = False,
    ) -> None:
        self.instance = instance
        self.repository = repository
        self.name = name
        self.head = head
        self.is_hidden = is_hidden
        self.sinks: dict[str, SinkState] = {}
        self.areas: list[StagingArea] = []
        self.index = Index()
        self.set_areas(areas)

    @property
    def last(self) -> StagingArea:
        """The area which takes changes."""
        return self.areas[-1]

    @property
    def tokens(self) -> tuple[StagingToken, ...]:
        return tuple(StagingToken(area.token) for area in self.areas)

    @property
    def rows(self) -> int:
        """Return how many rows are uncommitted, overwritten ones included."""
        return sum(map(len, self.areas))

    def item(self) -> tuple[object, ...]:
        """Return the content of its state hash, besides rows and sinks."""
        return "branch", self.instance, self.repository, self.name, self.head, self.tokens, self.is_hidden

    def set_areas(self, areas: Sequence[StagingArea]) -> None:
        """Replace the areas; the index follows."""
        assert areas
        self.areas = list(areas)
        self.index = Index(run for area in areas for run in area.runs)

    def find(self, path: str) -> tuple[Entry | None] | None:
        """The newest staged change of a path: (entry,), (None,) for a tombstone, None if nothing is staged."""
        return self.index.overlay(self.last.memtable).find(path)

    def overlay(self) -> Overlay | SmallOverlay:
        """Return the present uncommitted changes, which stay valid for any time."""
        return self.index.overlay(self.last.share())

    def sum(self) -> int:
        """The areas' part of the state's sum, from their content alone."""
        return sum(area.sum() for area in self.areas)


class Repository:
    """One life of a repository, with what its garbage collector needs."""

    def __init__(
        self, instance: Instance, name: str, storage: str, default_branch: str, *, is_read_only: bool = False
    ) -> None:
        self.instance = instance
        self.name = name
        self.storage = storage
        self.default_branch = default_branch
        self.is_read_only = is_read_only
        self.protection: tuple[ProtectionRule, ...] = ()
        self.branches: dict[str, Branch] = {}
        self.tags: dict[str, Tag] = {}
        self.gce = 1  # the garbage collector's epoch
        self.expired: dict[CommitId, None] = {}  # condemned: never to be referenced again
        self.touched: dict[CommitId, None] = {}  # referenced since the last fence
        self.has_touched_too_many = False  # some are not in `touched`: nothing can be condemned before the next fence

    @property
    def link_floor(self) -> int:
        """The oldest link epoch that may still be linked."""
        return self.gce - 1

    def item(self) -> tuple[object, ...]:
        return (
            "repository",
            self.instance,
            self.name,
            self.storage,
            self.default_branch,
            self.gce,
            self.has_touched_too_many,
            # Only where they are: a state without them has the hash that releases before them gave it.
            *(("read-only",) if self.is_read_only else ()),
            *(("protection", self.protection) if self.protection else ()),
        )
