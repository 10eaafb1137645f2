"""Recut what changes touch: from the first row of a touched leaf to where a new cut falls on an old one.

1. `plan_jobs` divides opened nodes into jobs. A job ends with a node key that stays, so it depends on nothing outside.
2. `SpanWork` is one job: it names leaves to load, takes their rows, lays the changes over them and cuts them again. A
   span whose new cuts have not met the old ones at its end takes one leaf more. No later leaf is read.
3. `made` says what the job's part of the tree is: old leaves by reference, and new ones with their rows.

The same jobs build format 3 out of a tree of format 2 (then every range is touched), or out of nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.changes import CHANGE_SCHEMA, overlay_rows, puts_of
from penstock.lake.core.committed.columns import column_of, joined, rows_of, table_with
from penstock.lake.core.committed.contents import Contents
from penstock.lake.core.committed.entry import ENTRY_SCHEMA, is_ascending
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, CutSpan, LeafCut, cut_spans, is_node_key
from penstock.lake.core.committed.leaves.node import LEAF_SCHEMA, leaves_of
from penstock.lake.core.committed.range import table_of

__all__ = ["JOB_ROWS", "LeafJob", "MadeLeaves", "Place", "SpanWork", "places_of", "plan_jobs", "touched_nodes"]

FEW_CHANGES: Final = 4096  # are looked up one by one
JOB_ROWS: Final = 1 << 17  # touched rows of one job, more or less

Rows = npt.NDArray[np.int64]
Place = tuple[str, int, int]  # pack, row group, first row

_PLACE: Final = ("pack", "group", "first")


class LeafJob(msgspec.Struct, frozen=True, gc=False):
    """The opened leaves [first, last), which end with a node key that stays, and their changes [start, end)."""

    first: int
    last: int
    start: int
    end: int


class MadeLeaves(NamedTuple):
    """A part of the new tree: its leaves, and the rows of those without a place, in order."""

    leaves: pl.DataFrame
    table: pa.Table | None
    neighbours: list[bool]  # of each leaf without a place: whether the one before it has none either


def touched_nodes(closing: pl.Series, count: int, changes: pl.DataFrame) -> list[int]:
    """Return which of a tree's nodes must be opened; `closing` are the node keys of all that end with one.

    A node takes the changes up to its node key, and an open last node the rest. If a change removes a node key, the
    next node's rows join this one's.
    """
    if not count or not changes.height:
        return []
    keys = closing.to_list()
    upto = np.append(_counts_upto(changes["path"], keys), changes.height)
    touched = np.diff(upto, prepend=0) > 0
    removed = set(changes["path"].filter(~changes["is_live"]).to_list())
    touched[1:] |= np.array([key in removed for key in keys], np.bool_) & touched[:-1]
    return np.flatnonzero(touched[:count]).tolist()


def plan_jobs(
    opened: Contents,
    changes: pl.DataFrame,
    cut: LeafCut = LEAF_CUT,
    job_rows: int = JOB_ROWS,
    *,
    everything: bool = False,
) -> list[LeafJob]:
    """Return the jobs that overlay opened nodes, in key order; with `everything`, all leaves count as touched."""
    assert changes.schema == CHANGE_SCHEMA, changes.schema
    assert is_ascending(changes["path"]), "the paths of changes must be strictly ascending"
    if not len(opened) and not changes.height:
        return []
    ends, change_ends = _stretches(opened, changes, cut)
    rows = _rows_to_read(opened, changes, everything=everything)
    jobs: list[LeafJob] = []
    first = start = 0
    for last, end in zip(ends, change_ends, strict=True):
        is_last = last == ends[-1] and end == change_ends[-1]
        if is_last or int(rows[last] - rows[first]) + end - start >= job_rows:
            jobs.append(LeafJob(first, last, start, end))
            first, start = last, end
    jobs = [job for job in jobs if job.first < job.last or job.start < job.end]
    return [each for job in jobs for each in _split_additions(job, opened, changes, cut, job_rows)]


def _stretches(opened: Contents, changes: pl.DataFrame, cut: LeafCut) -> tuple[list[int], list[int]]:
    """Return the leaf and the change after each node key that stays; the last stretch is open, maybe empty."""
    frame = opened.frame
    ends = np.flatnonzero(is_node_key(frame["max_key"], cut)) + 1
    removed = set(changes["path"].filter(~changes["is_live"]).to_list())
    stay = [end for end in ends.tolist() if opened.max_keys[end - 1] not in removed]
    upto = _counts_upto(changes["path"], [opened.max_keys[end - 1] for end in stay])
    return [*stay, len(opened)], [*upto, changes.height]


def _counts_upto(paths: pl.Series, keys: Sequence[str]) -> list[int]:
    """Return how many of the sorted paths are not after each key: few keys, and a search of Polars is not cheap."""
    items: Any = paths
    return [bisect_right(items, key) for key in keys]


def _rows_to_read(opened: Contents, changes: pl.DataFrame, *, everything: bool) -> Rows:
    """Return the number of touched leaves' rows before each leaf, and before the end."""
    counts = opened.frame["count"].to_numpy().copy()
    if not everything and len(counts):
        is_touched = np.zeros(len(counts), np.bool_)
        is_touched[_leaf_of(opened, changes)] = True
        counts[~is_touched] = 0
    result: Rows = np.concatenate([[0], np.cumsum(counts)])
    return result


def _leaf_of(opened: Contents, changes: pl.DataFrame) -> Rows:
    """Return the leaf that each change falls into; a path after all keys joins the last leaf."""
    at: Rows
    if changes.height <= FEW_CHANGES:
        keys = opened.max_keys
        at = np.array([bisect_left(keys, path) for path in changes["path"].to_list()], np.int64)
    else:
        at = opened.frame["max_key"].search_sorted(changes["path"], side="left").to_numpy().astype(np.int64)
    leaf: Rows = np.minimum(at, len(opened) - 1)
    return leaf


def _split_additions(
    job: LeafJob, opened: Contents, changes: pl.DataFrame, cut: LeafCut, job_rows: int
) -> list[LeafJob]:
    """Return the job, divided at node keys that are put behind everything that is opened."""
    if job.end - job.start <= job_rows or job.last != len(opened):
        return [job]
    own = changes.slice(job.start, job.end - job.start)
    beyond = int(own["path"].search_sorted(opened.max_keys[-1], side="right")) if len(opened) else 0
    found = np.flatnonzero(is_node_key(own["path"], cut) & own["is_live"].to_numpy()) + 1
    cuts = [0]
    for end in found[found > beyond].tolist():
        if end - cuts[-1] >= job_rows and end < own.height:
            cuts.append(end)
    spans = [(job.start + start, job.start + end) for start, end in pairwise([*cuts, own.height])]
    return [LeafJob(job.first, job.last, *spans[0]), *(LeafJob(job.last, job.last, *span) for span in spans[1:])]


class _Span(msgspec.Struct):
    """Leaves [first, last) that are cut again together, with the changes [start, end)."""

    first: int
    last: int
    start: int
    end: int


class _Done(NamedTuple):
    """Leaves [first, last), cut again: rows [start, stop) of one round's table, and the row after each new leaf."""

    first: int
    last: int
    round: int
    start: int
    stop: int
    ends: list[int]


class SpanWork:
    """One job. Ask `wanted` for leaves to load, and `take` their rows, until nothing is wanted; then it is `made`."""

    def __init__(
        self, opened: Contents, changes: pl.DataFrame, cut: LeafCut = LEAF_CUT, *, everything: bool = False
    ) -> None:
        self._opened = opened
        self._changes = changes
        self._cut = cut
        self._rows: dict[int, pa.Table] = {}  # of leaves in spans that are not done
        self._done: list[_Done] = []
        self._rounds: list[pa.Table] = []  # the rows of all spans, as each round has laid them over
        self._spans = self._touched(everything=everything)
        self.touched = sum(span.last - span.first for span in self._spans)

    def _touched(self, *, everything: bool) -> list[_Span]:
        count, height = len(self._opened), self._changes.height
        if everything or not count:
            return [_Span(0, count, 0, height)] if count or height else []
        if not height:
            return []
        leaf = _leaf_of(self._opened, self._changes)
        spans: list[_Span] = []
        firsts = np.flatnonzero(np.diff(leaf, prepend=-1))
        for row, start, end in zip(leaf[firsts].tolist(), firsts.tolist(), [*firsts[1:].tolist(), height], strict=True):
            _append(spans, _Span(row, row + 1, start, end))
        return spans

    def wanted(self) -> list[int]:
        """Return the leaves to load next, in order."""
        return [row for span in self._spans for row in range(span.first, span.last) if row not in self._rows]

    @property
    def is_done(self) -> bool:
        return not self._spans

    def take(self, table: pa.Table | None, counts: Sequence[int]) -> None:
        """Take the rows of the wanted leaves, in order; `counts` says how many each leaf has."""
        spans = self._spans
        if self._rows or len(counts) != sum(span.last - span.first for span in spans):
            table = self._with_earlier(table, counts)
        rows_of = self._opened.frame["count"]
        bases = np.asarray([int(rows_of.slice(each.first, each.last - each.first).sum()) for each in spans], np.int64)
        changes = self._changes[np.concatenate([np.arange(span.start, span.end) for span in spans])]
        laid, stops = _laid_over(table, bases, changes, [span.end - span.start for span in spans])
        cuts = cut_spans(laid, stops, self._cut)
        self._settle(table, bases, laid, stops, cuts)

    def _with_earlier(self, table: pa.Table | None, counts: Sequence[int]) -> pa.Table | None:
        start = 0
        for row, count in zip(self.wanted(), counts, strict=True):
            assert table is not None
            self._rows[row] = table.slice(start, count)
            start += count
        rows = [self._rows[row] for span in self._spans for row in range(span.first, span.last)]
        return joined(rows) if rows else None

    def _settle(
        self, base: pa.Table | None, bases: Rows, laid: pa.Table, stops: Sequence[int], cuts: Sequence[CutSpan]
    ) -> None:
        """Keep spans whose last cut did not move; extend the others by one leaf."""
        rest: list[_Span] = []
        rows: dict[int, pa.Table] = {}
        counts = self._opened.frame["count"]
        paths = laid.column("path")
        base_at = start = 0
        for span, base_rows, stop, found in zip(self._spans, bases.tolist(), stops, cuts, strict=True):
            if span.last == len(self._opened) or (
                found.is_closed and paths[stop - 1].as_py() == self._opened.max_keys[span.last - 1]
            ):
                self._done.append(_Done(span.first, span.last, len(self._rounds), start, stop, found.ends))
            else:
                assert base is not None
                at = base_at
                for row in range(span.first, span.last):
                    rows[row] = base.slice(at, counts[row])
                    at += counts[row]
                _append(rest, _Span(span.first, span.last + 1, span.start, span.end))
            base_at += base_rows
            start = stop
        self._rounds.append(laid)
        self._rows, self._spans = rows, self._apart(rest)

    def _apart(self, spans: list[_Span]) -> list[_Span]:
        """Return the spans; a span that has grown into a finished one takes it over, and does its work again."""
        for span in spans:
            while met := [each for each in self._done if each.first < span.last and each.last > span.first]:
                for each in met:
                    self._done.remove(each)
                    span.last = max(span.last, each.last)
                span.end = max(span.end, self._end_of_changes(span.last))
        joined_spans: list[_Span] = []
        for span in sorted(spans, key=lambda each: each.first):
            _append(joined_spans, span)
        return joined_spans

    def _end_of_changes(self, last: int) -> int:
        if last == len(self._opened):
            return self._changes.height
        return int(self._changes["path"].search_sorted(self._opened.max_keys[last - 1], side="right"))

    def made(self, sources: Mapping[str, Place]) -> MadeLeaves:
        """Return the job's part of the tree. A leaf that the parent or a source has already is referred to there."""
        done = sorted(self._done)
        if not done:
            return MadeLeaves(self._opened.frame, None, [])
        rows, ends = self._all_rows(done)
        is_old = np.ones(len(self._opened), np.bool_)
        for each in done:
            is_old[each.first : each.last] = False
        new = _placed(leaves_of(rows, ends), {**sources, **places_of(self._opened.frame.filter(pl.Series(~is_old)))})
        if not is_old.any():
            leaves = new
        else:
            leaves = pl.concat([self._opened.frame.filter(pl.Series(is_old)), new]).sort("min_key")
        is_new = (new["pack"] == "").to_list()
        follows = [row > 0 for each in done for row in range(len(each.ends))]  # the leaf before, in its span
        neighbours = [follows[row] and is_new[row - 1] for row in range(len(is_new)) if is_new[row]]
        tables = _runs(rows, ends, is_new)
        return MadeLeaves(leaves, joined(tables) if tables else None, neighbours)

    def _all_rows(self, done: Sequence[_Done]) -> tuple[pa.Table, list[int]]:
        """Return the rows of new leaves, in order, and the row after each leaf."""
        pieces: list[list[int]] = []  # round, first row, row after the last: neighbours in one
        ends: list[int] = []
        count = 0
        for each in done:
            ends += [count + end - each.start for end in each.ends]
            count += each.stop - each.start
            if pieces and pieces[-1][0] == each.round and pieces[-1][2] == each.start:
                pieces[-1][2] = each.stop
            else:
                pieces.append([each.round, each.start, each.stop])
        return joined([self._rounds[each].slice(start, stop - start) for each, start, stop in pieces]), ends


def _append(spans: list[_Span], span: _Span) -> None:
    """Add a span at the end; neighbours are one."""
    if spans and spans[-1].last >= span.first and span.first != span.last:
        spans[-1].last = max(spans[-1].last, span.last)
        spans[-1].end = max(spans[-1].end, span.end)
    else:
        spans.append(span)


def _laid_over(
    base: pa.Table | None, bases: Rows, changes: pl.DataFrame, changes_each: Sequence[int]
) -> tuple[pa.Table, list[int]]:
    """Return the rows of all spans with their changes, and the row after each span."""
    new = table_of(puts_of(changes))
    span_of = np.repeat(np.arange(len(bases)), changes_each)
    is_live = changes["is_live"].to_numpy()
    if base is None:
        return new, np.cumsum(np.bincount(span_of[is_live], minlength=len(bases))).tolist()
    both = [base, new]
    old = pl.Series("path", base.column("path"), dtype=pl.String)
    rows, replaced = overlay_rows(old, changes)
    added = np.bincount(span_of[is_live][replaced < 0], minlength=len(bases))
    removed = np.bincount(
        span_of[~is_live][_is_among(old, changes.filter(~pl.col("is_live"))["path"])], minlength=len(bases)
    )
    chosen = pa.array(rows)
    table = table_with({name: column_of(both, name).take(chosen) for name in ENTRY_SCHEMA.names()})
    return table, np.cumsum(bases + added - removed).tolist()


def places_of(leaves: pl.DataFrame) -> dict[str, Place]:
    """Return where leaves lie, by id. Ranges of format 2 are no leaves."""
    if "pack" not in leaves.columns:
        return {}
    return {id_: (pack, group, first) for id_, pack, group, first in rows_of(leaves, "id", *_PLACE)}


def _is_among(paths: pl.Series, some: pl.Series) -> npt.NDArray[np.bool_]:
    at = paths.search_sorted(some).to_numpy().astype(np.int64)
    return (paths.gather(np.minimum(at, len(paths) - 1)) == some).to_numpy()


def _placed(leaves: pl.DataFrame, known: Mapping[str, Place]) -> pl.DataFrame:
    places = [known.get(id_) for id_ in leaves["id"]]
    if not any(places):
        return leaves
    columns = zip(*(place or ("", 0, 0) for place in places), strict=True)
    return leaves.with_columns(
        pl.Series(name, list(values), LEAF_SCHEMA[name]) for name, values in zip(_PLACE, columns, strict=True)
    )


def _runs(table: pa.Table, ends: Sequence[int], wanted: Sequence[bool]) -> list[pa.Table]:
    """Return the rows of the wanted leaves; neighbours in one slice."""
    runs: list[list[int]] = []
    for (start, end), is_wanted in zip(pairwise([0, *ends]), wanted, strict=True):
        if is_wanted and runs and runs[-1][1] == start:
            runs[-1][1] = end
        elif is_wanted:
            runs.append([start, end])
    return [table.slice(start, end - start) for start, end in runs]
