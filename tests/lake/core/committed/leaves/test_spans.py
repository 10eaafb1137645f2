"""A tree by increments is the tree from scratch, leaves, ids and cuts; without a rule of the recut it is not."""

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl
import pytest
from tests.lake.core.committed.leaves.grove import SMALL, Grove, histories, same_tree
from tests.lake.core.committed.shelf import changes_of, edited, entry

from penstock.lake.core.committed.changes import empty_changes
from penstock.lake.core.committed.leaves import spans
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, CutSpan, LeafCut, cut_spans, is_node_key
from penstock.lake.core.committed.leaves.node import Leaves
from penstock.lake.core.committed.leaves.spans import SpanWork, plan_jobs

TREE = {f"table/part-{number:05}": entry(number % 3) for number in range(6000)}


def test_any_history_gives_the_tree_of_its_content() -> None:
    assert histories(range(40)) == 0


def test_a_change_reads_one_leaf_and_refers_to_all_others() -> None:
    grove = Grove(LEAF_CUT)
    before = grove.tree(TREE)
    grove.reads = 0

    after = grove.build(before, changes_of({"table/part-03000": entry(9)}))

    assert len(before) > 15
    assert grove.reads == 1
    assert len(set(after.frame["id"]) - set(before.frame["id"])) == 1


def test_a_change_to_what_is_there_is_no_change() -> None:
    grove = Grove()
    before = grove.tree(TREE)

    same = {path: TREE[path] for path in list(TREE)[::100]}

    assert same_tree(grove.build(before, changes_of(same)), before)
    assert plan_jobs(Leaves.empty(), empty_changes(), SMALL) == []


def test_a_removed_node_key_joins_two_nodes() -> None:
    grove = Grove()
    before = grove.tree(TREE)
    paths = pl.Series(sorted(TREE))
    key = paths.filter(pl.Series(is_node_key(paths, SMALL)))[3]

    joined = grove.build(before, changes_of({key: None}))

    assert len(grove.root(joined)) == len(grove.root(before)) - 1
    assert same_tree(grove.build(joined, changes_of({key: TREE[key]})), before)


def test_additions_are_divided_into_jobs_at_node_keys() -> None:
    changes = changes_of(TREE)

    jobs = plan_jobs(Leaves.empty(), changes, SMALL, job_rows=300)
    ends = changes["path"].gather([job.end - 1 for job in jobs[:-1]])

    assert len(jobs) > 10
    assert [job.end for job in jobs[:-1]] == [job.start for job in jobs[1:]]
    assert is_node_key(ends, SMALL).all()


def counted_over_the_nodes_end(table: object, stops: Sequence[int], cut: LeafCut) -> list[CutSpan]:
    """The minimum counts on over a node's end: a short leaf there makes the next one longer."""
    found = cut_spans(table, stops, cut)
    paths = pl.Series(table.column("path"), dtype=pl.String)  # type: ignore[attr-defined]
    is_node = is_node_key(paths, cut)
    result, start = [], 0
    for span, stop in zip(found, stops, strict=True):
        kept = [
            end
            for before, end in zip([start, *span.ends], span.ends, strict=False)
            if end == stop or not is_node[end - 1] or end - before >= cut.rows_min
        ]
        result.append(CutSpan(kept, span.is_closed))
        start = stop
    return result


def cut_by_the_job(table: object, stops: Sequence[int], cut: LeafCut) -> list[CutSpan]:
    """Whatever ends a span ends its leaf: it stops at the touched leaf, short or not."""
    return [each._replace(is_closed=True) for each in cut_spans(table, stops, cut)]


def stops_anywhere(self: SpanWork, *arguments: object) -> None:
    """It stops at any cut by a rule, even if the old tree has no cut at that row."""
    _base, _bases, laid, stops, cuts = arguments
    start = 0
    for span, stop, found in zip(self._spans, stops, cuts, strict=True):  # type: ignore[call-overload]
        self._done.append(spans._Done(span.first, span.last, len(self._rounds), start, stop, found.ends))
        start = stop
    self._rounds.append(laid)
    self._spans = []


def never_glued(closing: pl.Series, count: int, changes: pl.DataFrame) -> list[int]:
    upto = np.append(changes["path"].search_sorted(closing, side="right").to_numpy().astype(np.int64), changes.height)
    return np.flatnonzero(np.diff(upto, prepend=0)[:count] > 0).tolist()


MUTANTS: list[tuple[object, str, Callable[..., object]]] = [
    (spans, "cut_spans", counted_over_the_nodes_end),
    (spans, "cut_spans", cut_by_the_job),
    (SpanWork, "_settle", stops_anywhere),
]


@pytest.mark.parametrize(("where", "name", "mutant"), MUTANTS)
def test_without_a_rule_trees_depend_on_history(
    where: object, name: str, mutant: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, mutant)
    assert not survives(range(25))


def test_a_node_that_lost_its_key_needs_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.lake.core.committed.leaves.grove.touched_nodes", never_glued)
    assert not survives(range(60))


def survives(seeds: range) -> bool:
    try:
        return histories(seeds) == 0
    except (AssertionError, ValueError, IndexError):
        return False


def test_random_edits_of_a_large_tree() -> None:
    grove = Grove(LEAF_CUT)
    built, tree = grove.tree(TREE), dict(TREE)
    for step in range(5):
        edit = {f"table/part-{number:05}": entry(step) for number in range(step, 6000, 911)}
        gone = dict.fromkeys(f"table/part-{number:05}" for number in range(step * 7, 6000, 1009))
        tree, built = edited(tree, {**edit, **gone}), grove.build(built, changes_of({**edit, **gone}))

    assert same_tree(built, Grove(LEAF_CUT).tree(tree))
