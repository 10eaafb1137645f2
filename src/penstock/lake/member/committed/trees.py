"""Trees in an object store: get, list, diff, build, merge, re-parent, import, graft.

Design: committed.md. The decisions are made in `lake/committed/`; here trees are read, run in threads, and
written. Every call costs in proportion to its changes: untouched ranges are neither read nor written. Whatever a call
returns is durable, so that a PERFORM may name it at once (lake.md, L8); nothing it writes is visible before.

Everything a call writes lies in the `location` it is given, the folder of its attempt. It refers to its own files and
to those that its parent and sources refer to, and to nothing else that happens to exist (L15).
"""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Self

import msgspec
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.changes import empty_changes
from penstock.lake.core.committed.diff import Overlap, batched, compare, empty_diff, only_in, plan_diff, visible
from penstock.lake.core.committed.importing import import_changes, imported_entries
from penstock.lake.core.committed.leaves.graft import plan_graft, put_again, seam_leaves
from penstock.lake.core.committed.leaves.node import Leaves
from penstock.lake.core.committed.leaves.root import Nodes, Root
from penstock.lake.core.committed.leaves.spans import places_of
from penstock.lake.core.committed.merging.merge import Strategy, merge_changes
from penstock.lake.core.committed.merging.reparent import patch_changes, paths_to_patch
from penstock.lake.core.committed.merging.splice import splice
from penstock.lake.core.committed.metarange import Location, MetaRange, TreeAddress
from penstock.lake.member.committed.building import Progress, TreeBuilder
from penstock.lake.member.committed.files import TreeFiles
from penstock.lake.member.committed.in_order import in_order
from penstock.lake.member.committed.options import TreeOptions
from penstock.lake.member.committed.reads import Tree, TreeReads
from penstock.plumbing.objects import ObjectStore

__all__ = ["MergeOutcome", "Progress", "Trees"]


class MergeOutcome(msgspec.Struct, frozen=True):
    """The merged tree; or none, and the paths both sides changed differently."""

    tree: TreeAddress | None
    conflicts: tuple[str, ...] = ()


class Trees(TreeReads):
    """The trees of one repository. For one event loop."""

    def __init__(self, store: ObjectStore, namespace: str = "", options: TreeOptions | None = None) -> None:
        self._options = options or TreeOptions()
        super().__init__(TreeFiles(store, namespace, self._options), self._options.reads_in_flight_max)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.files.close()

    async def diff(
        self, left: TreeAddress, right: TreeAddress, prefix: str = "", *, readdressed: bool = False, start: str = ""
    ) -> AsyncGenerator[pl.DataFrame, None]:
        """Yield the differences in frames, in the order of the paths; with `readdressed` also new addresses.

        Ranges that end before `start` are not read. The first frame may hold paths before it.
        """
        if left.id == right.id:
            return
        one, other = await self._differing(await self.files.open(left), await self.files.open(right), prefix, start)
        async with aclosing(self._differences(one, other, prefix, start)) as parts:
            async for frame in parts:
                shown = frame if readdressed else visible(frame)
                if shown.height:
                    yield shown

    async def _differing(
        self, left: Tree, right: Tree, prefix: str, start: str
    ) -> tuple[MetaRange | Leaves, MetaRange | Leaves]:
        """Return the ranges, or the leaves of nodes, that differ. Trees of two formats differ everywhere."""
        if isinstance(left, Root) and isinstance(right, Root):
            one, other = (
                nodes.of([row for row in nodes.below(prefix) if nodes.max_keys[row] >= start])
                for nodes in (only_in(left.nodes, right.nodes), only_in(right.nodes, left.nodes))
            )
            return await self.files.leaves(one), await self.files.leaves(other)
        return await self.files.all_parts(left), await self.files.all_parts(right)

    async def _differences(
        self, one: MetaRange | Leaves, other: MetaRange | Leaves, prefix: str = "", start: str = ""
    ) -> AsyncGenerator[pl.DataFrame, None]:
        async def part(overlap: Overlap) -> pl.DataFrame:
            old = await self.files.fetch_parts(one.of(list(overlap.left)))
            new = await self.files.fetch_parts(other.of(list(overlap.right)))
            return await self.files.in_thread(lambda: compare(overlap, old.entries(), new.entries(), prefix=prefix))

        overlaps = batched(plan_diff(one, other, prefix, start=start), one, other)
        async with aclosing(in_order(overlaps, part, self._options.threads_max * 2)) as parts:
            async for frame in parts:
                yield frame

    async def build(
        self,
        parent: TreeAddress,
        changes: pl.DataFrame,
        location: Location,
        *,
        sources: Sequence[TreeAddress] = (),
        progress: Progress = lambda done, total: None,
    ) -> TreeAddress:
        """The parent overlaid by sorted changes, written and durable, in format 3."""
        known = {address: await self.files.open(address) for address in (parent, *sources)}
        if not changes.height:
            return parent
        builder = TreeBuilder(self.files, self._options, location, known, progress)
        tree = known[parent]
        if isinstance(tree, MetaRange):
            return await builder.rewrite(tree, changes)
        return await builder.overlay(tree.nodes, changes)

    async def graft(self, parent: TreeAddress, source: TreeAddress, prefix: str, location: Location) -> TreeAddress:
        """The parent with a whole other tree in place of whatever it has below a prefix. Only the seams are read."""
        known = {address: await self.files.open(address) for address in (parent, source)}
        old, new, cut = known[parent], known[source], self._options.leaf_cut
        if not isinstance(new, Root):
            return await self._graft_rows(parent, new, prefix, location)
        if not isinstance(old, Root):  # of format 2: written once, at bulk speed
            made = await TreeBuilder(self.files, self._options, location, known).rewrite(old, empty_changes())
            found = await self.files.open(made)
            old = known[made] = found if isinstance(found, Root) else Root(Nodes.empty(), {})
        plan = plan_graft(old.nodes, new.nodes, prefix, cut)
        seams = seam_leaves(await self.files.leaves(plan.old), prefix)
        last = await self.files.leaves(plan.new)
        rows, more = await self.files.fetch_parts(seams), await self.files.fetch_parts(last)
        changes = await self.files.in_thread(lambda: put_again(rows.entries(), more.entries(), prefix))
        builder = TreeBuilder(self.files, self._options, location, known)
        return await builder.overlay(plan.nodes, changes, places={**places_of(last.frame), **places_of(seams.frame)})

    async def _graft_rows(self, parent: TreeAddress, source: MetaRange, prefix: str, location: Location) -> TreeAddress:
        """The same with a tree of format 2: all its rows are put."""
        rows = await self.files.fetch_parts(source)
        entries = await self.files.in_thread(rows.entries)
        existing = await self.paths_below(parent, prefix)
        return await self.build(parent, import_changes(entries, existing), location)

    async def merge(
        self,
        base: TreeAddress,
        dest: TreeAddress,
        source: TreeAddress,
        location: Location,
        strategy: Strategy = Strategy.REFUSE,
    ) -> MergeOutcome:
        """Lay the source's changes since the base over the destination. Revert and cherry-pick too: see `merge.py`."""
        if dest.id == base.id:
            return MergeOutcome(source)
        if source.id in (base.id, dest.id):
            return MergeOutcome(dest)
        known = {each: await self.files.open(each) for each in (dest, source)}
        old, mine, theirs = await self.files.open(base), known[dest], known[source]
        builder = TreeBuilder(self.files, self._options, location, known)
        cut, chunking = self._options.leaf_cut, self._options.chunking
        if isinstance(old, Root) and isinstance(mine, Root) and isinstance(theirs, Root):
            sides = old.nodes, mine.nodes, theirs.nodes
            nodes = await self.files.in_thread(lambda: splice(sides[0], sides[1], sides[2], cut))
            each = [await self.files.leaves(side) for side in (nodes.base, nodes.dest, nodes.source)]
            leaves = await self.files.in_thread(lambda: splice(each[0], each[1], each[2], cut))
            changes = await self._decided(leaves.base, leaves.source, leaves.dest, strategy)
            if isinstance(changes, MergeOutcome):
                return changes
            places = places_of(leaves.source.frame)
            made = await builder.overlay(nodes.tree, changes, opened=leaves.tree, open_rows=nodes.both, places=places)
        elif isinstance(old, MetaRange) and isinstance(mine, MetaRange) and isinstance(theirs, MetaRange):
            ranges = await self.files.in_thread(lambda: splice(old, mine, theirs, chunking))
            changes = await self._decided(ranges.base, ranges.source, ranges.dest, strategy)
            if isinstance(changes, MergeOutcome):
                return changes
            made = await builder.rewrite(ranges.tree, changes)
        else:
            changes = await self._decided(*await self._differing(old, theirs, "", ""), mine, strategy)
            if isinstance(changes, MergeOutcome):
                return changes
            made = await self.build(dest, changes, location, sources=[source])
        return MergeOutcome(made)

    async def _decided(
        self, base: MetaRange | Leaves, source: MetaRange | Leaves, dest: Tree | Leaves, strategy: Strategy
    ) -> pl.DataFrame | MergeOutcome:
        """Return the changes to lay over the destination, or the conflicts."""
        diff = await self._all_of(self._differences(base, source))
        entries = await self._look_up(dest, diff["path"])
        merged = await self.files.in_thread(lambda: merge_changes(diff, entries, strategy))
        return merged.changes if merged.is_clean else MergeOutcome(None, tuple(merged.conflicts))

    async def reparent(
        self,
        parent: TreeAddress,
        finished: TreeAddress,
        head: TreeAddress,
        location: Location,
        *,
        gone: pl.Series,
        rest: pl.Series,
    ) -> TreeAddress:
        """The new head overlaid by the areas which are left, made from the tree which lost its race (L9).

        `gone` and `rest` are the paths of the announced areas which are no longer, and are still, in the branch.
        """
        diff = await self._all_of(self.diff(parent, head, readdressed=True))
        paths = paths_to_patch(diff, gone, rest)
        patch = patch_changes(paths, await self.get_many(head, paths))
        return await self.build(finished, patch, location, sources=[head])

    async def import_objects(
        self, parent: TreeAddress, listing: Iterable[pa.RecordBatch], destination: str, location: Location
    ) -> TreeAddress:
        """The parent with the listed objects in place of whatever it has below `destination`. No object is copied."""
        imported = await self.files.in_thread(lambda: imported_entries(listing, destination))
        existing = await self.paths_below(parent, destination)
        changes = await self.files.in_thread(lambda: import_changes(imported, existing))
        return await self.build(parent, changes, location)

    async def _all_of(self, diff: AsyncGenerator[pl.DataFrame, None]) -> pl.DataFrame:
        async with aclosing(diff) as parts:
            return pl.concat([empty_diff(), *[frame async for frame in parts]])
