"""Name leaves and nodes by their content, and say where they lie.

A leaf's id is the digest of its rows; a node's id is the digest of its leaves' ids, keys, counts and sizes. A **place**
(pack, row group, first row in the file) says where a leaf lies. No place is in any id, so equal content has equal ids
wherever it was written.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.columns import columns_of
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.digest import digest_parts
from penstock.lake.core.committed.entry import ENTRY_SCHEMA
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, LeafCut, is_node_key
from penstock.lake.core.committed.range import narrow_schema

__all__ = ["LEAF_SCHEMA", "NARROW_LEAVES", "Leaf", "Leaves", "leaf_ids", "leaves_of", "node_ends", "node_ids"]

LEAF_SCHEMA: Final = pl.Schema(
    {
        "id": pl.String(),
        "min_key": pl.String(),
        "max_key": pl.String(),
        "count": pl.Int64(),
        "size": pl.Int64(),  # of all objects in it, together
        "pack": pl.String(),  # the key of the file, below the repository's storage namespace; empty until it is written
        "group": pl.Int64(),  # the file's row group
        "first": pl.Int64(),  # the file's row
    }
)
NARROW_LEAVES: Final = narrow_schema(LEAF_SCHEMA)
_LEAF: Final = "penstock leaf 3"
_NODE: Final = "penstock node 3"
_CONTENT: Final = ("id", "min_key", "max_key", "count", "size")


class Leaf(msgspec.Struct, frozen=True):
    """One leaf, and its place."""

    id: str
    min_key: str
    max_key: str
    count: int
    size: int
    pack: str
    group: int
    first: int


class Leaves(Contents):
    """Leaves in key order: those of a node, of some nodes, or of a whole tree."""

    schema = LEAF_SCHEMA

    def __getitem__(self, row: int) -> Leaf:
        return Leaf(*self.frame.row(row))

    def segments(self, cut: LeafCut) -> npt.NDArray[np.int64]:
        """Return the row after each leaf that ends by a rule. Every leaf does that another one of its node follows."""
        count = len(self)
        is_open = count > 0 and not is_node_key(self.frame["max_key"].tail(1), cut)[0]
        return np.arange(1, count + 1 - is_open)


def leaf_ids(table: pa.Table, ends: Sequence[int]) -> list[str]:
    """Return the ids of leaves that end at these rows of a table of entries."""
    return digest_parts(_LEAF, table, ENTRY_SCHEMA.names(), ends) if ends else []


def leaves_of(table: pa.Table, ends: Sequence[int]) -> pl.DataFrame:
    """Return the rows that name the leaves of a table of entries; they have no place yet."""
    if not ends:
        return pl.DataFrame(schema=LEAF_SCHEMA)
    lasts = np.asarray(ends) - 1
    starts = np.concatenate([[0], lasts[:-1] + 1])
    paths = table.column("path")
    zeros = np.zeros(len(ends), np.int64)
    columns = {
        "id": leaf_ids(table, ends),
        "min_key": pl.Series(paths.take(pa.array(starts)), dtype=pl.String),
        "max_key": pl.Series(paths.take(pa.array(lasts)), dtype=pl.String),
        "count": lasts + 1 - starts,
        "size": np.add.reduceat(table.column("size").to_numpy(), starts),
        "pack": [""] * len(ends),
        "group": zeros,
        "first": zeros,
    }
    return pl.DataFrame(columns, schema=LEAF_SCHEMA)


def node_ends(leaves: Leaves, cut: LeafCut = LEAF_CUT) -> list[int]:
    """Return the row after the last leaf of each node; the last node may be open."""
    ends = (np.flatnonzero(is_node_key(leaves.frame["max_key"], cut)) + 1).tolist()
    return ends if not len(leaves) or ends[-1:] == [len(leaves)] else [*ends, len(leaves)]


def node_ids(leaves: pl.DataFrame, ends: Sequence[int]) -> list[str]:
    """Return the ids of the nodes that end before these rows."""
    return digest_parts(_NODE, columns_of(leaves, _CONTENT), _CONTENT, ends) if ends else []
