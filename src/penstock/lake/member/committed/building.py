"""Build a tree of format 3: recut what changes touch, fold, and write packs, an index pack and a root.

Design: committed.md. One `TreeBuilder` is one attempt. Packs are written while later jobs are at their
rows; the last pack, the index pack and the root are one call of the store. Everything lies in the attempt's location.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
import polars as pl
import pyarrow as pa

from penstock.kernel.formats import LAKE_TREE
from penstock.lake.core.committed.columns import rows_of
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.leaves.fold import plan_fold
from penstock.lake.core.committed.leaves.node import LEAF_SCHEMA, Leaves
from penstock.lake.core.committed.leaves.pack import Packer, Sealed, encode_pack, pack_key
from penstock.lake.core.committed.leaves.root import (
    NODE_SCHEMA,
    Nodes,
    Root,
    encode_root,
    nodes_of,
    written_by,
)
from penstock.lake.core.committed.leaves.spans import LeafJob, MadeLeaves, Place, SpanWork, plan_jobs, touched_nodes
from penstock.lake.core.committed.metarange import EMPTY_TREE, Location, MetaRange, TreeAddress, tree_key
from penstock.lake.core.committed.range import table_of
from penstock.lake.member.committed.files import TreeFiles
from penstock.lake.member.committed.in_order import in_order
from penstock.lake.member.committed.options import TreeOptions

__all__ = ["BuildCost", "Progress", "TreeBuilder"]

Progress = Callable[[int, int], None]  # how much is done, of how much

_PLACED: Final = ("pack", "group", "first", "uses")
PACKS_UNDER_WAY: Final = 2  # full packs, while jobs run
FOLD_ROWS: Final = 1 << 16  # copied at once


class BuildCost(msgspec.Struct):
    """What a build did."""

    touched: int = 0  # leaves that changes touched
    folded: int = 0  # leaves copied
    written: int = 0  # leaves, copied ones too
    files: int = 0
    bytes: int = 0


class TreeBuilder:
    """One attempt to build a tree. `known` are trees that it may refer to: its parent and its sources."""

    def __init__(
        self,
        files: TreeFiles,
        options: TreeOptions,
        location: Location,
        known: Mapping[TreeAddress, MetaRange | Root],
        progress: Progress = lambda done, total: None,
    ) -> None:
        self.cost = BuildCost()
        self._files = files
        self._options = options
        self._cut = options.leaf_cut
        self._location = location
        self._known = known
        self._roots = [tree for tree in known.values() if isinstance(tree, Root)]
        self._progress = progress
        self._packer = Packer()
        self._pending: list[str] = []  # ids of leaves in the order the packer has them
        self._packs: dict[int, tuple[str, int]] = {}  # by number: key, leaves
        self._writing: set[asyncio.Task[None]] = set()
        self._objects: dict[str, memoryview] = {}  # for the last call of the store

    async def overlay(
        self,
        nodes: Nodes,
        changes: pl.DataFrame,
        *,
        opened: Leaves | None = None,
        open_rows: Sequence[int] = (),
        places: Mapping[str, Place] | None = None,
    ) -> TreeAddress:
        """Overlay a tree of these nodes; instead of those in `open_rows` it has the `opened` leaves.

        `places` are leaves besides the parent's that may be referred to.
        """
        closing = nodes.frame["max_key"].gather(nodes.segments(self._cut) - 1)
        touched = {*touched_nodes(closing, len(nodes), changes)} - {*open_rows}
        read = await self._files.leaves(nodes.of(sorted(touched)))
        leaves = read if opened is None else Leaves(pl.concat([read.frame, opened.frame]).sort("min_key"))
        rest = nodes.of(sorted({*range(len(nodes))} - touched - {*open_rows}))
        return await self._build(rest, leaves, changes, places or {})

    async def rewrite(self, old: MetaRange, changes: pl.DataFrame) -> TreeAddress:
        """Overlay a tree of format 2: this writes every row, once."""
        return await self._build(Nodes.empty(), old, changes, {})

    async def _build(
        self, rest: Nodes, opened: Contents, changes: pl.DataFrame, places: Mapping[str, Place]
    ) -> TreeAddress:
        try:
            leaves = Leaves(await self._all_jobs(opened, changes, places))
            return await self._finish(rest, leaves)
        finally:
            for task in self._writing:
                task.cancel()
            await asyncio.gather(*self._writing, return_exceptions=True)

    async def _all_jobs(self, opened: Contents, changes: pl.DataFrame, places: Mapping[str, Place]) -> pl.DataFrame:
        everything = not isinstance(opened, Leaves)
        job_rows = self._options.job_rows
        jobs = await self._files.in_thread(
            lambda: plan_jobs(opened, changes, self._cut, job_rows, everything=everything)
        )
        parts = [pl.DataFrame(schema=LEAF_SCHEMA)]

        async def do(job: LeafJob) -> MadeLeaves:
            own = changes.slice(job.start, job.end - job.start)
            return await self._do(opened.of(slice(job.first, job.last)), own, places, everything=everything)

        async with aclosing(in_order(jobs, do, 2 * self._options.threads_max)) as done:
            async for made in done:
                parts.append(made.leaves)
                self._progress(len(parts) - 1, len(jobs))
                if made.table is not None:
                    new = made.leaves.filter(pl.col("pack") == "")
                    await self._pack(made.table, new, made.neighbours)
        return pl.concat(parts)

    async def _do(
        self, opened: Contents, changes: pl.DataFrame, places: Mapping[str, Place], *, everything: bool
    ) -> MadeLeaves:
        work = SpanWork(opened, changes, self._cut, everything=everything)
        self.cost.touched += work.touched
        while not work.is_done:
            fetched = await self._files.fetch_parts(opened.of(work.wanted()))
            await self._files.in_thread(lambda fetched=fetched: work.take(fetched.table(), fetched.counts))  # type: ignore[misc]
        return await self._files.in_thread(lambda: work.made(places))

    async def _pack(self, table: pa.Table, leaves: pl.DataFrame, neighbours: Sequence[bool] = ()) -> None:
        self._pending += leaves["id"].to_list()
        self.cost.written += leaves.height
        for sealed in self._packer.add(table, leaves["count"].to_list(), neighbours=neighbours):
            await self._write_soon(sealed)

    async def _write_soon(self, sealed: Sealed) -> None:
        while len(self._writing) >= PACKS_UNDER_WAY:
            done, self._writing = await asyncio.wait(self._writing, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        self._writing.add(asyncio.ensure_future(self._write_one(sealed)))

    async def _write_one(self, sealed: Sealed) -> None:
        key, data = await self._encoded("pack", sealed)
        await self._files.write({key: data})

    async def _encoded(self, kind: str, sealed: Sealed) -> tuple[str, memoryview]:
        data = await self._files.in_thread(lambda: encode_pack(sealed))
        key = pack_key(self._location, kind, data)
        if kind == "pack":
            self._packs[sealed.number] = key, sealed.parts
        self.cost.files += 1
        self.cost.bytes += len(data)
        return key, data

    # the table of contents

    async def _finish(self, rest: Nodes, leaves: Leaves) -> TreeAddress:
        made = await self._files.in_thread(lambda: nodes_of(leaves, self._cut))
        tree = Root(Nodes(_together(rest.frame, made)), {})
        if not len(tree.nodes):
            return EMPTY_TREE
        same = next((address for address, each in self._known.items() if each.id == tree.id), None)
        if same is not None:
            return same
        rest, leaves = await self._fold(rest, leaves)
        await self._close_packs()
        leaves, written = await self._files.in_thread(lambda: self._with_places(leaves))
        frame, also_written = await self._index(rest, leaves)
        root = self._listed(frame, {**written, **also_written})
        address = TreeAddress(root.id, self._location, LAKE_TREE.version)
        data = await self._files.in_thread(lambda: encode_root(root))
        self.cost.files += 1
        self.cost.bytes += len(data)
        await self._files.write({**self._objects, tree_key(address): data})
        self._files.roots.put(tree_key(address), root)
        return address

    async def _fold(self, rest: Nodes, leaves: Leaves) -> tuple[Nodes, Leaves]:
        """Copy live leaves out of packs that are mostly dead, or small."""
        live = dict(rest.live)
        for pack, count in Counter(leaves.frame["pack"].to_list()).items():
            live[pack] = live.get(pack, 0) + count
        live.pop("", None)
        folded = plan_fold(live, written_by(self._roots), len(self._pending))
        if not folded:
            return rest, leaves
        users = rest.frame.with_row_index("row").filter(_uses_any_of(folded))["row"].to_list()
        more = await self._files.leaves(rest.of(users))
        frame = pl.concat([leaves.frame, more.frame]).sort("min_key")
        rows = frame.with_row_index("row").filter(pl.col("pack").is_in(folded))
        for part in _by_rows(rows, FOLD_ROWS):
            await self._copy(part)
        self.cost.folded += rows.height
        placeless = pl.when(pl.col("pack").is_in(folded)).then(pl.lit("")).otherwise("pack").alias("pack")
        return rest.of(sorted({*range(len(rest))} - {*users})), Leaves(frame.with_columns(placeless))

    async def _copy(self, rows: pl.DataFrame) -> None:
        numbers = rows["row"].to_list()
        leaves = rows.drop("row")
        fetched = await self._files.fetch_parts(Leaves(leaves))
        table = await self._files.in_thread(fetched.table)
        assert table is not None
        neighbours = [at > 0 and numbers[at - 1] + 1 == number for at, number in enumerate(numbers)]
        await self._pack(table, leaves, neighbours)

    async def _close_packs(self) -> None:
        """Encode the last pack, which goes with the root; wait for all others."""
        for sealed in self._packer.seal():
            key, data = await self._encoded("pack", sealed)
            self._objects[key] = data
        while self._writing:
            await self._writing.pop()

    def _with_places(self, leaves: Leaves) -> tuple[Leaves, dict[str, int]]:
        """Return the leaves with the places that the packer has given them, and the packs' counts."""
        if not self._pending:
            return leaves, {}
        given = dict(zip(self._pending, self._packer.places, strict=True))
        frame, placed = leaves.frame, []
        for id_, *place in rows_of(frame, "id", "pack", "group", "first"):
            if not place[0]:
                number, *rest = given[id_]
                place = [self._packs[number][0], *rest]
            placed.append(place)
        moved = pl.DataFrame(
            placed, schema={name: LEAF_SCHEMA[name] for name in ("pack", "group", "first")}, orient="row"
        )
        columns = [moved[name] if name in moved.columns else frame[name] for name in LEAF_SCHEMA]
        return Leaves(pl.DataFrame(columns)), dict(self._packs.values())

    async def _index(self, rest: Nodes, leaves: Leaves) -> tuple[pl.DataFrame, dict[str, int]]:
        """Return the tree's nodes with their places, and how many nodes the new index pack has.

        A node that the parent or a source has, with every leaf in the same place, stays where it is.
        """
        made = await self._files.in_thread(lambda: nodes_of(leaves, self._cut))
        frame = _together(rest.frame, self._kept(made))
        packs: list[str] = frame["pack"].to_list()
        new = packs.count("")
        if not new:
            return frame, {}
        live = dict(sorted(Counter(pack for pack in packs if pack).items()))
        folded = plan_fold(live, written_by(self._roots), new)
        if folded:
            moved = pl.when(pl.col("pack").is_in(folded)).then(pl.lit("")).otherwise("pack").alias("pack")
            frame = frame.with_columns(moved)
        return await self._write_index(frame, leaves, Nodes(_together(rest.frame, made)))

    def _kept(self, made: pl.DataFrame) -> pl.DataFrame:
        """Return new nodes, those that lie somewhere already as they do there."""
        own = {key for key, _ in self._packs.values()}
        rows = list(made.iter_rows())
        at = [NODE_SCHEMA.names().index(name) for name in _PLACED]
        kept = False
        for number, row in enumerate(rows):
            uses = row[at[-1]]
            found = next((root.nodes for root in self._roots if row[0] in root.nodes.rows_by_id), None)
            if found is not None and not any(use["pack"] in own for use in uses):
                old = found.frame.row(found.rows_by_id[row[0]])
                rows[number] = tuple(old[column] if column in at else row[column] for column in range(len(row)))
                kept = True
        return pl.DataFrame(rows, schema=NODE_SCHEMA, orient="row") if kept else made

    async def _write_index(
        self, frame: pl.DataFrame, leaves: Leaves, before: Nodes
    ) -> tuple[pl.DataFrame, dict[str, int]]:
        wanted = frame["pack"] == ""
        tables = await self._rows_of_nodes(frame.filter(wanted), leaves, before)
        packer = Packer(group_rows=1, pack_rows=1 << 31)
        for table in tables:
            packer.add(table, [table.num_rows])
        (sealed,) = packer.seal()
        key, data = await self._encoded("index", sealed)
        self._objects[key] = data
        places = {
            "pack": [key] * len(tables),
            "group": range(len(tables)),
            "first": [row for _, _, row in packer.places],
        }
        schema = {name: NODE_SCHEMA[name] for name in places}
        new = frame.filter(wanted).with_columns(pl.DataFrame(places, schema=schema).get_columns())
        placed = _together(frame.filter(~wanted), new)
        return placed, {key: len(tables)}

    async def _rows_of_nodes(self, wanted: pl.DataFrame, leaves: Leaves, before: Nodes) -> list[pa.Table]:
        """Return the leaves of each node to be written; those of folded index packs are read."""
        here = {min_key: row for row, min_key in enumerate(leaves.min_keys)}
        rows = {min_key: row for row, min_key in enumerate(before.min_keys)}
        tables: list[pa.Table] = []
        for min_key, count in rows_of(wanted, "min_key", "leaves"):
            row = here.get(min_key)
            if row is None:
                tables.append(table_of((await self._files.leaves_at(before, rows[min_key])).frame))
            else:
                tables.append(table_of(leaves.frame.slice(row, count)))
        return tables

    def _listed(self, frame: pl.DataFrame, written: Mapping[str, int]) -> Root:
        nodes = Nodes(frame)
        counts = {**written_by(self._roots), **written}
        return Root(nodes, {key: counts[key] for key in (*nodes.live, *nodes.live_nodes)})


def _uses_any_of(packs: set[str]) -> pl.Expr:
    names = pl.Series(sorted(packs), dtype=pl.String).implode()
    return pl.col("uses").list.eval(pl.element().struct.field("pack").is_in(names)).list.any()


def _together(rest: pl.DataFrame, made: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([rest, made]).sort("min_key")


def _by_rows(leaves: pl.DataFrame, rows_max: int) -> Iterable[pl.DataFrame]:
    """Yield the leaves in parts of about `rows_max` rows."""
    part = (leaves["count"].cum_sum() - 1) // rows_max
    yield from leaves.with_columns(part=part).partition_by("part", include_key=False, maintain_order=True)
