"""The garbage collector of the simulated lake: fence, mark, condemn, sweep. Design: lake.md L15.

Two of them run at the same time, each slow and now and then frozen between two steps: a zombie sweeper is harmless.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from penstock.kernel.ids import MILLISECOND
from penstock.kernel.probes import reached
from penstock.lake.core.staging.proposing.port import RefsRead, Write
from penstock.lake.core.staging.records import CommitId, Condemn, GcFence, Instance
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.snapshot import SnapshotRefs
from penstock_lab.sim.checkers.lake_shelf import CheckedShelf
from penstock_lab.sim.workloads.lake_clients import Pause, SimLakeClient

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["collect", "condemnable", "mark"]

REPOSITORY = Instance("r1")


def collect(client: SimLakeClient) -> Generator[Any, Any, None]:
    """Run the collector once."""
    habits = client.workload.parts.habits
    machine = client.peek()
    if machine is None or REPOSITORY not in machine.repositories:
        return
    early = (yield RefsRead("repo")) if not habits.marks_after_fence else None
    yield Pause(int(client.rng.random() * 5 * MILLISECOND) if early else 1)
    gce = machine.repositories[REPOSITORY].gce
    if habits.fences:
        fenced = yield Write(GcFence(client.request(machine), REPOSITORY))
        if not isinstance(fenced, Result) or fenced.status is not Status.OK:
            return
        gce = int(fenced.detail)
    refs = early or (yield RefsRead("repo"))
    if not isinstance(refs, SnapshotRefs):
        return
    expired = choose(client, refs)
    orphans = [each for each in client.workload.shelf.commits if each not in client.workload.checks.ever_heads]
    later = yield RefsRead("repo")  # all of these orphans were built by then
    if not isinstance(later, SnapshotRefs):
        return
    earlier = [(0, orphans)] if habits.condemns_young else client.workload.orphans
    expired += [commit for commit in condemnable(earlier, gce) if commit in orphans and commit not in refs.expired]
    client.workload.orphans.append((later.gce, orphans))
    marked = mark(client.workload.shelf, refs, retained(client, refs, expired))
    yield Pause(int(client.rng.random() * client.rng.choice((1, 30)) * MILLISECOND))
    if habits.condemns:
        condemned = yield Write(Condemn(client.request(machine), REPOSITORY, gce, tuple(expired)))
        if not isinstance(condemned, Result) or condemned.status is not Status.OK:
            return
        reached("lake.condemned")
    yield Pause(int(client.rng.random() * client.rng.choice((1, 30)) * MILLISECOND))
    sweep(client, marked, gce - 1 if habits.sweeps_by_epoch and habits.fences else gce + 1)


def choose(client: SimLakeClient, refs: SnapshotRefs) -> list[CommitId]:
    """Commits to give up: what nothing refers to, and the older ones of the rest."""
    shelf, rng = client.workload.shelf, client.rng
    held = {snapshot.head for snapshot in refs.branches.values()} | {tag.commit for tag in refs.tags.values()}
    reachable = {ancestor for commit in held for ancestor in shelf.ancestors(commit)}
    known = [commit for commit in client.workload.checks.ever_heads if commit not in refs.expired]
    return [commit for commit in known if commit not in held and (commit not in reachable or rng.random() < 0.5)]


def condemnable(earlier: "Iterable[tuple[int, list[CommitId]]]", gce: int) -> "dict[CommitId, None]":
    """Return commits that earlier runs found without a branch and that can never be performed any more."""
    return {commit: None for seen, orphans in earlier if seen <= gce - 2 for commit in orphans}


def retained(client: SimLakeClient, refs: SnapshotRefs, expired: "Iterable[CommitId]") -> list[CommitId]:
    """Commits whose objects are kept: all that were ever shown, without those given up."""
    gone = {*expired, *refs.expired}
    return [commit for commit in client.workload.checks.ever_heads if commit not in gone]


def mark(shelf: CheckedShelf, refs: SnapshotRefs, kept: "Iterable[CommitId]") -> set[str]:
    """Return all referenced objects: of areas, heads, tags, retained commits."""
    marked: set[str] = set()
    for snapshot in refs.branches.values():
        for batch in snapshot.staged():
            marked.update(batch.column("address").to_pylist())
    heads = [snapshot.head for snapshot in refs.branches.values()]
    for commit in [*heads, *(tag.commit for tag in refs.tags.values()), *kept]:
        stored = shelf.commits[commit]
        marked.update(stored.ranges.values())
        marked.update(entry.address for entry in stored.tree.values())
    return marked


def sweep(client: SimLakeClient, marked: set[str], before: int) -> None:
    """Delete objects that are unmarked and old enough; then everything referred to must still exist."""
    shelf = client.workload.shelf
    for objects in (shelf.data, shelf.ranges):
        doomed = [name for name, epoch in objects.items() if epoch < before and name not in marked]
        for name in doomed:
            reached("lake.swept")
            del objects[name]
    client.workload.checks.effects.references(client.workload.checks.views[-1])
