"""What Java reads of journals, planned once on the driver: files and spans of frames, or requests to Python workers.

    {"workers": {"python", "daemon", "has_daemon", "environment"}, "parts": [...]}

A part of the first kind names fragments and which of their frames are read; Java opens the files and makes columns of
the frames. It is for Arrow frames and for lines of JSON whose columns are texts, numbers and booleans, in fragments
which lie uncompressed in files which this machine sees. A part of the second kind is a Range, which a worker reads as
it reads it for the format `journal`; it is for everything else: CSV and raw frames, other columns of JSON, buckets,
compressed fragments, bytes which only brokers have, columns about messages.
"""

import base64
import pickle
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import msgspec
import numpy as np

from penstock.journals.records.fragment import Fragment
from penstock.journals.records.protocol import JournalInfo
from penstock.journals.records.reading import cover
from penstock.kernel.errors import MalformedFrame, StorageError
from penstock.kernel.ids import Offset
from penstock.messages.columns import I64
from penstock.messages.framing.fixed import BODY_AT
from penstock.messages.read_state import ReadState
from penstock.plumbing.process.logs import get_logger
from penstock.spark.journals.frame_places import PLACES, FramePlaces, MappedContent, file_of, run_around
from penstock.spark.journals.journal_source import JournalReader
from penstock.spark.journals.line_places import JAVA_TYPES, LineContent, LinePlaces, LineSpans
from penstock.spark.journals.ranges import Range, RangeReader
from penstock.spark.shared.rows import METADATA
from penstock.spark.shared.schemas import arrow_schema, framing_of

__all__ = ["FramesPart", "Part", "WorkerPart", "plan_parts", "plan_text"]

log = get_logger()
SPANS_MAX: Final = 1 << 20  # of one journal: a plan is held in memory, and sent to Java as text


class FramesPart(msgspec.Struct, frozen=True):
    """Frames in files. See `jvm/Part.java`."""

    journal: str
    files: list[str]
    begins: list[int]
    froms: list[int]
    tos: list[int]
    sums: list[str | None]
    spans: list[int]
    are_lines: bool = False
    request: str | None = None  # for the worker which reads on where lines are not plain


class WorkerPart(msgspec.Struct, frozen=True):
    """A Range for a Python worker: pickled, as Spark hands ranges to its own Python sources."""

    journal: str
    request: str


Part = FramesPart | WorkerPart


def plan_parts(reader: JournalReader, *, are_files_shared: bool) -> list[Part]:
    """The parts of a DataFrame. `are_files_shared`: who reads sees the files which the planner sees."""
    frames: list[Part] = []
    ranges: list[Part] = []
    for info, begin, end in reader.wholes():
        if are_files_shared and begin < end and _is_for_java(reader, info):
            parts, begin = _frames_parts(reader, info, begin, end)
            frames += parts
        ranges += [_worker_part(reader, part) for part in reader.split(info, begin, end)]
    return [*ranges, *frames]  # parts that take longer to start come first


def _is_for_java(reader: JournalReader, info: JournalInfo) -> bool:
    """Return whether Java can read a journal: it knows frames of some kinds, nothing about their messages, and no way
    to continue after a bad one.
    """
    schema, options = reader.planner.schema, reader.planner.options
    if options.skips_bad or set(schema.names) & set(METADATA.names):
        return False
    framing = framing_of(info, options.framing)
    return framing == "arrow" or (framing == "json" and JAVA_TYPES.issuperset(arrow_schema(schema).types))


def _worker_part(reader: JournalReader, part: Range) -> WorkerPart:
    return WorkerPart(part.journal, _request(reader, part))


def _request(reader: JournalReader, part: Range | LineSpans) -> str:
    request = pickle.dumps((reader.planner.options, reader.planner.schema.json(), part))
    return base64.b64encode(request).decode()


def _frames_parts(reader: JournalReader, info: JournalInfo, begin: int, end: int) -> tuple[list[Part], int]:
    """Return the parts of a journal that Java reads, from its begin on, and where they end."""
    planner, journal = reader.planner, info.spec.name
    stored = cover([each for each in planner.fragments(journal) if each.backing_store])
    run = run_around(stored, begin)
    if not run:
        return [], begin
    end = min(end, run[-1].end)
    plain = planner.reader(planner.range(info, journal, begin, end, None), use_threads=True)
    state: ReadState = plain.state_at(begin)
    if state.begin < run[0].begin:  # messages which are pending there lie elsewhere
        return [], begin
    part = planner.range(info, journal, begin, end, state.encode())
    are_lines = part.framing == "json"
    places: LinePlaces | FramePlaces
    content: MappedContent
    if are_lines:
        places = LinePlaces()
        content = LineContent(planner.access, journal, run, places)
    else:
        places = FramePlaces(arrow_schema(planner.schema))
        content = MappedContent(planner.access, journal, run)
    ranges = RangeReader(
        planner.access,
        planner.options,
        part,
        PLACES,
        use_threads=True,
        decoder=places,
        content=content,
        is_ordered=False,
    )
    frames = _frames(ranges, places)
    if frames is None:
        return [], begin
    cuts = _cuts(run, begin, end, planner.options.split_bytes)
    parts = _cut(journal, run, frames, cuts, are_lines=are_lines)
    if are_lines:
        parts = (
            msgspec.structs.replace(each, request=_request(reader, LineSpans(journal, each.spans))) for each in parts
        )
    return list(parts), end


def _frames(ranges: RangeReader, places: FramePlaces | LinePlaces) -> I64 | None:
    """Begins and ends of frames, in the journal's order; None if some are not for Java, or too scattered."""
    found = [np.empty((2, 0), np.int64)]
    try:
        for batch in ranges.batches():
            if not places.is_plain:
                return None
            found.append(np.stack([batch.column(0).to_numpy(), batch.column(1).to_numpy()]))
    except (MalformedFrame, StorageError) as error:
        log.warning("journal is read by workers instead", reason=str(error))
        return None
    frames = np.concatenate(found, axis=1)
    if not places.is_plain or len(frames[0]) > SPANS_MAX:
        return None
    return frames[:, np.argsort(frames[0], kind="stable")]


def _cuts(run: list[Fragment], begin: int, end: int, split_bytes: int) -> list[int]:
    """Return where parts begin, and the end: at the begin of a Fragment if one is near, since its checksum is then
    compared.
    """
    count = max(1, round((end - begin) / split_bytes))
    wanted = [begin + (end - begin) * number // count for number in range(1, count)]
    begins = [int(each.begin) for each in run]
    near = [min(begins, key=lambda each, cut=cut: abs(each - cut)) for cut in wanted]  # type: ignore[misc]
    cuts = [at if abs(at - cut) <= split_bytes // 2 else cut for at, cut in zip(near, wanted, strict=True)]
    return [run[0].begin, *sorted({cut for cut in cuts if begin < cut < end}), end]


def _cut(journal: str, run: list[Fragment], frames: I64, cuts: list[int], *, are_lines: bool) -> Iterator[FramesPart]:
    begins, ends = frames
    for first, last in pairwise(cuts):
        rows = slice(int(np.searchsorted(begins, first)), int(np.searchsorted(begins, last)))
        if len(begins[rows]):
            spans = _spans(begins[rows], ends[rows], () if are_lines else (BODY_AT,))
            yield msgspec.structs.replace(_part(journal, run, spans, first, last), are_lines=are_lines)


def _spans(begins: I64, ends: I64, empty: tuple[int, ...]) -> list[int]:
    """Frames which follow one another are one span, also across a frame without body, which has one of these sizes."""
    breaks = np.flatnonzero(~np.isin(begins[1:] - ends[:-1], (0, *empty)))
    firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(begins) - 1)
    return [int(each) for each in np.stack([begins[firsts], ends[lasts]], axis=1).ravel()]


def _part(journal: str, run: list[Fragment], spans: list[int], first: int, last: int) -> FramesPart:
    """Fragments within [first, last) are read as a whole and their sums compared; of the others only the needed
    bytes.
    """
    part = FramesPart(journal, [], [], [], [], [], spans)
    for fragment in run:
        before = bisect_right(spans, fragment.begin)
        is_used = before % 2 == 1 or (before < len(spans) and spans[before] < fragment.end)
        if not is_used:
            continue
        is_whole = first <= fragment.begin and fragment.end <= last
        part.files.append(file_of(fragment).as_uri())
        part.begins.append(fragment.begin)
        part.froms.append(fragment.begin if is_whole else max(fragment.begin, Offset(spans[0])))
        part.tos.append(fragment.end if is_whole else min(fragment.end, Offset(spans[-1])))
        part.sums.append(base64.b64encode(fragment.sum).decode() if is_whole else None)
    return part


def plan_text(parts: list[Part], workers: dict[str, Any]) -> str:
    """The plan, as Java reads it."""
    return msgspec.json.encode({"workers": workers, "parts": parts}).decode()
