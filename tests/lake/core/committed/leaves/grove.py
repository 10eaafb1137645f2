"""A tree of leaves in dictionaries: the pure parts of format 3 without files, threads or places."""

from collections.abc import Iterable
from random import Random

import polars as pl
import pyarrow as pa
from tests.lake.core.committed.shelf import Edit, Tree, changes_of, edited, entry, tree_of

from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.columns import joined
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.leaves.cut import LeafCut, is_node_key
from penstock.lake.core.committed.leaves.node import LEAF_SCHEMA, Leaves, node_ends, node_ids
from penstock.lake.core.committed.leaves.spans import SpanWork, plan_jobs, touched_nodes
from penstock.lake.core.committed.range import frame_of

SMALL = LeafCut(rows_mean=3, rows_min=4, rows_max=9, bytes_max=700, node_rows_mean=25)


class Grove:
    """Keeps the rows of all leaves by id, and counts those that are read."""

    def __init__(self, cut: LeafCut = SMALL, job_rows: int = 20) -> None:
        self.rows: dict[str, pa.Table] = {}
        self.reads = 0
        self.touched = 0
        self._cut = cut
        self._job_rows = job_rows

    def tree(self, entries: Tree) -> Leaves:
        return self.build(Leaves.empty(), puts(entries_from(entries.items())))

    def build(self, parent: Leaves, changes: pl.DataFrame) -> Leaves:
        """Overlay a tree, opening only the nodes which the plan names."""
        ends = node_ends(parent, self._cut)
        starts = [0, *ends[:-1]]
        closing = parent.frame["max_key"].gather([end - 1 for end in ends])
        closing = closing.filter(pl.Series(is_node_key(closing, self._cut), dtype=pl.Boolean))
        opened = touched_nodes(closing, len(ends), changes)
        rows = [row for node in opened for row in range(starts[node], ends[node])]
        kept = sorted({*range(len(parent))} - {*rows})
        made = self.overlaid(parent.of(rows), changes)
        whole = Leaves(pl.concat([parent.frame[kept], made.frame]).sort("min_key"))
        whole.check()
        return whole

    def overlaid(self, opened: Leaves, changes: pl.DataFrame) -> Leaves:
        parts = [pl.DataFrame(schema=LEAF_SCHEMA)]
        for job in plan_jobs(opened, changes, self._cut, self._job_rows):
            own = changes.slice(job.start, job.end - job.start)
            work = SpanWork(opened.of(slice(job.first, job.last)), own, self._cut)
            self.touched += work.touched
            while not work.is_done:
                tables = [self.load(opened[job.first + row].id) for row in work.wanted()]
                work.take(joined(tables) if tables else None, [each.num_rows for each in tables])
            made = work.made({})
            new = made.leaves.filter(pl.col("pack") == "")
            assert sum(new["count"]) == (made.table.num_rows if made.table is not None else 0)
            assert len(made.neighbours) == new.height
            start = 0
            for id_, count in new.select("id", "count").iter_rows():
                assert made.table is not None
                self.rows[id_] = made.table.slice(start, count)
                start += count
            parts.append(made.leaves.with_columns(pack=pl.lit("written")))
        return Leaves(pl.concat(parts))

    def load(self, id_: str) -> pa.Table:
        self.reads += 1
        return self.rows[id_]

    def contents(self, tree: Leaves) -> Tree:
        tables = [self.rows[id_] for id_ in tree.frame["id"]]
        return tree_of(frame_of(joined(tables))) if tables else {}

    def root(self, tree: Leaves) -> list[str]:
        return node_ids(tree.frame, node_ends(tree, self._cut))


CONTENT = ("id", "min_key", "max_key", "count", "size")


def same_tree(one: Leaves, other: Leaves) -> bool:
    """Return whether two trees have the same leaves, ids and cuts."""
    return one.frame.select(CONTENT).equals(other.frame.select(CONTENT))


PATHS = [f"{folder}{number:03}" for folder in ("a/", "b/", "b/ä/", "") for number in range(60)]
ENTRIES = [entry(content, address) for content in range(3) for address in ("", "data/x", "d" * 150)]


def random_tree(rng: Random, count: int) -> Tree:
    return {path: rng.choice(ENTRIES) for path in rng.sample(PATHS, count)}


def random_edit(rng: Random, tree: Tree, cut: LeafCut = SMALL) -> Edit:
    """A few puts and deletions; node keys and leaf ends are deleted on purpose."""
    edit: dict[str, object] = {path: rng.choice(ENTRIES) for path in rng.sample(PATHS, rng.randrange(8))}
    edit |= dict.fromkeys(rng.sample(PATHS, rng.randrange(8)))
    if tree and rng.randrange(3) == 0:
        paths = pl.Series(sorted(tree))
        keys = paths.filter(pl.Series(is_node_key(paths, cut))).to_list()
        edit |= dict.fromkeys(rng.sample(keys, min(len(keys), 2)))
    if tree and rng.randrange(20) == 0:
        edit |= dict.fromkeys(tree)
    return edit  # type: ignore[return-value]


def histories(seeds: Iterable[int], grove_of: object = Grove) -> int:
    """Build random histories by increments and from scratch; return how many steps differ."""
    wrong = 0
    for seed in seeds:
        rng = Random(seed)
        grove = Grove(job_rows=rng.choice([1, 20, 1000]))
        tree = random_tree(rng, rng.randrange(120))
        built = grove.tree(tree)
        for _ in range(4):
            edit = random_edit(rng, tree)
            tree, built = edited(tree, edit), grove.build(built, changes_of(edit))
            fresh = Grove(job_rows=1000).tree(tree)
            if not same_tree(built, fresh) or grove.contents(built) != tree:
                wrong += 1
                break
    return wrong
