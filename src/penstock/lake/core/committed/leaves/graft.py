"""Graft: a whole tree in place of what another one has below a prefix, at the cost of the two seams.

For trees that were built elsewhere, like by Spark out of a hundred million entries: their nodes are referred to, not
read. A node ends with a node key in every tree (`cut.py`). So three sets of nodes are referred to: the parent's nodes
that end before the prefix, the closed nodes of the grafted tree, and the parent's nodes after the one that holds the
prefix's end. All other rows are put again: the parent's at the seams, and the grafted tree's open last node.
The result is the tree that overlaying the entries one by one would have built, with the same ids.
"""

from bisect import bisect_left
from typing import NamedTuple

import polars as pl

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.changes import puts
from penstock.lake.core.committed.entry import row_of, successor
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, LeafCut
from penstock.lake.core.committed.leaves.node import Leaves
from penstock.lake.core.committed.leaves.root import Nodes

__all__ = ["Graft", "plan_graft", "put_again", "seam_leaves"]


class Graft(NamedTuple):
    """The nodes to refer to, and those whose rows are put again: the parent's at the seams, the source's last one."""

    nodes: Nodes
    old: Nodes
    new: Nodes


def plan_graft(parent: Nodes, source: Nodes, prefix: str, cut: LeafCut = LEAF_CUT) -> Graft:
    """Find the seams. Everything in the source begins with the prefix, or this is refused."""
    end = successor(prefix)
    if len(source) and (source.min_keys[0] < prefix or (end is not None and source.max_keys[-1] >= end)):
        raise InvalidArgument(
            f"the tree has paths from {source.min_keys[0]!r} to {source.max_keys[-1]!r}: not all begin with {prefix!r}"
        )
    closing = parent.max_keys[: len(parent.segments(cut))]
    before = bisect_left(closing, prefix)
    at_end = len(closing) if end is None else bisect_left(closing, end)
    closed = len(source.segments(cut))
    kept = [parent.frame[:before], source.frame[:closed], parent.frame[at_end + 1 :]]
    seams = sorted({row for row in (before, at_end) if row < len(parent)})
    return Graft(Nodes(pl.concat(kept)), parent.of(seams), source.of(slice(closed, None)))


def seam_leaves(leaves: Leaves, prefix: str) -> Leaves:
    """Return the leaves that may hold rows which do not begin with the prefix."""
    end = successor(prefix)
    outside = pl.col("min_key") < prefix
    return Leaves(leaves.frame.filter(outside if end is None else outside | (pl.col("max_key") >= end)))


def put_again(old: pl.DataFrame, new: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """Return the changes that put the parent's rows at the seams, without those below the prefix, and the source's."""
    end = successor(prefix)
    behind = old.height if end is None else row_of(old, end)
    return puts(pl.concat([old.slice(0, row_of(old, prefix)), new, old.slice(behind)]))
