"""Parts that many workers make are joined to the tree of one worker, with every row in a pack."""

import itertools

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.leaves.grove import SMALL, Grove
from tests.lake.core.committed.shelf import entry

from penstock.kernel.errors import ObjectStoreFailed
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.leaves.node import node_ids
from penstock.lake.core.committed.leaves.parts import join_parts, split_part, written_root, written_rows
from penstock.lake.core.committed.leaves.root import Root, decode_root, root_key
from penstock.lake.core.committed.metarange import MetaRangeId, location_of

HERE = location_of(1, "job")
TREE = {f"p{number:04}": entry(number % 3) for number in range(700)}
ENTRIES = entries_from(TREE.items())


def joined(cuts: list[int]) -> tuple[Root, dict[str, memoryview]]:
    ends = sorted({*cuts, 0, len(TREE)})
    parts = [split_part(ENTRIES.slice(start, end - start), HERE, SMALL) for start, end in itertools.pairwise(ends)]
    objects = {key: data for part in parts for key, data in part.made.objects.items()}
    made = list(join_parts(parts, HERE, SMALL))
    for each in made:
        objects |= each.objects
    root, last = written_root(
        [each.nodes for each in made], {key: count for each in made for key, count in each.written.items()}, HERE
    )
    return root, objects | last


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, len(TREE)), max_size=6))
def test_any_parts_are_joined_to_the_tree_of_one_worker(cuts: list[int]) -> None:
    root, objects = joined(cuts)

    leaves = Grove().tree(TREE)
    assert root.nodes.frame["id"].to_list() == Grove().root(leaves)
    assert root.files <= objects.keys()
    assert root.nodes.count == len(TREE)


def test_a_root_is_read_back_and_checked() -> None:
    root, objects = joined([300])
    data = objects[root_key(HERE, root.id)]
    other = written_rows(ENTRIES.head(100), HERE, SMALL)

    again = decode_root(data, root.id)

    assert (again.id, again.files, again.written) == (root.id, root.files, root.written)
    assert again.nodes.frame.equals(root.nodes.frame)
    with pytest.raises(ObjectStoreFailed, match="another tree"):
        decode_root(data, MetaRangeId("0" * 64))
    with pytest.raises(ObjectStoreFailed, match="Parquet"):
        decode_root(bytes(data[:-20]) + bytes(20), root.id)
    assert node_ids(other.nodes.head(0), []) == []


def test_a_root_that_lost_a_pack_of_its_nodes_is_refused() -> None:
    root, _ = joined([300])
    frame = root.nodes.frame.with_columns(uses=pl.col("uses").list.head(0))
    (_, data), *_ = written_root([frame], root.written, HERE)[1].items()

    with pytest.raises(ObjectStoreFailed, match="does not name the packs"):
        decode_root(data, root.id)
