"""A lake on a shelf: ranges in a dictionary, so that the pure parts are tested without a store, threads or Parquet."""

from collections.abc import Iterable, Iterator, Mapping
from random import Random

import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.changes import deletes, lay_over, puts
from penstock.lake.core.committed.diff import compare, empty_diff, plan_diff
from penstock.lake.core.committed.entry import empty_entries, entries_from, entry_of
from penstock.lake.core.committed.listing import ListPage, TreeListing
from penstock.lake.core.committed.lookup import entries_at, plan_lookup
from penstock.lake.core.committed.merging.merge import Merged, Strategy, merge_changes
from penstock.lake.core.committed.merging.splice import splice
from penstock.lake.core.committed.metarange import EMPTY, MetaRange, location_of, range_key
from penstock.lake.core.committed.range import frame_of, table_of
from penstock.lake.core.staging.entry import Entry
from penstock_lab.bench.peers.ranges_build import finish_build, pieces_of, plan_build, to_range

SMALL = Chunking(rows_mean=3, rows_max=5, bytes_max=400)  # so that a dozen entries have several ranges

Tree = dict[str, Entry]
Edit = Mapping[str, Entry | None]  # a put, or a deletion


def as_read(table: pa.Table) -> pa.Table:
    """The table as a file would give it: columns which repeat few values are dictionaries."""
    short = {name: table.column(name).dictionary_encode() for name in ("content_type", "metadata")}
    return pa.table({name: short.get(name, table.column(name)) for name in table.column_names})


class Shelf:
    """Stores ranges in a dictionary, and counts reads and writes."""

    def __init__(self, chunking: Chunking = SMALL, job_rows: int = 4) -> None:
        self.files: dict[str, pl.DataFrame] = {}
        self.reads = 0
        self._chunking = chunking
        self._job_rows = job_rows
        self._attempts = 0

    def build(self, parent: MetaRange, changes: pl.DataFrame, sources: Iterable[MetaRange] = ()) -> MetaRange:
        self._attempts += 1
        location = location_of(1, f"attempt-{self._attempts}")
        known = {key: value for tree in (*sources, parent) for key, value in tree.locations.items()}
        jobs = plan_build(parent, changes, self._chunking, self._job_rows)
        pieces = []
        for job in jobs:
            base = [as_read(table_of(self.load(parent, row))) for row in range(job.first, job.last)]
            own = changes.slice(job.start, job.end - job.start)
            encoded = pieces_of(base, own, self._chunking)
            for piece in encoded:
                if piece.id not in known:
                    self.files[range_key(location, piece.id)] = frame_of(piece.table)
            pieces.append([to_range(piece, known, location) for piece in encoded])
        built = finish_build(parent, jobs, pieces)
        built.check()
        return built

    def tree(self, entries: Tree) -> MetaRange:
        return self.build(EMPTY, puts(entries_from(entries.items())))

    def load(self, tree: MetaRange, row: int) -> pl.DataFrame:
        self.reads += 1
        found = tree[row]
        return self.files[range_key(found.location, found.id)]

    def contents(self, tree: MetaRange) -> Tree:
        return tree_of(self._rows(tree, range(len(tree))))

    def diff(self, left: MetaRange, right: MetaRange, prefix: str = "") -> pl.DataFrame:
        parts = [
            compare(overlap, self._rows(left, overlap.left), self._rows(right, overlap.right), prefix=prefix)
            for overlap in plan_diff(left, right, prefix, self._job_rows)
        ]
        return pl.concat([empty_diff(), *parts])

    def lookup(self, tree: MetaRange, paths: pl.Series) -> pl.DataFrame:
        parts = [
            entries_at(self.load(tree, found.row), paths.slice(found.start, found.end - found.start))
            for found in plan_lookup(tree, paths)
        ]
        return pl.concat([empty_entries(), *parts])

    def merge(
        self, base: MetaRange, dest: MetaRange, source: MetaRange, strategy: Strategy = Strategy.REFUSE
    ) -> tuple[MetaRange, Merged]:
        spliced = splice(base, dest, source, self._chunking)
        spliced.tree.check()
        diff = self.diff(spliced.base, spliced.source)
        merged = merge_changes(diff, self.lookup(spliced.dest, diff["path"]), strategy)
        return self.build(spliced.tree, merged.changes, [source, dest]), merged

    def list(self, tree: MetaRange, prefix: str = "", **options: str | int) -> ListPage:
        listing = TreeListing(tree, prefix, **options)  # type: ignore[arg-type]
        while (wanted := listing.wanted()) is not None:
            listing.take(self.load(tree, wanted[1]))
        return listing.page()

    def _rows(self, tree: MetaRange, rows: Iterable[int]) -> pl.DataFrame:
        return pl.concat([empty_entries(), *(self.load(tree, row) for row in rows)])


def tree_of(entries: pl.DataFrame) -> Tree:
    return {path: entry_of(entries, row) for row, path in enumerate(entries["path"])}


def changes_of(edit: Edit) -> pl.DataFrame:
    put = {path: entry for path, entry in edit.items() if entry is not None}
    gone = sorted(path for path, entry in edit.items() if entry is None)
    return lay_over([puts(entries_from(put.items())), deletes(pl.Series(gone, dtype=pl.String))])


def edited(tree: Tree, edit: Edit) -> Tree:
    merged = {**tree, **edit}
    return {path: entry for path, entry in merged.items() if entry is not None}


def entry(content: int, address: str = "", metadata: str = "") -> Entry:
    """An object with that content."""
    return Entry(address or f"data/{content}", content, f"etag-{content}", 1_700_000_000_000_000_000, "", metadata)


ALL_PATHS = [
    f"{folder}{letter}{digit}" for folder in ("", "a/", "b/", "b/ä/") for letter in "cdef" for digit in range(5)
]
# Few contents and addresses: neighbours with equal content, and equal content under other addresses, are common.
ALL_ENTRIES = [
    entry(content, address, metadata)
    for content in range(3)
    for address in ("", "data/x")
    for metadata in ("", '{"a":"1"}')
]
PATHS = st.sampled_from(ALL_PATHS)


def random_tree(count: int, seed: int) -> Tree:
    rng = Random(seed)
    return {path: rng.choice(ALL_ENTRIES) for path in rng.sample(ALL_PATHS, count)}


def random_edit(count: int, seed: int) -> Edit:
    """Puts and deletions, about as many of each."""
    rng = Random(seed)
    return {path: rng.choice([put, None]) for path, put in random_tree(count, seed).items()}


# By number and seed: Hypothesis alone would mostly draw trees of a handful of entries, in which little can go wrong.
TREES = st.builds(random_tree, st.integers(0, 40), st.integers(0, 1 << 32))
EDITS = st.builds(random_edit, st.integers(0, 20), st.integers(0, 1 << 32))


def evolve(shelf: Shelf, tree: Tree, edits: Iterable[Edit]) -> Iterator[tuple[Tree, MetaRange]]:
    """The tree after each edit, as a dictionary and as built from the one before."""
    built = shelf.tree(tree)
    for edit in edits:
        tree, built = edited(tree, edit), shelf.build(built, changes_of(edit))
        yield tree, built
