"""Three-way merges agree with a dictionary, one path at a time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import EDITS, TREES, Edit, Shelf, Tree, changes_of, edited, entry

from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.merging.merge import Strategy
from penstock.lake.core.committed.metarange import EMPTY
from penstock.lake.core.staging.entry import Entry

Sides = tuple[Entry | None, Entry | None, Entry | None]


def content(each: Entry | None) -> object:
    return None if each is None else each.identity


def decide(base: Entry | None, dest: Entry | None, source: Entry | None) -> Entry | str | None:
    """Return the merged entry of one path, or "conflict"."""
    if source == base:
        return dest
    if dest == base:
        return source
    if content(source) in (content(dest), content(base)):
        return dest
    return source if content(dest) == content(base) else "conflict"


def oracle(base: Tree, dest: Tree, source: Tree, strategy: Strategy) -> tuple[Tree, set[str]]:
    merged: Tree = {}
    conflicts: set[str] = set()
    for path in base.keys() | dest.keys() | source.keys():
        decided = decide(base.get(path), dest.get(path), source.get(path))
        if decided == "conflict":
            conflicts.add(path)
            decided = source.get(path) if strategy is Strategy.SOURCE_WINS else dest.get(path)
        if isinstance(decided, Entry):
            merged[path] = decided
    return merged, conflicts if strategy is Strategy.REFUSE else set()


def check_merge(base: Tree, dest: Tree, source: Tree, strategy: Strategy) -> None:
    shelf = Shelf()
    expected, conflicts = oracle(base, dest, source, strategy)

    merged, outcome = shelf.merge(shelf.tree(base), shelf.tree(dest), shelf.tree(source), strategy)

    assert set(outcome.conflicts) == conflicts
    assert outcome.is_clean == (not conflicts)
    assert shelf.contents(merged) == expected
    assert merged.id == shelf.tree(expected).id


@settings(deadline=None, max_examples=40)
@given(TREES, EDITS, EDITS, st.sampled_from(Strategy))
def test_merges_of_two_branches_agree_with_the_oracle(tree: Tree, ours: Edit, theirs: Edit, strategy: Strategy) -> None:
    check_merge(tree, edited(tree, ours), edited(tree, theirs), strategy)


@settings(deadline=None, max_examples=15)
@given(TREES, TREES, TREES, st.sampled_from(Strategy))
def test_merges_of_any_trees_agree_with_the_oracle(base: Tree, dest: Tree, source: Tree, strategy: Strategy) -> None:
    check_merge(base, dest, source, strategy)


@pytest.mark.parametrize(
    ("base", "dest", "source"),
    [
        # A file is added whose content is that of the next file of the base.
        ({"b": entry(1)}, {"b": entry(1)}, {"a": entry(1), "b": entry(1)}),
        # Both sides add one, with equal and with other content than the base's neighbour.
        ({"b": entry(1)}, {"a": entry(1), "b": entry(1)}, {"a": entry(2), "b": entry(1)}),
        # A file moves to a neighbouring name while the other side deletes the neighbour.
        ({"a": entry(1), "b": entry(1)}, {"b": entry(1)}, {"a": entry(1)}),
        # Change against delete, both ways round.
        ({"a": entry(1)}, {}, {"a": entry(2)}),
        ({"a": entry(1)}, {"a": entry(2)}, {}),
    ],
)
def test_neighbours_of_equal_content_are_not_mistaken_for_each_other(base: Tree, dest: Tree, source: Tree) -> None:
    for strategy in Strategy:
        check_merge(base, dest, source, strategy)


def test_a_merge_into_the_base_is_the_source() -> None:
    shelf = Shelf()
    base, source = shelf.tree({"a": entry(1), "b": entry(2)}), shelf.tree({"a": entry(1, "data/new"), "c": entry(3)})

    merged, outcome = shelf.merge(base, base, source)

    assert merged.frame.equals(source.frame)  # the very ranges of the source, by reference
    assert outcome.is_clean


def numbered(count: int) -> Tree:
    return {f"p{number:05}": entry(1) for number in range(count)}


def test_a_merge_costs_what_both_sides_changed() -> None:
    shelf = Shelf(Chunking(rows_mean=50))
    base = shelf.tree(numbered(5000))
    source = shelf.build(base, changes_of({"p01000": entry(2)}))
    dest = shelf.build(base, changes_of({f"p{number:05}": entry(3) for number in range(2000, 5000, 7)}))
    shelf.reads = 0

    merged, _ = shelf.merge(base, dest, source)

    assert shelf.reads == 0  # ids tell that the destination has not changed what the source has
    assert shelf.contents(merged)["p01000"] == entry(2)


@settings(deadline=None, max_examples=15)
@given(TREES, EDITS)
def test_reverting_the_last_commit_gives_back_its_parent(tree: Tree, edit: Edit) -> None:
    shelf = Shelf()
    parent, head = shelf.tree(tree), shelf.tree(edited(tree, edit))

    reverted, outcome = shelf.merge(base=head, dest=head, source=parent)

    assert outcome.is_clean
    assert reverted.id == parent.id


def test_a_revert_keeps_later_work_and_reports_what_it_cannot_undo() -> None:
    shelf = Shelf()
    before, commit = shelf.tree({"a": entry(1)}), shelf.tree({"a": entry(2), "b": entry(1)})
    head, changed_again = shelf.tree({"a": entry(2), "b": entry(1), "c": entry(3)}), shelf.tree({"a": entry(5)})

    reverted, clean = shelf.merge(base=commit, dest=head, source=before)
    _, refused = shelf.merge(base=commit, dest=changed_again, source=before)

    assert clean.is_clean
    assert shelf.contents(reverted) == {"a": entry(1), "c": entry(3)}
    assert refused.conflicts.to_list() == ["a"]


def test_a_cherry_pick_takes_one_commit_and_not_its_ancestors() -> None:
    shelf = Shelf()
    parent, commit = shelf.tree({"a": entry(1)}), shelf.tree({"a": entry(1), "b": entry(2)})
    head = shelf.tree({"z": entry(9)})

    picked, outcome = shelf.merge(base=parent, dest=head, source=commit)

    assert outcome.is_clean
    assert shelf.contents(picked) == {"b": entry(2), "z": entry(9)}
    assert shelf.merge(EMPTY, EMPTY, EMPTY)[0].id == EMPTY.id
