"""Parts which many workers cut are, joined, the tree of one worker."""

from random import Random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import SMALL, TREES, Shelf, Tree

from penstock.lake.core.committed.build import to_range
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.metarange import MetaRange, Range, location_of
from penstock.lake.core.committed.parts import Part, join_parts, pieces, split_part

LOCATION = location_of(2, "parts")


@settings(deadline=None, max_examples=15)
@given(TREES, st.integers(1, 6), st.integers(0, 1 << 32))
def test_joined_parts_are_the_tree_of_one_worker(tree: Tree, count: int, seed: int) -> None:
    entries = entries_from(tree.items())
    cuts = sorted(Random(seed).choices(range(entries.height + 1), k=count))
    spans = zip([0, *cuts], [*cuts, entries.height], strict=True)
    parts = [_part(entries.slice(begin, end - begin)) for begin, end in spans]
    ranges: list[Range] = []
    for each in join_parts(parts):
        ranges += [each] if isinstance(each, Range) else [to_range(one, {}, LOCATION) for one in pieces(each, SMALL)]
    joined = MetaRange.of(ranges)
    joined.check()
    assert joined.id == Shelf().tree(tree).id


def _part(entries: pl.DataFrame) -> Part:
    head, made, tail, is_closed = split_part(entries, SMALL)
    return Part(head, [to_range(each, {}, LOCATION) for each in made], tail, is_closed=is_closed)
