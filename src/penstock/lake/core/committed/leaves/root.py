"""The root of a tree of format 3: its nodes, and, outside its id, the packs that it needs.

The root names for each node the packs its leaves lie in, with how many of them lie there. So a merge takes a node from
another tree without reading it, a fold finds the nodes of a pack, and a collector reads roots only: a pack is garbage
when no kept root lists it.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.kernel.errors import ObjectStoreFailed
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

__all__ = ["NODE_SCHEMA", "Node", "Nodes", "Root", "decode_root", "encode_root", "nodes_of", "root_key", "written_by"]

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


class Node(msgspec.Struct, frozen=True):
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

    def __getitem__(self, row: int) -> Node:
        return Node(*self.frame.row(row)[:-1])

    def segments(self, cut: LeafCut) -> npt.NDArray[np.int64]:
        """Return the row after each node that ends with a node key; only a tree's last node may not."""
        return np.flatnonzero(is_node_key(self.frame["max_key"], cut)) + 1

    @cached_property
    def places(self) -> list[tuple[str, str, int]]:
        """Return each node's id, index pack and row group."""
        return list(self.frame.select("id", "pack", "group").iter_rows())

    @cached_property
    def live(self) -> dict[str, int]:
        """Return the number of leaves that lie in each pack."""
        uses = self.frame.select("uses").explode("uses").unnest("uses")
        return dict(uses.group_by("pack").agg(pl.col("leaves").sum()).sort("pack").iter_rows())

    @cached_property
    def live_nodes(self) -> dict[str, int]:
        """Return the number of nodes that lie in each index pack."""
        return dict(self.frame.group_by("pack").len().sort("pack").iter_rows())


class Root:
    """A tree: its nodes, and how many leaves or nodes each of its files was written with."""

    def __init__(self, nodes: Nodes, written: Mapping[str, int]) -> None:
        self.nodes: Final = nodes
        self.written: Final = written

    @cached_property
    def id(self) -> MetaRangeId:
        return MetaRangeId(digest_table(_TAG, self.nodes.frame.select(_CONTENT).rechunk().to_arrow(), _CONTENT))

    @property
    def files(self) -> set[str]:
        """Return all packs and index packs of the tree."""
        return {*self.nodes.live, *self.nodes.live_nodes}


def nodes_of(leaves: Leaves, cut: LeafCut = LEAF_CUT) -> pl.DataFrame:
    """Return the nodes of whole nodes' leaves, in no index pack yet."""
    frame, ends = leaves.frame, node_ends(leaves, cut)
    if not ends:
        return pl.DataFrame(schema=NODE_SCHEMA)
    number = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    grouped = frame.with_columns(node=pl.Series(number)).group_by("node", maintain_order=True)
    rows = grouped.agg(
        pl.col("min_key").first(), pl.col("max_key").last(), pl.col("count").sum(), pl.col("size").sum()
    ).with_columns(id=pl.Series(node_ids(frame, ends)), pack=pl.lit(""), group=pl.lit(0), first=pl.lit(0))
    leaves_in = pl.Series("leaves", np.diff(ends, prepend=0), pl.Int64)
    uses = (
        frame.select("pack")
        .with_columns(node=pl.Series(number))
        .group_by("node", "pack", maintain_order=True)
        .agg(leaves=pl.len().cast(pl.Int64))
        .group_by("node", maintain_order=True)
        .agg(uses=pl.struct("pack", "leaves"))
    )
    return rows.with_columns(leaves_in, uses["uses"]).select(NODE_SCHEMA.names()).cast(NODE_SCHEMA)


def encode_root(root: Root) -> memoryview:
    frame = root.nodes.frame.with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    uses = frame.select("number", "uses").explode("uses").unnest("uses").with_columns(kind=pl.lit("use"))
    files = [
        pl.DataFrame(
            {
                "kind": kind,
                "pack": list(live),
                "number": [root.written[key] for key in live],
                "leaves": list(live.values()),
            },
            schema={"kind": pl.String, "pack": pl.String, "number": pl.Int64, "leaves": pl.Int64},
        )
        for kind, live in (("pack", root.nodes.live), ("index", root.nodes.live_nodes))
    ]
    nodes = frame.drop("uses").with_columns(kind=pl.lit("node"))
    return write_parquet(table_of(pl.concat([_stored(each) for each in (nodes, uses, *files)])), checksums=True)


def _stored(frame: pl.DataFrame) -> pl.DataFrame:
    absent = [
        pl.lit("" if kind == pl.String else 0, kind).alias(name)
        for name, kind in _STORED.items()
        if name not in frame.columns
    ]
    return frame.with_columns(absent).select(_STORED.names())


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
