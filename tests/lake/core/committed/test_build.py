"""History independence: the same content has the same ranges and ids, whatever led to it."""

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.lake.core.committed.shelf import (
    EDITS,
    SMALL,
    TREES,
    Edit,
    Shelf,
    Tree,
    changes_of,
    edited,
    entry,
    evolve,
    random_edit,
    random_tree,
)

from penstock.lake.core.committed.boundary import Chunking, is_boundary
from penstock.lake.core.committed.changes import deletes, empty_changes, puts
from penstock.lake.core.committed.entry import entries_from
from penstock.lake.core.committed.metarange import EMPTY, MetaRange
from penstock_lab.bench.peers import ranges_build as build
from penstock_lab.bench.peers.ranges_build import plan_build


@settings(deadline=None, max_examples=40)
@given(TREES, st.lists(EDITS, min_size=1, max_size=4), st.sampled_from([1, 7, 1000]))
def test_any_history_of_the_same_content_gives_the_same_ranges(tree: Tree, edits: list[Edit], job_rows: int) -> None:
    shelf = Shelf(job_rows=job_rows)
    for expected, built in evolve(shelf, tree, edits):
        fresh = Shelf(job_rows=1000).tree(expected)
        assert shelf.contents(built) == expected
        assert built.id == fresh.id
        assert built.frame.drop("location").equals(fresh.frame.drop("location"))


@settings(deadline=None, max_examples=25)
@given(TREES, EDITS)
def test_undoing_an_edit_gives_back_the_very_same_ranges(tree: Tree, edit: Edit) -> None:
    shelf = Shelf()
    before = shelf.tree(tree)
    after = shelf.build(before, changes_of(edit))
    back = shelf.build(after, changes_of({path: tree.get(path) for path in edit}))

    assert back.id == before.id


@settings(deadline=None, max_examples=25)
@given(TREES, TREES)
def test_equal_ids_mean_equal_content(one: Tree, other: Tree) -> None:
    shelf = Shelf()

    assert (shelf.tree(one).id == shelf.tree(other).id) == (one == other)


def many(count: int) -> Tree:
    return {f"table/part-{number:05}": entry(number % 3) for number in range(count)}


def test_untouched_ranges_are_neither_read_nor_written() -> None:
    shelf = Shelf(Chunking(rows_mean=50))
    before = shelf.tree(many(5000))
    written, shelf.reads = len(shelf.files), 0

    after = shelf.build(before, changes_of({"table/part-02500": entry(9)}))

    assert len(before) > 50
    assert shelf.reads == 1
    assert len(shelf.files) == written + 1
    assert sum(before[row] == after[row] for row in range(len(before))) == len(before) - 1


def test_a_change_to_what_is_there_writes_nothing() -> None:
    shelf = Shelf(Chunking(rows_mean=50))
    before = shelf.tree(many(500))
    written = len(shelf.files)

    after = shelf.build(before, changes_of({"table/part-00100": many(500)["table/part-00100"], "gone": None}))

    assert after.frame.equals(before.frame)
    assert len(shelf.files) == written


def test_deleting_a_boundary_key_joins_two_segments_and_putting_it_back_parts_them() -> None:
    shelf = Shelf(Chunking(rows_mean=50, rows_max=5000))
    before = shelf.tree(many(1000))
    boundary = before[2].max_key

    joined = shelf.build(before, changes_of({boundary: None}))
    parted = shelf.build(joined, changes_of({boundary: many(1000)[boundary]}))

    assert len(joined) == len(before) - 1
    assert (joined[2].min_key, joined[2].max_key) == (before[2].min_key, before[3].max_key)
    assert parted.id == before.id


@pytest.mark.parametrize("others", [{}, {"zzz": entry(1)}])
def test_a_boundary_key_which_is_put_again_still_ends_its_range(others: Edit) -> None:
    shelf = Shelf(Chunking(rows_mean=50, rows_max=5000), job_rows=2000)  # so all ranges are written by one job
    before = shelf.tree(many(1000))
    edit: Edit = {**{before[row].max_key: entry(7) for row in range(len(before))}, **others}

    after = shelf.build(before, changes_of(edit))

    assert list(after.frame["max_key"])[:-1] == list(before.frame["max_key"])[:-1]
    assert after.id == shelf.tree(edited(many(1000), edit)).id


def test_additions_at_the_end_join_the_open_range() -> None:
    """Appending day after day leaves no trail of small ranges."""
    shelf = Shelf(Chunking(rows_mean=50))
    whole, tree = many(600), EMPTY
    for start in range(0, 600, 7):
        part = {path: whole[path] for path in sorted(whole)[start : start + 7]}
        tree = shelf.build(tree, changes_of(part))

    assert tree.id == shelf.tree(whole).id


def test_many_additions_are_divided_into_jobs_at_boundary_keys() -> None:
    chunking = Chunking(rows_mean=50)
    shelf = Shelf(chunking, job_rows=300)
    base = shelf.tree({"a": entry(1), "b": entry(2)})
    changes = puts(entries_from(many(3000).items()))

    jobs = plan_build(base, changes, chunking, job_rows=300)
    cuts = [changes["path"][job.end - 1] for job in jobs[:-1]]

    assert len(jobs) > 5
    assert (jobs[0].first, jobs[0].last) == (0, 1)
    assert all((job.first, job.last) == (1, 1) for job in jobs[1:])
    assert [job.end for job in jobs[:-1]] == [job.start for job in jobs[1:]]
    assert is_boundary(pl.Series(cuts), chunking).all()
    assert shelf.build(base, changes).id == Shelf(chunking).tree({"a": entry(1), "b": entry(2), **many(3000)}).id


def test_deleting_everything_leaves_the_empty_tree() -> None:
    shelf = Shelf()
    tree = shelf.tree(many(50))

    assert shelf.build(tree, deletes(pl.Series(sorted(many(50))))).id == EMPTY.id
    assert plan_build(tree, empty_changes(), SMALL) == []


def test_an_edit_at_each_end_is_its_own_job() -> None:
    shelf = Shelf(Chunking(rows_mean=20), job_rows=1000)
    tree = many(500)
    base = shelf.tree(tree)
    edit: Edit = {"a first": entry(1), "table/part-00499": None, "z last": entry(2)}

    jobs = plan_build(base, changes_of(edit), Chunking(rows_mean=20))

    assert [(job.start, job.end) for job in jobs] == [(0, 1), (1, 3)]
    assert shelf.contents(shelf.build(base, changes_of(edit))) == edited(tree, edit)


def test_changes_in_disorder_are_never_built() -> None:
    twice = pl.concat([changes_of({"a": entry(1)}), changes_of({"a": None})])

    with pytest.raises(AssertionError, match="ascending"):
        plan_build(EMPTY, twice)


def never_glued(parent: MetaRange, changes: pl.DataFrame, ends: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return np.zeros(len(ends), np.bool_)


def never_joined(parent: MetaRange, chunking: Chunking) -> npt.NDArray[np.int64]:
    """Additions at the end begin a range of their own."""
    ends = parent.segments(chunking)
    return np.append(np.union1d(ends, [len(parent)]), len(parent)) if len(parent) else np.append(ends, 0)


def cut_by_count(table: pa.Table, chunking: Chunking, *, candidates: npt.NDArray[np.int64] | None = None) -> list[int]:
    """The size rule counted from where writing began, as if that were part of the content."""
    ends = np.flatnonzero(is_boundary(pl.Series(table.column("path")), chunking)) + 1
    every = range(chunking.rows_max, table.num_rows, chunking.rows_max)
    return sorted({*ends.tolist(), *every, table.num_rows} - {0})


@pytest.mark.parametrize(
    ("rule", "mutant"), [("_glued", never_glued), ("_segment_ends", never_joined), ("cut", cut_by_count)]
)
def test_without_a_rule_ids_depend_on_history(rule: str, mutant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, rule, mutant)

    def same_id(seed: int) -> bool:
        tree, edit = random_tree(40, seed), random_edit(12, seed + 1)
        shelf = Shelf()
        return shelf.build(shelf.tree(tree), changes_of(edit)).id == Shelf().tree(edited(tree, edit)).id

    assert not all(same_id(seed) for seed in range(40))
