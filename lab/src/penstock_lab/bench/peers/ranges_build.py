"""Building a tree: a parent metarange overlaid by changes, at the cost of what the changes touch.

Three steps, so that threads, members and Spark share them:

1. `plan_build` finds which segments of the parent the changes touch, and makes **jobs**: spans of whole segments with
   the changes that fall into them. Every job begins and ends where a boundary key stays, so its ranges depend on
   nothing outside it, and boundaries re-synchronise at its end by construction.
2. For each job, in any order and anywhere: load its ranges, `overlay` its changes, `cut` the rows, encode the pieces.
3. `finish_build` puts the pieces between the untouched ranges, which are taken by reference.

A piece with the id of a range that the parent (or a source of a merge) has is referred to, not written: L15 allows
that, and nothing else that "exists already".
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.lake.core.committed.boundary import CHUNKING, Chunking, cut, is_boundary
from penstock.lake.core.committed.changes import CHANGE_SCHEMA, overlay_rows, puts_of
from penstock.lake.core.committed.columns import column_of, table_with
from penstock.lake.core.committed.entry import STORED_COLUMNS, is_ascending, row_of
from penstock.lake.core.committed.metarange import Location, MetaRange, Range
from penstock.lake.core.committed.range import EncodedRange, encode_ranges, table_of

__all__ = ["JOB_ROWS", "RangeJob", "finish_build", "pieces_of", "plan_build", "to_range"]

JOB_ROWS: Final = 1 << 16  # adjacent segments share a job up to this many rows: fewer and larger calls

_WINDOW_MEANS: Final = 4  # how far to look for a boundary key to divide additions at: nearly always there is one

Rows = npt.NDArray[np.int64]


class RangeJob(msgspec.Struct, frozen=True, gc=False):
    """A span of whole segments to write again: the parent's ranges [first, last), the changes [start, end)."""

    first: int
    last: int
    start: int
    end: int


def plan_build(
    parent: MetaRange, changes: pl.DataFrame, chunking: Chunking = CHUNKING, job_rows: int = JOB_ROWS
) -> list[RangeJob]:
    """The jobs which turn the parent into the parent overlaid by the changes, in key order."""
    if changes.height == 0:
        return []
    assert changes.schema == CHANGE_SCHEMA, changes.schema
    assert is_ascending(changes["path"]), "the paths of changes must be strictly ascending"
    ends = _segment_ends(parent, chunking)
    change_ends = _changes_per_segment(parent, changes, ends)
    glued = _glued(parent, changes, ends)
    counts = np.concatenate([[0], np.cumsum(parent.frame["count"].to_numpy())])
    jobs: list[RangeJob] = []
    for first_segment, last_segment in _spans(ends, change_ends, glued, counts, job_rows):
        first = int(ends[first_segment - 1]) if first_segment else 0
        start = int(change_ends[first_segment - 1]) if first_segment else 0
        jobs.append(RangeJob(first, int(ends[last_segment - 1]), start, int(change_ends[last_segment - 1])))
    last = jobs.pop()
    return jobs + _split_additions(last, parent, changes, chunking, job_rows)


def _segment_ends(parent: MetaRange, chunking: Chunking) -> Rows:
    """Return where the parent's segments end; the last one is open, maybe empty: keys after all others join it."""
    return np.append(parent.segments(chunking), len(parent))


def _changes_per_segment(parent: MetaRange, changes: pl.DataFrame, ends: Rows) -> Rows:
    """Return where each segment's changes end: it takes the paths up to its boundary key; the open one takes
    the rest.
    """
    closing = parent.frame["max_key"].gather(ends[:-1] - 1)
    upto = changes["path"].search_sorted(closing, side="right").to_numpy().astype(np.int64)
    return np.append(upto, changes.height)


def _glued(parent: MetaRange, changes: pl.DataFrame, ends: Rows) -> npt.NDArray[np.bool_]:
    """Return which segments lose their boundary key, so that the next segment's rows join theirs."""
    closing = parent.frame["max_key"].gather(ends[:-1] - 1)
    removed = changes.filter(~pl.col("is_live"))["path"]
    return np.append(closing.is_in(removed.implode()).to_numpy(), False)


def _spans(
    ends: Rows, change_ends: Rows, glued: npt.NDArray[np.bool_], counts: Rows, job_rows: int
) -> list[tuple[int, int]]:
    """Touched segments as spans [first, last): glued ones together, neighbours together while they are few rows."""
    touched = np.diff(change_ends, prepend=0) > 0
    touched[1:] |= glued[:-1]
    spans: list[tuple[int, int]] = []
    rows = 0
    for segment in np.flatnonzero(touched).tolist():
        before = int(ends[segment - 1]) if segment else 0
        own = int(counts[ends[segment]] - counts[before]) + int(change_ends[segment])
        own -= int(change_ends[segment - 1]) if segment else 0
        adjacent = bool(spans) and spans[-1][1] == segment
        if adjacent and (glued[segment - 1] or rows + own <= job_rows):
            spans[-1] = (spans[-1][0], segment + 1)
            rows += own
        else:
            spans.append((segment, segment + 1))
            rows = own
    return spans


def _split_additions(
    job: RangeJob, parent: MetaRange, changes: pl.DataFrame, chunking: Chunking, job_rows: int
) -> list[RangeJob]:
    """The last job, divided at boundary keys which are put behind everything the parent has."""
    if job.end - job.start <= job_rows or job.last != len(parent):
        return [job]
    beyond = max(job.start, row_of(changes, parent.max_keys[-1], behind=True) if len(parent) else 0)
    cuts = [job.start]
    for wanted in range(job.start + job_rows, job.end, job_rows):
        start = max(wanted, beyond, cuts[-1])
        near = changes.slice(start, _WINDOW_MEANS * chunking.rows_mean)
        found = np.flatnonzero(is_boundary(near["path"], chunking) & near["is_live"].to_numpy())
        if len(found) and start + found[0] + 1 < job.end:
            cuts.append(start + int(found[0]) + 1)
    cuts.append(job.end)
    spans = list(pairwise(cuts))
    return [RangeJob(job.first, job.last, *spans[0]), *(RangeJob(job.last, job.last, *span) for span in spans[1:])]


def pieces_of(base: Sequence[pa.Table], changes: pl.DataFrame, chunking: Chunking = CHUNKING) -> list[EncodedRange]:
    """The new ranges of one job.

    `base` are its ranges, `changes` its own changes. Inside the parent's ranges there is no boundary key, so only their
    ends and new paths can be one. Arrow's tables from file to file: what a row does not decide is copied once, and
    never made anything else.
    """
    new = table_of(puts_of(changes))
    if not base:
        return encode_ranges(new, cut(new, chunking))
    both = [*base, new]
    bases = np.cumsum([each.num_rows for each in base])
    count = int(bases[-1])
    paths = column_of(both, "path")
    old_paths = paths.slice(0, count)
    rows, replaced = overlay_rows(pl.Series("path", old_paths, dtype=pl.String), changes)
    chosen = pa.array(rows)
    # Column by column, so that memory which is warm is used again.
    others = {name: column_of(both, name).take(chosen) for name in STORED_COLUMNS}
    is_new = replaced < 0
    keeps_paths = len(rows) == count and not is_new.any()
    table = table_with({"path": old_paths if keeps_paths else paths.take(chosen), **others})
    is_candidate = np.zeros(count + new.num_rows, np.bool_)
    is_candidate[bases - 1] = True
    is_candidate[count:] = is_new | is_candidate[replaced]
    return encode_ranges(table, cut(table, chunking, candidates=np.flatnonzero(is_candidate[rows])))


def to_range(piece: EncodedRange, known: Mapping[str, str], location: Location) -> Range:
    """A piece as a row: where it is known to be already, else where it will be written."""
    where = Location(known.get(piece.id, location))
    return Range(piece.id, piece.min_key, piece.max_key, piece.count, piece.size, where)


def finish_build(parent: MetaRange, jobs: Sequence[RangeJob], pieces: Sequence[Sequence[Range]]) -> MetaRange:
    """The new tree: each job's ranges in place of those it replaced, all others by reference."""
    frames: list[pl.DataFrame] = []
    at = 0
    for job, ranges in zip(jobs, pieces, strict=True):
        frames += [parent.frame.slice(at, job.first - at), MetaRange.of_ranges(ranges).frame]
        at = job.last
    return MetaRange(pl.concat([*frames, parent.frame.slice(at)]).rechunk())
