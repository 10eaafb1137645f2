"""Parts of a tree: sorted entries that many workers cut into leaves and nodes, and one joins.

A worker has the entries between two keys, and knows none before or after them. Nodes that begin and end within its part
are nodes whatever the others have (`cut.py`). The other rows are its **head**, up to the first node key, and
its **tail**, after the last one. The joiner makes nodes of tails and the heads that follow them. The tree is the one
that one worker alone would have made.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.lake.core.committed.entry import empty_entries
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, LeafCut, cut_spans, is_node_key
from penstock.lake.core.committed.leaves.node import LEAF_SCHEMA, Leaves, leaves_of, node_ends
from penstock.lake.core.committed.leaves.pack import Packer, Sealed, encode_pack, pack_key
from penstock.lake.core.committed.leaves.root import NODE_SCHEMA, Nodes, Root, encode_root, nodes_of, root_key
from penstock.lake.core.committed.metarange import Location
from penstock.lake.core.committed.range import table_of

__all__ = ["TreePart", "WrittenNodes", "join_parts", "split_part", "written_root", "written_rows"]


class WrittenNodes(NamedTuple):
    """Whole nodes as files to be stored, and what a root says about them."""

    objects: dict[str, memoryview]
    nodes: pl.DataFrame
    written: dict[str, int]


class TreePart(NamedTuple):
    """One worker's result: whole nodes, and the rows before and after them."""

    head: pl.DataFrame
    made: WrittenNodes
    tail: pl.DataFrame
    is_closed: bool  # the head ends with a node key; if not, the part is only a head


def written_rows(entries: pl.DataFrame, location: Location, cut: LeafCut = LEAF_CUT) -> WrittenNodes:
    """Return sorted entries, which begin with a node's first row, as nodes; nothing is stored yet."""
    if not entries.height:
        return WrittenNodes({}, pl.DataFrame(schema=NODE_SCHEMA), {})
    table = table_of(entries)
    (span,) = cut_spans(table, [entries.height], cut)
    leaves = leaves_of(table, span.ends)
    packer = Packer()
    sealed = packer.add(table, leaves["count"].to_list(), neighbours=[True] * leaves.height)
    objects: dict[str, memoryview] = {}
    written: dict[str, int] = {}
    names = {each.number: _store(each, "pack", location, objects, written) for each in [*sealed, *packer.seal()]}
    packs, groups, firsts = zip(*packer.places, strict=True)
    placed = leaves.with_columns(
        pl.Series("pack", [names[number] for number in packs]),
        pl.Series("group", groups, pl.Int64),
        pl.Series("first", firsts, pl.Int64),
    ).select(LEAF_SCHEMA.names())
    index = Packer(group_rows=1, pack_rows=1 << 31)
    starts = [0, *node_ends(Leaves(placed), cut)]
    for start, end in itertools.pairwise(starts):
        index.add(table_of(placed[start:end]), [end - start])
    (last,) = index.seal()
    key = _store(last, "index", location, objects, written)
    nodes = nodes_of(Leaves(placed), cut)
    places = [pl.Series("group", np.arange(nodes.height), pl.Int64), pl.Series("first", starts[:-1], pl.Int64)]
    return WrittenNodes(objects, nodes.with_columns(places, pack=pl.lit(key)).select(NODE_SCHEMA.names()), written)


def _store(pack: Sealed, kind: str, location: Location, objects: dict[str, memoryview], written: dict[str, int]) -> str:
    data = encode_pack(pack)
    key = pack_key(location, kind, data)
    objects[key] = data
    written[key] = pack.parts
    return key


def split_part(entries: pl.DataFrame, location: Location, cut: LeafCut = LEAF_CUT) -> TreePart:
    """Return one worker's part of sorted entries."""
    ends = np.flatnonzero(is_node_key(entries["path"], cut)) + 1
    if not len(ends):
        return TreePart(entries, written_rows(empty_entries(), location, cut), empty_entries(), is_closed=False)
    first, last = int(ends[0]), int(ends[-1])
    made = written_rows(entries.slice(first, last - first), location, cut)
    return TreePart(entries.head(first), made, entries.slice(last), is_closed=True)


def join_parts(parts: Iterable[TreePart], location: Location, cut: LeafCut = LEAF_CUT) -> Iterator[WrittenNodes]:
    """Yield the nodes of all parts, in key order; those between two parts are made here."""
    rest = empty_entries()
    for part in parts:
        rest = pl.concat([rest, part.head])
        if part.is_closed:
            yield written_rows(rest, location, cut)
            yield part.made
            rest = part.tail
    if rest.height:
        yield written_rows(rest, location, cut)


def written_root(
    nodes: Sequence[pl.DataFrame], written: Mapping[str, int], location: Location
) -> tuple[Root, dict[str, memoryview]]:
    """Return the root of all nodes, and its file if the tree is not empty."""
    root = Root(Nodes(pl.concat([pl.DataFrame(schema=NODE_SCHEMA), *nodes])), written)
    objects = {root_key(location, root.id): encode_root(root)} if len(root.nodes) else {}
    return root, objects
