"""Garbage of the lake's service: found, and swept. Design: lake.md L15.

A run raises the epoch (GC_FENCE), marks all that something refers to at a SYNC after the fence, gives up commits that
no branch and no tag reaches any more, or that are older than the retention rules keep (CONDEMN), and only then sweeps.
Of the latter the trees stay, for merges with their descendants. An object is deleted if it is unmarked now, was
unmarked in an earlier run at least `grace_s` ago, and was addressed before the run before this one: nothing can come to
refer to it. So an object is gone after its second run, and what a given-up commit alone had after its fourth. A
collector which dies, or wakes up late, does no harm; of two at the same time one is refused. A dry run reads, and
changes nothing.
"""

from typing import Final

import polars as pl

from penstock.kernel.errors import Overloaded
from penstock.lake.core.staging.records import CommitId, Condemn, GcFence, Instance
from penstock.lake.core.staging.results import Status
from penstock.lake.member.engine import Engine
from penstock.lake.member.garbage.garbage_marks import commit_ids, held_by, listed, mark, reachable
from penstock.lake.member.garbage.garbage_runs import GarbageRun, Runs
from penstock.lake.member.garbage.retention_service import kept_by_rules
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.service import Garbage, Progress, Watch

__all__ = ["GRACE_S", "GarbageCollector"]

GRACE_S: Final = 3600.0
EXAMPLES: Final = 10
CONDEMNED_AT_ONCE: Final = 4_000  # ids in one record
DELETED_AT_ONCE: Final = 500


class GarbageCollector:
    """The part of the service which collects garbage."""

    engine: Engine

    async def find_garbage(self, repository: str) -> Garbage:
        found = await self.engine.repository(repository)
        held, shelf = held_by(self.engine.machine, found), self.engine.shelves.of(found)
        there = await listed(shelf)  # before the trees: objects that come meanwhile are not in it
        reached = await reachable(shelf, held.commits)
        kept = await kept_by_rules(shelf, held.heads, held.tags, reached) - held.expired
        marked = await mark(shelf, held, kept, trees_only=reached - kept)
        unmarked = there.join(marked, on="key", how="anti")
        old = unmarked.filter(pl.col("epoch") < held.gce)
        return _garbage(old, is_dry_run=True, too_young=unmarked.height - old.height)

    async def collect_garbage(
        self, repository: str, *, grace_s: float = GRACE_S, watch: Watch | None = None
    ) -> Garbage:
        tell: Watch = watch or (lambda _: None)
        tell(Progress("fencing"))
        found = await self.engine.repository(repository)
        shelf, instance = self.engine.shelves.of(found), found.instance
        fenced = await self.engine.write(GcFence(self.engine.request(), instance))
        self.engine.judge(fenced, repository)
        gce = int(fenced.detail)
        held = held_by(self.engine.machine, await self.engine.repository(repository))  # after the fence
        tell(Progress("listing"))
        ids = await commit_ids(shelf)
        seen = (await self.engine.repository(repository)).gce  # everything in `ids` was built by then
        there = await listed(shelf)
        runs = await Runs(shelf).known()
        before = _Before(runs, gce, grace_s, self.engine.ports.clock.time_ns() / 1e9)
        reached = await reachable(shelf, held.commits)
        kept = await kept_by_rules(shelf, held.heads, held.tags, reached) - held.expired
        orphans = ids - reached - held.expired
        condemned = orphans & await before.commits(shelf)
        marked = await mark(shelf, held, kept | (orphans - condemned), tell, trees_only=reached - kept)
        tell(Progress("condemning"))
        await self._condemn(instance, gce, sorted(condemned | (reached - kept - held.expired)))
        unmarked = there.join(marked, on="key", how="anti")
        doomed = unmarked.filter(pl.col("epoch") < gce - 1).join(await before.unmarked(shelf), on="key", how="semi")
        await _sweep(shelf, doomed, tell)
        left = unmarked.join(doomed, on="key", how="anti")
        await Runs(shelf).save(seen, left["key"], orphans - condemned)
        await Runs(shelf).forget(runs, before.used)
        return _garbage(doomed, is_dry_run=False, too_young=left.height)

    async def _condemn(self, instance: Instance, gce: int, commits: list[CommitId]) -> None:
        """Write the record also without commits to give up: it proves that no other run has begun, which would have
        forgotten the changes since our fence.
        """
        for first in range(0, max(1, len(commits)), CONDEMNED_AT_ONCE):
            part = tuple(commits[first : first + CONDEMNED_AT_ONCE])
            result = await self.engine.write(Condemn(self.engine.request(), instance, gce, part))
            if result.status is Status.REFUSED:
                raise Overloaded(
                    "another collector is at work, or a commit to give up is referred to again; nothing was swept",
                    next_step="run it again",
                )
            self.engine.judge(result, "condemn")


class _Before:
    """What earlier runs say: objects by the newest which is old enough, commits by the newest of epoch g - 2."""

    def __init__(self, runs: list[GarbageRun], gce: int, grace_s: float, now: float) -> None:
        old = [run for run in runs if run.taken_at <= now - grace_s]
        self._objects = old[-1] if old else None
        self._commits = next((run for run in reversed(old) if run.seen <= gce - 2), None)

    @property
    def used(self) -> list[GarbageRun]:
        """Younger than these are needed by later runs."""
        return [run for run in (self._objects, self._commits) if run is not None]

    async def unmarked(self, shelf: LakeShelf) -> pl.DataFrame:
        if self._objects is None:
            return pl.DataFrame(schema={"key": pl.String()})
        return (await Runs(shelf).read(self._objects))[0]

    async def commits(self, shelf: LakeShelf) -> set[CommitId]:
        if self._commits is None:
            return set()
        return {CommitId(each) for each in (await Runs(shelf).read(self._commits))[1]}


async def _sweep(shelf: LakeShelf, doomed: pl.DataFrame, tell: Watch) -> None:
    keys = doomed["key"].to_list()
    for first in range(0, len(keys), DELETED_AT_ONCE):
        tell(Progress("sweeping", first, len(keys)))
        await shelf.data.delete(*(shelf.folder + key for key in keys[first : first + DELETED_AT_ONCE]))


def _garbage(found: pl.DataFrame, *, is_dry_run: bool, too_young: int) -> Garbage:
    examples = tuple(found["key"].head(EXAMPLES))
    return Garbage(found.height, int(found["size"].sum()), examples, is_dry_run=is_dry_run, too_young=too_young)
