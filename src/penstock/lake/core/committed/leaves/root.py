"""The root of a tree of format 3: its nodes, and, outside its id, the packs that it needs.

The root names for each node the packs its leaves lie in, with how many of them lie there. So a merge takes a node from
another tree without reading it, a fold finds the nodes of a pack, and a collector reads roots only: a pack is garbage
when no kept root lists it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.kernel.errors import ObjectStoreFailed
from penstock.lake.core.committed.columns import columns_of, rows_of
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.digest import digest_table
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, LeafCut, is_node_key
from penstock.lake.core.committed.leaves.node import Leaves, node_ends, node_ids
from penstock.lake.core.committed.metarange import Location, MetaRangeId
from penstock.lake.core.committed.range import (
    frame_of,
    narrow_schema,
    other_content,
    read_parquet,
    table_of,
    write_parquet,
)

__all__ = [
    "NODE_SCHEMA",
    "Nodes",
    "Root",
    "TreeNode",
    "decode_root",
    "encode_root",
    "nodes_of",
    "root_key",
    "written_by",
]

_USES: Final = pl.List(pl.Struct({"pack": pl.String(), "leaves": pl.Int64()}))
NODE_SCHEMA: Final = pl.Schema(
    {
        "id": pl.String(),
        "min_key": pl.String(),
        "max_key": pl.String(),
        "count": pl.Int64(),
        "size": pl.Int64(),
        "pack": pl.String(),  # the index pack that holds the node's rows; empty until it is written
        "group": pl.Int64(),
        "first": pl.Int64(),  # the index pack's row
        "leaves": pl.Int64(),
        "uses": _USES,  # how many of its leaves lie in which pack
    }
)
_STORED: Final = pl.Schema(
    {
        "kind": pl.String(),  # node; use: of a node; pack, index: a file of the tree
        "number": pl.Int64(),  # of a node or a use: the node's row; of a file: how many parts it was written with
        "id": pl.String(),
        "min_key": pl.String(),
        "max_key": pl.String(),
        "count": pl.Int64(),
        "size": pl.Int64(),
        "pack": pl.String(),
        "group": pl.Int64(),
        "first": pl.Int64(),
        "leaves": pl.Int64(),  # of a file: how many of its leaves, or nodes, this tree refers to
    }
)
_NARROW: Final = narrow_schema(_STORED)
_TAG: Final = "penstock root 3"
_CONTENT: Final = ("id", "min_key", "max_key", "count", "size")


class TreeNode(msgspec.Struct, frozen=True):
    """One node, and its place."""

    id: str
    min_key: str
    max_key: str
    count: int
    size: int
    pack: str
    group: int
    first: int
    leaves: int


class Nodes(Contents):
    """Nodes in key order: those of a tree, or some of them."""

    schema = NODE_SCHEMA

    def __getitem__(self, row: int) -> TreeNode:
        return TreeNode(*self.frame.row(row)[:-1])

    def segments(self, cut: LeafCut) -> npt.NDArray[np.int64]:
        """Return the row after each node that ends with a node key; only a tree's last node may not."""
        return np.flatnonzero(is_node_key(self.frame["max_key"], cut)) + 1

    @cached_property
    def places(self) -> list[tuple[str, str, int]]:
        """Return each node's id, index pack and row group."""
        return list(rows_of(self.frame, "id", "pack", "group"))

    @cached_property
    def live(self) -> dict[str, int]:
        """Return the number of leaves that lie in each pack."""
        found: Counter[str] = Counter()
        for uses in self.frame["uses"].to_list():
            for use in uses:
                found[use["pack"]] += use["leaves"]
        return dict(sorted(found.items()))

    @cached_property
    def live_nodes(self) -> dict[str, int]:
        """Return the number of nodes that lie in each index pack."""
        return dict(sorted(Counter(self.frame["pack"].to_list()).items()))

    @cached_property
    def rows_by_id(self) -> dict[str, int]:
        return {id_: row for row, id_ in enumerate(self.ids)}


class Root:
    """A tree: its nodes, and how many leaves or nodes each of its files was written with."""

    def __init__(self, nodes: Nodes, written: Mapping[str, int]) -> None:
        self.nodes: Final = nodes
        self.written: Final = written

    @cached_property
    def id(self) -> MetaRangeId:
        return MetaRangeId(digest_table(_TAG, columns_of(self.nodes.frame, _CONTENT), _CONTENT))

    @property
    def files(self) -> set[str]:
        """Return all packs and index packs of the tree."""
        return {*self.nodes.live, *self.nodes.live_nodes}


def nodes_of(leaves: Leaves, cut: LeafCut = LEAF_CUT) -> pl.DataFrame:
    """Return the nodes of whole nodes' leaves, in no index pack yet."""
    frame, ends = leaves.frame, node_ends(leaves, cut)
    if not ends:
        return pl.DataFrame(schema=NODE_SCHEMA)
    starts = [0, *ends[:-1]]
    packs = frame["pack"].to_list()
    zeros = [0] * len(ends)
    columns = {
        "id": node_ids(frame, ends),
        "min_key": [leaves.min_keys[start] for start in starts],
        "max_key": [leaves.max_keys[end - 1] for end in ends],
        "count": np.add.reduceat(frame["count"].to_numpy(), starts),
        "size": np.add.reduceat(frame["size"].to_numpy(), starts),
        "pack": [""] * len(ends),
        "group": zeros,
        "first": zeros,
        "leaves": [end - start for start, end in zip(starts, ends, strict=True)],
        "uses": [_uses(packs[start:end]) for start, end in zip(starts, ends, strict=True)],
    }
    return pl.DataFrame(columns, schema=NODE_SCHEMA)


def _uses(packs: list[str]) -> list[dict[str, object]]:
    """Return how many leaves lie in which pack, in the order of the leaves."""
    return [{"pack": pack, "leaves": count} for pack, count in Counter(packs).items()]


def encode_root(root: Root) -> memoryview:
    """Return the root as a file. A root is short: each step of Polars would cost more than a hundred of its rows."""
    nodes, packs, indexes = root.nodes, root.nodes.live, root.nodes.live_nodes
    rows: list[tuple[object, ...]] = [
        ("node", number, *content) for number, (*content, _) in enumerate(nodes.frame.iter_rows())
    ]
    for number, uses in enumerate(nodes.frame["uses"].to_list()):
        rows += [("use", number, "", "", "", 0, 0, use["pack"], 0, 0, use["leaves"]) for use in uses]
    for kind, live in (("pack", packs), ("index", indexes)):
        rows += [(kind, root.written[key], "", "", "", 0, 0, key, 0, 0, count) for key, count in live.items()]
    return write_parquet(table_of(pl.DataFrame(rows, schema=_STORED, orient="row")), checksums=True)


def decode_root(data: bytes | memoryview, expected: MetaRangeId) -> Root:
    """Return the root in a file if it is the one that the id names, and lists every pack its nodes need."""
    rows = frame_of(read_parquet(data, _NARROW, expected, checksums=True))
    nodes = rows.filter(pl.col("kind") == "node").drop("kind", "number")
    uses = (
        rows.filter(pl.col("kind") == "use")
        .group_by("number", maintain_order=True)
        .agg(pl.struct("pack", "leaves").alias("uses"), pl.col("leaves").sum().alias("sum"))
        .sort("number")
    )
    if uses["sum"].to_list() != nodes["leaves"].to_list():
        raise other_content(f"root {expected} does not name the packs of its nodes")
    root = Root(Nodes(nodes.with_columns(uses["uses"]).cast(NODE_SCHEMA)), _written(rows))
    if root.id != expected:
        raise other_content(f"root {expected} holds another tree: its id is {root.id}")
    if not root.files <= root.written.keys():
        raise ObjectStoreFailed(f"root {expected} does not list all files of its tree", retryable=False)
    return root


def _written(rows: pl.DataFrame) -> dict[str, int]:
    files = rows.filter(pl.col("kind").is_in(["pack", "index"])).select("pack", "number")
    return dict(files.iter_rows())


def root_key(location: Location, id_: str) -> str:
    return f"{location}/root-{id_}.parquet"


def written_by(roots: Iterable[Root]) -> dict[str, int]:
    """Return how many leaves or nodes each file of some trees was written with."""
    return {key: count for root in roots for key, count in root.written.items()}
