"""A range of a journal, as one task reads it: messages to rows, from the state at its begin to the state at its end.

Design: spark.md, "Isolation committed". The messages of a range `[begin, end)` are a function of the journal's bytes
alone: the messages committed within it, also those that were pending at its begin and are read again. A range may begin
and end anywhere, also within a message: a message belongs to the range in which it ends.

A task whose state is missing makes it again (`state_at`); a task which has read its range puts the state at its end.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import InputPartition

from penstock.kernel.ids import Offset
from penstock.messages.columns import Columns
from penstock.messages.message import Replay
from penstock.messages.read_state import ReadState
from penstock.messages.reader import Anomalous, OnBad, Skipped
from penstock.messages.row_decoder import FRONT_BYTES, RowDecoder, front_of
from penstock.messages.rows_reader import Rows, RowsReader
from penstock.messages.sequencing.vector_sequencer import VectorSequencer
from penstock.plumbing.process.logs import get_logger
from penstock.spark.options import Connection, Framing, SourceOptions
from penstock.spark.shared.content import Access, Content
from penstock.spark.shared.rows import SparkRows, Untracked, decoder_of
from penstock.spark.shared.states import HORIZON, States, scan_begin
from penstock.spark.shared.store_access import can_open

__all__ = ["Range", "RangeReader", "Scan", "shared_access"]

BATCH_ROWS: Final = 65_536  # to a batch which goes to Spark: fewer cost more per row
log = get_logger()

_accesses: dict[Connection, Access] = {}  # Spark's Python workers serve many tasks


def shared_access(connection: Connection) -> Access:
    """This process's way to those brokers."""
    if connection not in _accesses:
        _accesses[connection] = Access(connection)
    return _accesses[connection]


class Range(InputPartition):
    """Bytes `[begin, end)` of a journal, for one task."""

    def __init__(self, journal: str, begin: int, end: int, framing: Framing, store: str, state: bytes | None) -> None:
        super().__init__(None)
        self.journal = journal
        self.begin = begin
        self.end = end
        self.framing = framing
        self.store = store  # of the journal's fragments: states lie there too, unless they are elsewhere
        self.state = state  # at its begin, where the planner knows it

    def __repr__(self) -> str:
        return f"Range({self.journal} [{self.begin}, {self.end}))"


class Scan:
    """Sequences a journal's bytes without decoding the messages: for the states in between."""

    def __init__(self, decoder: RowDecoder, state: ReadState, on_bad: OnBad, *, front_bytes: int = FRONT_BYTES) -> None:
        self._decoder = decoder
        self._front_bytes = front_bytes
        self._sequencer = VectorSequencer(state, HORIZON)
        self._on_bad = on_bad
        self._rest, self._rest_at = b"", int(state.offset)
        self.fed_upto = self._rest_at
        self._is_at_bad = False

    def feed(self, offset: int, data: bytes) -> None:
        """The next bytes. After a message that cannot be read nothing is sequenced: a reader will fail there."""
        if offset > self.fed_upto:
            self._rest, self._rest_at, self._is_at_bad = b"", offset, False
        self.fed_upto = offset + len(data)
        if self._is_at_bad:
            return
        found = front_of(self._decoder, self._rest, data, self._front_bytes) if self._rest else None
        if found is not None:
            _, columns, chunk = found
            self._take(columns)
        else:
            chunk = self._rest + data if self._rest else data
        columns = self._decoder.columns(chunk)
        if columns.bad and self._on_bad is OnBad.FAIL:
            columns, self._is_at_bad = _upto(columns, columns.bad[0].begin), True
        self._take(columns)
        self._rest = b"" if self._is_at_bad else bytes(chunk[columns.consumed :])

    def _take(self, columns: Columns) -> None:
        self._sequencer.sequence(Offset(self._rest_at), columns)
        self._rest_at += columns.consumed

    def state(self) -> ReadState:
        return self._sequencer.state()


def _upto(columns: Columns, offset: int) -> Columns:
    kept = columns.ends <= offset
    return msgspec.structs.replace(
        columns,
        begins=columns.begins[kept],
        ends=columns.ends[kept],
        producers=columns.producers[kept],
        clocks=columns.clocks[kept],
        flags=columns.flags[kept],
        consumed=offset,
    )


class RangeReader:
    """Reads ranges of one journal."""

    def __init__(
        self,
        access: Access,
        options: SourceOptions,
        part: Range,
        schema: Any,
        *,
        use_threads: bool,
        decoder: RowDecoder | None = None,  # what messages become; rows, if nothing else is said
        content: Content | None = None,  # where their bytes come from
        is_ordered: bool = True,  # rows come in the order of their commits
    ) -> None:
        self._access = access
        self._part = part
        self._is_ordered = is_ordered
        self._on_bad = OnBad.SKIP if options.skips_bad else OnBad.FAIL
        self._content = content or Content(access, part.journal, fails_on_loss=options.fails_on_loss)
        # for states: bytes that are gone have no part in them
        self._past = Content(access, part.journal, fails_on_loss=False)
        rows: RowDecoder = SparkRows(
            decoder or decoder_of(part.framing, schema, use_threads=use_threads),
            part.framing,
            part.journal,
            schema,
            since_ns=options.starting_ns,
            before_ns=options.ending_ns,
        )
        self._decoder = rows if options.is_committed else Untracked(rows)
        kind = "c1" if options.is_committed else "u1"
        url = options.state_location or part.store
        url = url if can_open(url) else ""
        version = f"{kind}.{part.framing}"
        self.states = States(access.stores, url, part.journal, version, is_default=not options.state_location)

    def batches(self) -> Iterator[Any]:
        """The rows, as record batches."""
        part = self._part
        state = self._start()
        reader = RowsReader(
            part.journal,
            self._decoder,
            state,
            horizon=HORIZON,
            on_bad=self._on_bad,
            is_ordered=self._is_ordered,
        )
        for offset, data in self._content.read(state.offset, part.end):
            reader.feed(offset, data)
            for table in self._tables(reader):
                yield from table.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        self._access.run(self.states.put(part.end, reader.state()))

    def _start(self) -> ReadState:
        return ReadState.decode(self._part.state) if self._part.state is not None else self.state_at(self._part.begin)

    def _tables(self, reader: RowsReader) -> Iterator[Any]:
        """Yield the tables of a chunk."""
        again: Iterator[tuple[Offset, bytes]] = iter(())
        rest: Replay | None = None  # what `again` has not given yet
        while (found := reader.next()) is not None:
            match found:
                case Rows(table, _):
                    if table.num_rows:
                        yield table
                case Replay(begin, end):
                    if found != rest:  # of another span, which may begin exactly where that of before continued
                        again = self._content.read(begin, end)
                    offset, data = next(again, (end, b""))
                    reader.replay(offset, data)
                    rest = Replay(Offset(offset + len(data)), end)
                case Skipped(begin, end, why):
                    log.warning("message is skipped", journal=self._part.journal, begin=begin, end=end, why=why)
                case Anomalous(message, outcome):
                    log.warning("producer misbehaves", journal=self._part.journal, at=str(message), what=outcome.name)

    # states

    def state_at(self, offset: int) -> ReadState:
        """The state at an offset: as it was kept, or made again."""
        return self.states_at([offset])[offset]

    def states_at(self, offsets: list[int]) -> dict[int, ReadState]:
        """The states at several offsets, which rise. Newly computed states are kept."""
        found: dict[int, ReadState] = {0: ReadState()}
        for offset in offsets:
            state = found.get(offset) or self._access.run(self.states.load(offset))
            if state is None:
                state = self._made(offset, max((each for at, each in found.items() if at <= offset), key=_offset_of))
                self._access.run(self.states.put(offset, state))
            found[offset] = state
        return found

    def _made(self, offset: int, before: ReadState) -> ReadState:
        """Sequence what lies between the nearest state before and the offset."""
        nearest: ReadState | None = self._access.run(self.states.nearest(offset))
        if nearest is not None and nearest.offset > before.offset:
            before = nearest
        begin = self._access.run(self._past.boundary(scan_begin(offset)))
        if begin > before.offset:
            before = ReadState(Offset(begin))
        scan = Scan(self._decoder, before, self._on_bad)
        for at, data in self._past.read(before.offset, offset):
            scan.feed(at, data)
        state = scan.state()
        is_cut_off = scan.fed_upto < offset  # the last bytes before it are gone, so nothing continues after them
        return msgspec.structs.replace(state, offset=Offset(offset)) if is_cut_off else state


def _offset_of(state: ReadState) -> int:
    return state.offset
