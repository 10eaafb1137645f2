"""A merge takes by reference what one side changed: counted reads, and rules without which trees depend on history."""

from collections.abc import Sequence

import pytest
from tests.lake.core.committed.shelf import Edit, Shelf, changes_of, edited, entry, random_edit, random_tree

from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.merging import splice
from penstock.lake.core.committed.metarange import EMPTY, MetaRange

CHUNKING = Chunking(rows_mean=50, rows_max=5000)
TREE = {f"table/part-{number:05}": entry(number % 3) for number in range(3000)}


def merged(ours: Edit, theirs: Edit) -> tuple[Shelf, int, int]:
    """Merge two edits of one tree; return the shelf, and how many ranges the merge read and wrote."""
    shelf = Shelf(CHUNKING)
    base = shelf.tree(TREE)
    dest, source = shelf.build(base, changes_of(ours)), shelf.build(base, changes_of(theirs))
    shelf.reads, written = 0, len(shelf.files)

    found, outcome = shelf.merge(base, dest, source)

    reads, writes = shelf.reads, len(shelf.files) - written
    assert outcome.is_clean
    assert found.id == shelf.tree(edited(TREE, {**theirs, **ours})).id
    return shelf, reads, writes


def test_what_one_side_changed_is_taken_unread() -> None:
    ours = {f"table/part-{number:05}": entry(7) for number in range(0, 1000, 100)}
    theirs: Edit = {f"table/part-{number:05}": None for number in range(2000, 3000, 7)}

    assert merged(ours, theirs)[1:] == (0, 0)


def test_equal_changes_of_both_sides_are_taken_unread() -> None:
    both: Edit = {"table/part-00700": entry(9), "table/part-02000": None}

    assert merged(both, both)[1:] == (0, 0)


def test_only_ranges_that_both_sides_changed_are_read() -> None:
    ours = {"table/part-00010": entry(7), "table/part-01500": entry(7)}
    theirs = {"table/part-01501": entry(8), "table/part-02990": entry(8)}

    _, reads, writes = merged(ours, theirs)

    assert (reads, writes) == (4, 1)  # base and source to compare, the destination to look up and to overlay


def test_a_tree_without_common_segments_is_one_strip() -> None:
    shelf = Shelf(CHUNKING)
    dest, source = shelf.tree({"a": entry(1)}), shelf.tree({"b": entry(2)})

    spliced = splice.splice(EMPTY, dest, source, CHUNKING)

    assert (spliced.tree.id, spliced.dest.id, spliced.source.id) == (dest.id, dest.id, source.id)


def ends_of_two(sides: Sequence[MetaRange], chunking: Chunking) -> list[tuple[int, int, int]]:
    """A strip ends wherever the destination's segment does."""
    base, dest, source = sides
    ends = [
        (base.below(key).start + 1, int(end), source.below(key).start + 1)
        for end in dest.segments(chunking)
        if (key := dest.max_keys[end - 1]) <= min(base.max_keys[-1], source.max_keys[-1])
    ]
    return [*ends, (len(base), len(dest), len(source))]


def every_range(sides: Sequence[MetaRange], chunking: Chunking) -> list[tuple[int, int, int]]:
    """A strip ends where ranges end, be their last keys boundary keys or not."""
    base, dest, source = ({key: row + 1 for row, key in enumerate(side.max_keys)} for side in sides)
    ends = [(end, dest[key], source[key]) for key, end in base.items() if key in dest and key in source]
    return [*ends, (len(sides[0]), len(sides[1]), len(sides[2]))]


@pytest.mark.parametrize("mutant", [ends_of_two, every_range])
def test_strips_that_end_elsewhere_make_trees_depend_on_history(
    mutant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "_common_ends", mutant)

    def is_right(seed: int) -> bool:
        tree, ours, theirs = random_tree(40, seed), random_edit(6, seed + 1), random_edit(6, seed + 2)
        shelf = Shelf()
        base = shelf.tree(tree)
        try:
            found, outcome = shelf.merge(
                base, shelf.build(base, changes_of(ours)), shelf.build(base, changes_of(theirs))
            )
        except AssertionError:
            return False  # ranges overlap
        return not outcome.is_clean or found.id == shelf.tree(edited(edited(tree, theirs), ours)).id

    assert not all(is_right(seed) for seed in range(200))
