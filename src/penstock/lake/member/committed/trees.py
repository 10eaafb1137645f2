"""Trees in an object store: get, list, diff, build, merge, re-parent, import, graft.

Design: docs/design/committed.md. The decisions are made in `lake/committed/`; here trees are read, run in threads, and
written. Every call costs in proportion to its changes: untouched ranges are neither read nor written. Whatever a call
returns is durable, so that a PERFORM may name it at once (lake.md, L8); nothing it writes is visible before.

Everything a call writes lies in the `location` it is given, the folder of its attempt. It refers to its own files and
to those that its parent and sources refer to, and to nothing else that happens to exist (L15).
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Self

import msgspec
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.build import Job, finish_build, pieces_of, plan_build, to_range
from penstock.lake.core.committed.diff import Overlap, compare, empty_diff, plan_diff, visible
from penstock.lake.core.committed.entry import empty_entries
from penstock.lake.core.committed.graft import Seam, finish_graft, pieces_of_seam, plan_graft
from penstock.lake.core.committed.importing import import_changes, imported_entries
from penstock.lake.core.committed.listing import Listing, ListPage
from penstock.lake.core.committed.lookup import Lookup, entries_at, find_entry, plan_lookup
from penstock.lake.core.committed.merging.merge import Strategy, merge_changes
from penstock.lake.core.committed.merging.reparent import patch_changes, paths_to_patch
from penstock.lake.core.committed.merging.splice import splice
from penstock.lake.core.committed.metarange import Location, MetaRange, Range, TreeAddress, range_key
from penstock.lake.core.committed.range import EncodedRange
from penstock.lake.core.staging.entry import Entry
from penstock.lake.member.committed.files import TreeFiles
from penstock.lake.member.committed.in_order import in_order
from penstock.lake.member.committed.options import TreeOptions
from penstock.plumbing.objects import ObjectStore

__all__ = ["MergeOutcome", "Progress", "Trees"]

Progress = Callable[[int, int], None]  # how much is done, of how much


class MergeOutcome(msgspec.Struct, frozen=True):
    """The merged tree; or none, and the paths both sides changed differently."""

    tree: TreeAddress | None
    conflicts: tuple[str, ...] = ()


class Trees:
    """The trees of one repository. For one event loop."""

    def __init__(self, store: ObjectStore, namespace: str = "", options: TreeOptions | None = None) -> None:
        self._options = options or TreeOptions()
        self.files: Final = TreeFiles(store, namespace, self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.files.close()

    async def get(self, tree: TreeAddress, path: str) -> Entry | None:
        """The entry of one path."""
        contents = await self.files.open(tree)
        row = contents.find(path)
        return None if row is None else find_entry(await self.files.entries(contents[row]), path)

    async def get_many(self, tree: TreeAddress, paths: pl.Series) -> pl.DataFrame:
        """The entries of those paths which the tree has, sorted."""
        return await self._look_up(await self.files.open(tree), paths if paths.is_sorted() else paths.sort())

    async def _look_up(self, contents: MetaRange, paths: pl.Series) -> pl.DataFrame:
        async def part(found: Lookup) -> pl.DataFrame:
            found_in = await self.files.fetch([contents[found.row]])
            asked = paths.slice(found.start, found.end - found.start)
            return await self.files.in_thread(lambda: entries_at(found_in.entries(), asked))

        parts = in_order(plan_lookup(contents, paths), part, self._options.reads_in_flight_max)
        return pl.concat([empty_entries(), *[frame async for frame in parts]])

    async def list_page(
        self, tree: TreeAddress, prefix: str = "", *, after: str = "", delimiter: str = "", limit: int = 1000
    ) -> ListPage:
        """A page of what lies below a prefix."""
        contents = await self.files.open(tree)
        listing = Listing(contents, prefix, after=after, delimiter=delimiter, limit=limit)
        while (row := listing.wanted()) is not None:
            listing.take(await self.files.entries(contents[row]))
        return listing.page()

    async def diff(
        self, left: TreeAddress, right: TreeAddress, prefix: str = "", *, readdressed: bool = False, start: str = ""
    ) -> AsyncGenerator[pl.DataFrame, None]:
        """Yield the differences in frames, in the order of the paths; with `readdressed` also new addresses.

        Ranges that end before `start` are not read. The first frame may hold paths before it.
        """
        one, other = await self.files.open(left), await self.files.open(right)
        async with aclosing(self._differences(one, other, prefix, start)) as parts:
            async for frame in parts:
                shown = frame if readdressed else visible(frame)
                if shown.height:
                    yield shown

    async def _differences(
        self, one: MetaRange, other: MetaRange, prefix: str = "", start: str = ""
    ) -> AsyncGenerator[pl.DataFrame, None]:
        async def part(overlap: Overlap) -> pl.DataFrame:
            old = await self.files.fetch([one[row] for row in overlap.left])
            new = await self.files.fetch([other[row] for row in overlap.right])
            return await self.files.in_thread(lambda: compare(overlap, old.entries(), new.entries(), prefix=prefix))

        overlaps = plan_diff(one, other, prefix, start=start)
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
        """The parent overlaid by sorted changes, written and durable."""
        trees = {address: await self.files.open(address) for address in (*sources, parent)}
        return await self._build_on(trees[parent], changes, location, trees, progress)

    async def _build_on(
        self,
        parent: MetaRange,
        changes: pl.DataFrame,
        location: Location,
        trees: Mapping[TreeAddress, MetaRange],
        progress: Progress = lambda done, total: None,
    ) -> TreeAddress:
        """Overlay ranges of some trees, which may be referred to, and save the result."""
        known = {name: where for tree in trees.values() for name, where in tree.locations.items()}
        chunking = self._options.chunking
        jobs = await self.files.in_thread(lambda: plan_build(parent, changes, chunking))
        write = partial(self._do_job, parent, changes, known, location)
        pieces: list[list[Range]] = []
        in_flight_max = self._options.threads_max * self._options.jobs_per_thread_max
        async with aclosing(in_order(jobs, write, in_flight_max)) as done:
            async for ranges in done:
                pieces.append(ranges)
                progress(len(pieces), len(jobs))
        built = finish_build(parent, jobs, pieces)
        same = next((address for address in trees if address.id == built.id), None)
        return same or await self.files.save(built, location)

    async def _do_job(
        self, parent: MetaRange, changes: pl.DataFrame, known: dict[str, str], location: Location, job: Job
    ) -> list[Range]:
        """Do all the work on the rows of a job in one thread; another thread has another job meanwhile."""
        base = await self.files.fetch([parent[row] for row in range(job.first, job.last)])
        own = changes.slice(job.start, job.end - job.start)

        def make() -> list[tuple[Range, memoryview | None]]:
            pieces = pieces_of(base.tables(), own, self._options.chunking)
            return _rows_of(pieces, known, location)

        return await self._write(await self.files.in_thread(make))

    async def _write(self, made: "list[tuple[Range, memoryview | None]]") -> list[Range]:
        """Store the ranges that are not stored already."""
        await self.files.write({range_key(row.location, row.id): data for row, data in made if data is not None})
        return [row for row, _ in made]

    async def graft(self, parent: TreeAddress, source: TreeAddress, prefix: str, location: Location) -> TreeAddress:
        """The parent with a whole other tree in place of whatever it has below a prefix. Only the seams are read."""
        old, new = await self.files.open(parent), await self.files.open(source)
        chunking, known = self._options.chunking, {**old.locations, **new.locations}
        plan = await self.files.in_thread(lambda: plan_graft(old, new, prefix, chunking))
        made = [await self._do_seam(old, new, prefix, seam, known, location) for seam in plan.seams]
        built = finish_graft(old, new, plan, made)
        same = next((address for address in (parent, source) if address.id == built.id), None)
        return same or await self.files.save(built, location)

    async def _do_seam(
        self, old: MetaRange, new: MetaRange, prefix: str, seam: Seam, known: dict[str, str], location: Location
    ) -> list[Range]:
        rows = await self.files.fetch([old[row] for row in range(seam.first, seam.last)])
        more = await self.files.fetch([new[row] for row in range(seam.start, seam.end)])

        def make() -> list[tuple[Range, memoryview | None]]:
            pieces = pieces_of_seam(prefix, seam, rows.entries(), more.entries(), self._options.chunking)
            return _rows_of(pieces, known, location)

        return await self._write(await self.files.in_thread(make))

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
        trees = {each: await self.files.open(each) for each in (source, dest)}
        old, chunking = await self.files.open(base), self._options.chunking
        spliced = await self.files.in_thread(lambda: splice(old, trees[dest], trees[source], chunking))
        diff = await self._all_of(self._differences(spliced.base, spliced.source))
        entries = await self._look_up(spliced.dest, diff["path"])
        merged = await self.files.in_thread(lambda: merge_changes(diff, entries, strategy))
        if not merged.is_clean:
            return MergeOutcome(None, tuple(merged.conflicts))
        return MergeOutcome(await self._build_on(spliced.tree, merged.changes, location, trees))

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
        contents = await self.files.open(parent)
        rows = await self.files.fetch([contents[row] for row in contents.below(destination)])
        below = pl.col("path").str.starts_with(destination)
        changes = await self.files.in_thread(lambda: import_changes(imported, rows.entries().filter(below)["path"]))
        return await self.build(parent, changes, location)

    async def _all_of(self, diff: AsyncGenerator[pl.DataFrame, None]) -> pl.DataFrame:
        async with aclosing(diff) as parts:
            return pl.concat([empty_diff(), *[frame async for frame in parts]])


def _rows_of(
    pieces: Sequence[EncodedRange], known: Mapping[str, str], location: Location
) -> list[tuple[Range, memoryview | None]]:
    """Return pieces as rows of a metarange, with the files of those that are not known to be stored."""
    return [(to_range(each, known, location), None if each.id in known else each.to_parquet()) for each in pieces]
