"""Format 2 of committed data, as it was: a tree of ranges. The peer of format 3, and the maker of old trees for tests.

Reading, comparing and merging old trees is still the product's; here is what wrote them.
"""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial

import polars as pl

from penstock.lake.core.committed.metarange import (
    EMPTY,
    Location,
    MetaRange,
    Range,
    TreeAddress,
    encode_metarange,
    metarange_key,
    range_key,
)
from penstock.lake.core.committed.range import EncodedRange
from penstock.lake.member.committed import Trees
from penstock.lake.member.committed.building import Progress
from penstock.lake.member.committed.in_order import in_order
from penstock_lab.bench.peers.ranges_build import RangeJob, finish_build, pieces_of, plan_build, to_range

__all__ = ["RangeTrees"]


class RangeTrees(Trees):
    """Trees whose builds write format 2. All else is as in `Trees`."""

    async def build(
        self,
        parent: TreeAddress,
        changes: pl.DataFrame,
        location: Location,
        *,
        sources: Sequence[TreeAddress] = (),
        progress: Progress = lambda done, total: None,
    ) -> TreeAddress:
        """Return the parent overlaid by sorted changes, written and durable."""
        trees = {address: await self.open_ranges(address) for address in (*sources, parent)}
        known = {name: where for tree in trees.values() for name, where in tree.locations.items()}
        chunking = self._options.chunking
        jobs = await self.files.in_thread(lambda: plan_build(trees[parent], changes, chunking))
        write = partial(self._do_job, trees[parent], changes, known, location)
        pieces: list[list[Range]] = []
        in_flight_max = self._options.threads_max * self._options.jobs_per_thread_max
        async with aclosing(in_order(jobs, write, in_flight_max)) as done:
            async for ranges in done:
                pieces.append(ranges)
                progress(len(pieces), len(jobs))
        built = finish_build(trees[parent], jobs, pieces)
        same = next((address for address in trees if address.id == built.id), None)
        return same or await self.save(built, location)

    async def open_ranges(self, address: TreeAddress) -> MetaRange:
        found = await self.files.open(address)
        assert isinstance(found, MetaRange)
        return found

    async def save(self, tree: MetaRange, location: Location) -> TreeAddress:
        """Write the table of contents; its ranges are stored already."""
        if tree.id != EMPTY.id:
            data = await self.files.in_thread(lambda: encode_metarange(tree))
            await self.files.write({metarange_key(location, tree.id): data})
        return TreeAddress(tree.id, location)

    async def _do_job(
        self, parent: MetaRange, changes: pl.DataFrame, known: dict[str, str], location: Location, job: RangeJob
    ) -> list[Range]:
        base = await self.files.fetch([parent[row] for row in range(job.first, job.last)])
        own = changes.slice(job.start, job.end - job.start)

        def make() -> list[tuple[Range, memoryview | None]]:
            return _rows_of(pieces_of(base.tables(), own, self._options.chunking), known, location)

        made = await self.files.in_thread(make)
        await self.files.write({range_key(row.location, row.id): data for row, data in made if data is not None})
        return [row for row, _ in made]


def _rows_of(
    pieces: Sequence[EncodedRange], known: Mapping[str, str], location: Location
) -> list[tuple[Range, memoryview | None]]:
    """Return pieces as rows of a metarange, with the files of those that are not known to be stored."""
    return [(to_range(each, known, location), None if each.id in known else each.to_parquet()) for each in pieces]
