"""Reading journals with Spark: a batch reader, and a stream reader with offsets. Design: spark.md.

Planning happens on the driver: which journals there are, how far they have come, what of it this batch reads. A stream
decides all of that in `latestOffset`, and puts it into the offset; `partitions` and `read` look at nothing but the
offsets, so a replayed batch reads the same messages again.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from penstock.journals.records.fragment import CompressionCodec, Fragment
from penstock.journals.records.protocol import JournalInfo, ReadHeader
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import Gone, NotFound, PenstockError
from penstock.messages.framing.compiled import IS_COMPILED
from penstock.plumbing.process.logs import get_logger
from penstock.spark.journals.bins import Bin, bins_of, read_ranges
from penstock.spark.journals.ranges import Range, RangeReader, shared_access
from penstock.spark.options import SourceOptions
from penstock.spark.shared.content import Access
from penstock.spark.shared.offsets import NOTHING_READ, StreamOffset
from penstock.spark.shared.schemas import arrow_schema, framing_of
from penstock.spark.versions import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

__all__ = ["JournalReader", "JournalStreamReader", "Planner", "limited"]

TASKS_PER_CORE: Final = 2
SKEW_S: Final = 600  # by how much the clocks of publishers and of the store may differ
HEADS_S: Final = 0.15  # how long heads are believed: Spark asks some hundred times a second
log = get_logger()


class Head(msgspec.Struct, frozen=True):
    """Where a journal begins (at or after a given offset), and how far it has come."""

    begin: int
    end: int


@cache
def _note_loops() -> None:
    """Log once in a process that messages are read without compiled loops."""
    if not IS_COMPILED:
        log.info("compiled loops missing", reads_with="NumPy", install="pip install 'penstock[fast]'")


class Planner:
    """What both readers ask of brokers."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        _note_loops()

    @property
    def access(self) -> Access:
        return shared_access(self.options.connection)

    def journals(self) -> dict[str, JournalInfo]:
        found = self.access.ask(lambda: self.access.journals.list(self.options.selector))
        return {each.spec.name: each for each in sorted(found, key=lambda one: one.spec.name)}

    def heads(self, begins: dict[str, int]) -> dict[str, Head]:
        """Return for each journal the first offset, from the given one, that still exists, and its end."""
        headers: list[ReadHeader] = self.access.ask(lambda: self._stats(begins))
        return {
            journal: Head(max(header.offset, begin), header.write_head)
            for (journal, begin), header in zip(begins.items(), headers, strict=True)
        }

    def now(self) -> dict[str, Head]:
        """Return the head of every journal."""
        return self.heads(dict.fromkeys(self.journals(), 0))

    async def _stats(self, begins: dict[str, int]) -> list[ReadHeader]:
        stat = self.access.journals.stat
        return await asyncio.gather(*(stat(journal, begin) for journal, begin in begins.items()))

    def since(self, journal: str, begin: int) -> int:
        """Return where to begin for a time: fragments that were stored long before it have nothing of it."""
        if self.options.starting_ns is None:
            return begin
        before_s = self.options.starting_ns // 1_000_000_000 - SKEW_S
        for fragment in self.fragments(journal):
            if fragment.begin <= begin and 0 < fragment.mod_time < before_s:
                begin = max(begin, fragment.end)
        return begin

    def fragments(self, journal: str) -> tuple[Fragment, ...]:
        return self.access.ask(lambda: self.access.journals.fragments(journal)).fragments  # type: ignore[no-any-return]

    def range(self, info: JournalInfo | None, journal: str, begin: int, end: int, state: bytes | None) -> Range:
        spec = info.spec if info is not None else JournalSpec(name=journal)
        store = spec.fragment.stores[0] if spec.fragment.stores else ""
        framing = framing_of(info, self.options.framing) if info is not None else self.options.framing or "json"
        return Range(journal, begin, end, framing, store, state)

    def reader(self, part: Range, *, use_threads: bool) -> RangeReader:
        return RangeReader(self.access, self.options, part, arrow_schema(self.schema), use_threads=use_threads)


class JournalReader(DataSourceReader):
    """A batch: from given offsets or times to others, in ranges which tasks read side by side."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self.planner = Planner(options, schema)

    def partitions(self) -> list[InputPartition]:
        """Runs on the driver, once per DataFrame."""
        whole, parts = list[Range](), list[InputPartition]()
        for info, begin, end in self.wholes():
            found = self.split(info, begin, end)
            if len(found) == 1:
                whole += found
            else:
                parts += found
        return [*parts, *bins_of(whole, len(whole), self.planner.options.split_bytes)] or [InputPartition(None)]

    def wholes(self) -> Iterator[tuple[JournalInfo, int, int]]:
        """The journals, and from where to where each is read."""
        planner, options = self.planner, self.planner.options
        infos = planner.journals()
        if not infos:
            raise NotFound(f"no journal fits {options.selector}", next_step="penstock journals list")
        heads = planner.heads(dict.fromkeys(infos, 0))
        for journal, head in heads.items():
            begin, end = self._begin(journal, head), self._end(journal, head)
            if begin < head.begin and options.fails_on_loss:
                raise _gone(journal, begin, head.begin)
            yield infos[journal], max(begin, head.begin), end

    def _begin(self, journal: str, head: Head) -> int:
        starting = self.planner.options.starting
        wanted = starting.get(journal, "earliest") if isinstance(starting, dict) else starting
        if isinstance(wanted, int):
            return wanted
        return head.end if wanted == "latest" else self.planner.since(journal, head.begin)

    def _end(self, journal: str, head: Head) -> int:
        ending = self.planner.options.ending
        wanted = ending.get(journal, "latest") if isinstance(ending, dict) else ending
        return wanted if isinstance(wanted, int) else head.begin if wanted == "earliest" else head.end

    def split(self, info: JournalInfo, begin: int, end: int) -> list[Range]:
        """Ranges of about the wanted size, each with the state at its begin."""
        if begin >= end:
            return []
        planner, journal = self.planner, info.spec.name
        count = max(1, round((end - begin) / planner.options.split_bytes))
        cuts = sorted({begin + (end - begin) * number // count for number in range(count)})
        if info.spec.fragment.compression_codec is not CompressionCodec.NONE and count > 1:
            # Into a compressed object there is no way but from its start.
            starts = [each.begin for each in planner.fragments(journal)]
            cuts = sorted({max([begin, *(start for start in starts if start <= cut)]) for cut in cuts})
        reader = planner.reader(planner.range(info, journal, begin, end, None), use_threads=True)
        states = reader.states_at(cuts)
        pairs = zip(cuts, [*cuts[1:], end], strict=True)
        return [planner.range(info, journal, first, last, states[first].encode()) for first, last in pairs]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Runs in tasks."""
        if isinstance(partition, Range | Bin):
            yield from read_ranges(partition, lambda each: self.planner.reader(each, use_threads=False).batches())


class JournalStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: micro-batches of the new bytes of journals. A task reads whole journals, some megabytes of them."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._planner = Planner(options, schema)
        self._known: tuple[float, dict[str, JournalInfo], dict[str, Head]] | None = None
        self._target = options.until  # the ends of a run that stops at the present ends
        self._planned: dict[str, Any] = {}  # the end of the newest batch; Spark tells it at a restart too
        self._commits = 0

    # On the driver, by one object for a whole run.

    def initialOffset(self) -> dict[str, Any]:
        return NOTHING_READ.to_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._planner.options.max_bytes
        return ReadAllAvailable() if limit is None else ReadMaxBytes(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        _, heads = self._look(NOTHING_READ, is_fresh=True)
        self._target = {journal: head.end for journal, head in heads.items()}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:
        """Decide the next batch: all that `partitions` and `read` depend on is decided here.

        Before 4.2 Spark tells neither start nor limit: a batch begins where the newest one ended.
        """
        start = self._planned if start is None else start
        limit = self.getDefaultReadLimit() if limit is None else limit
        begun = StreamOffset.from_dict(start)
        _, heads = self._look(begun)
        if self._target is not None:
            heads = {
                name: Head(head.begin, min(head.end, self._target[name]))
                for name, head in heads.items()
                if name in self._target
            }
        new = self._new(begun, heads)
        begins = {journal: new.get(journal, begun.to.get(journal, 0)) for journal in heads}
        ends = {journal: max(head.end, begins[journal]) for journal, head in heads.items()}
        if isinstance(limit, ReadMaxBytes):
            ends = limited(begins, ends, limit.max_bytes)
        offset = StreamOffset({**begun.to, **ends}, new)
        return start if offset.to == begun.to and not new else offset.to_dict()

    def _new(self, begun: StreamOffset, heads: dict[str, Head]) -> dict[str, int]:
        """Return where journals begin that are seen first, and where journals continue whose bytes are gone."""
        options, new = self._planner.options, dict[str, int]()
        for journal, head in heads.items():
            at = begun.to.get(journal)
            if at is None:
                new[journal] = min(self._first(journal, head, is_first_batch=not begun.to), head.end)
                if new[journal] < head.begin:
                    new[journal] = self._go_on(journal, new[journal], head)
            elif head.end < at:
                if options.fails_on_loss:
                    raise Gone(
                        f"{journal} ends at {head.end}, but was read up to {at}: it was deleted and made again",
                        next_step="set failOnDataLoss to false to read it from its begin",
                    )
                new[journal] = self._planner.heads({journal: 0})[journal].begin
            elif head.begin > at:
                new[journal] = self._go_on(journal, at, head)
        return new

    def _first(self, journal: str, head: Head, *, is_first_batch: bool) -> int:
        starting = self._planner.options.starting
        if isinstance(starting, dict):
            wanted = starting.get(journal, "earliest")
        else:
            wanted = starting if is_first_batch else "earliest"  # a journal that came later is read as a whole
        if isinstance(wanted, int):
            return wanted
        return head.end if wanted == "latest" else self._planner.since(journal, head.begin)

    def _go_on(self, journal: str, at: int, head: Head) -> int:
        if self._planner.options.fails_on_loss:
            raise _gone(journal, at, head.begin)
        log.warning("bytes are gone", journal=journal, begin=at, end=head.begin)
        return head.begin

    def _look(self, begun: StreamOffset, *, is_fresh: bool = False) -> tuple[dict[str, JournalInfo], dict[str, Head]]:
        """Journals and heads, as they are now or were a moment ago."""
        now = time.monotonic()
        if self._known is None or is_fresh or now - self._known[0] > HEADS_S:
            infos = self._planner.journals()
            heads = self._planner.heads({journal: begun.to.get(journal, 0) for journal in infos})
            self._known = now, infos, heads
        return self._known[1], self._known[2]

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return how far the journals have come: with the end of a batch it shows the lag."""
        if self._known is None:
            return None
        return StreamOffset({journal: head.end for journal, head in self._known[2].items()}).to_dict()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun, upto = StreamOffset.from_dict(start), StreamOffset.from_dict(end)
        self._planned = end
        ranges = upto.ranges(begun)
        infos = self._planner.journals() if ranges else {}
        found = [
            self._planner.range(infos.get(journal), journal, begin, upto_, None)
            for journal, (begin, upto_) in ranges.items()
        ]
        return bins_of(found, self._planner.options.tasks_max or TASKS_PER_CORE * (os.cpu_count() or 1))

    def commit(self, end: dict[str, Any]) -> None:
        """Remove states that are no longer needed, once in a while. It is advice only: a failure must not end the
        query.
        """
        self._commits += 1
        if self._commits % 100:
            return
        try:
            infos = self._planner.journals()
            for journal, upto in StreamOffset.from_dict(end).to.items():
                part = self._planner.range(infos.get(journal), journal, upto, upto, None)
                states = self._planner.reader(part, use_threads=False).states
                self._planner.access.run(states.drop_old(upto))
        except PenstockError as error:
            log.warning("old states are not removed", reason=str(error))

    # In tasks, by a copy as it was at construction.

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, Range | Bin):
            yield from read_ranges(partition, lambda each: self._planner.reader(each, use_threads=True).batches())


def limited(begins: dict[str, int], ends: dict[str, int], max_bytes: int) -> dict[str, int]:
    """Return ends such that at most `max_bytes` are read: each journal gets its share by its size."""
    there = {journal: ends[journal] - begins[journal] for journal in ends}
    total = sum(there.values())
    if total <= max_bytes:
        return ends
    shares = {journal: max(1 if size else 0, size * max_bytes // total) for journal, size in there.items()}
    return {journal: begins[journal] + shares[journal] for journal in ends}


def _gone(journal: str, begin: int, end: int) -> Gone:
    return Gone(
        f"bytes [{begin}, {end}) of {journal} are gone, and were not read",
        next_step="set failOnDataLoss to false to continue after them",
    )
