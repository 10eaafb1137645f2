"""What a state of the lake shows, as plain dicts: for comparing one position with the next.

The shown tree of a branch is the tree of its head overlaid by its areas in order.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.lake.core.staging.areas.area import StagingArea
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import CommitId, Instance

__all__ = ["BranchView", "LakeView", "Viewer"]

Area = Mapping[str, Entry | None]


@dataclass(frozen=True)
class BranchView:
    """One branch at one position."""

    name: str
    head: CommitId
    tokens: tuple[str, ...]
    areas: tuple[Area, ...]
    shown: Mapping[str, Entry]


@dataclass(frozen=True)
class LakeView:
    """All branches and tags at one position."""

    branches: Mapping[Instance, BranchView]
    tags: Mapping[str, CommitId]
    gce: int


class Viewer:
    """Makes views. Runs never change, so each is read once; a branch which has not changed keeps its view."""

    def __init__(self, tree: Callable[[CommitId], Mapping[str, Entry]]) -> None:
        self._tree = tree
        self._runs: dict[bytes, dict[str, Entry | None]] = {}

    def view(self, machine: StagingMachine, before: LakeView | None) -> LakeView:
        old = {} if before is None else before.branches
        branches = {instance: self._branch(machine, instance, old.get(instance)) for instance in machine.branches}
        tags: dict[str, CommitId] = {}
        gce = 0
        for repository in machine.repositories.values():
            tags |= {tag.name: tag.commit for tag in repository.tags.values()}
            gce = repository.gce
        return LakeView(branches, tags, gce)

    def _branch(self, machine: StagingMachine, instance: Instance, old: BranchView | None) -> BranchView:
        branch = machine.branches[instance]
        areas = tuple(self._area(area) for area in branch.areas)
        if old is not None and (old.head, old.tokens, old.areas) == (branch.head, branch.tokens, areas):
            return old
        shown: dict[str, Entry | None] = dict(self._tree(branch.head))
        for area in areas:
            shown |= area
        live = {path: entry for path, entry in shown.items() if entry is not None}
        return BranchView(branch.name, branch.head, branch.tokens, areas, live)

    def _area(self, area: StagingArea) -> Area:
        rows: Area = {}
        for run in area.runs:
            if run.digest not in self._runs:
                self._runs[run.digest] = dict(run.changes())
            rows = {**rows, **self._runs[run.digest]} if rows else self._runs[run.digest]
        return {**rows, **area.memtable} if area.memtable else rows
