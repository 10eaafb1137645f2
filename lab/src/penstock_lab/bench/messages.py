"""How fast are messages sequenced? One by one and vectorised, JSON and Arrow, committed rows out; and published.

Four producers take turns in one journal, with transactions of some hundred messages, so that most are pending for a
while and some of every chunk are when it ends. Every side reads the same bytes in the same chunks, from memory, and
gives out decoded rows: typed records one by one, Arrow tables vectorised. Arrow decodes JSON on all cores (that is its
default, and Penstock's); a row of one thread is next to it. Nothing but the bare loop leaves anything out: it neither
reads UUIDs nor sequences. What consumers do at work is measured on brokers: `messages_consumer.py`,
`messages_recovery.py`.
"""

import asyncio
import io
import json
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

import msgspec
import pyarrow as pa

from penstock.kernel.ids import Offset
from penstock.messages.framing.arrow import ArrowBatches
from penstock.messages.framing.framing import Framing
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.reader import CommittedMessage, CommittedReader
from penstock.messages.row_decoder import ArrowRows, JsonRows, RowDecoder
from penstock.messages.rows_reader import Rows, RowsReader
from penstock.messages.uuid import producer_id
from penstock_lab.bench import messages_consumer, messages_recovery
from penstock_lab.bench.messages_site import running_site
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["QUESTION", "run"]

QUESTION: Final = "How fast are messages sequenced, one by one and vectorised, published, consumed, and recovered?"

JOURNAL: Final = "bench/messages"
BARE: Final = "for line in file: json.loads(line)"
ONE_BY_ONE: Final = "one by one, msgspec"
SEQUENCING: Final = "one by one, not decoded"
VECTOR: Final = "vectorised, Arrow JSON"
VECTOR_ALONE: Final = "vectorised, Arrow JSON on one thread"
ARROW: Final = "vectorised, Arrow framing"
PRODUCERS: Final = 4
TURN: Final = 25  # messages of one producer in a row
TURNS: Final = 8  # of each producer to a transaction
BATCH_ROWS: Final = 1_000  # to a message of Arrow
CHUNK_BYTES: Final = 4 << 20
SCHEMA: Final = pa.schema(
    [("account", pa.string()), ("amount", pa.float64()), ("kind", pa.string()), ("number", pa.int64())]
)


class Transfer(msgspec.Struct, gc=False):
    """A small message, of some 130 bytes with its UUID."""

    account: str
    amount: float
    kind: str
    number: int


def run(recorder: RowRecorder, options: Options) -> None:
    """Measure; the bars are those of issue 5."""
    count = 2_000 if options.quick else 80_000
    transfers = _transfers(count)
    _publishing(recorder, transfers[: count // 2], options)
    _reading(recorder, transfers, options)
    _by_batch(recorder, options)
    asyncio.run(_at_work(recorder, options))


async def _at_work(recorder: RowRecorder, options: Options) -> None:
    """On brokers: through a consumer, and back from a recovery log."""
    recorder.progress("starting brokers")
    async with running_site(1 if options.quick else 3) as site:
        await messages_consumer.run(recorder, options, site)
        await messages_recovery.run(recorder, options, site)


def _reading(recorder: RowRecorder, transfers: list[Transfer], options: Options) -> None:
    """Run all sides in turn, in many short rounds: a stall of the machine spoils few of them."""
    recorder.progress("committed messages, decoded rows out")
    lines = _journal(JsonLines(Transfer), transfers)
    chunks = _chunks(lines)
    batches = _journal(ArrowBatches(SCHEMA), _batches(len(transfers) * 5, BATCH_ROWS))
    cases: dict[str, Callable[[], int]] = {
        BARE: partial(_bare_loop, lines),
        ONE_BY_ONE: partial(_one_by_one, chunks),
        SEQUENCING: partial(_one_by_one, chunks, is_decoding=False),
        VECTOR: partial(_vectorised, chunks, JsonRows(SCHEMA)),
        VECTOR_ALONE: partial(_vectorised, chunks, JsonRows(SCHEMA, use_threads=False)),
        ARROW: partial(_vectorised, _chunks(batches), ArrowRows(SCHEMA)),
    }
    rounds = options.repeats * (1 if options.quick else 3)
    rates = interleave({side: partial(_rate, case) for side, case in cases.items()}, rounds)
    message_bytes = len(lines) // len(transfers)
    for side in (BARE, ONE_BY_ONE, SEQUENCING, VECTOR, VECTOR_ALONE):
        recorder.row("committed JSON, rows out", side, rates[side], "messages/s", message_bytes=message_bytes)
    recorder.bar("vector_vs_scalar", rates[VECTOR] / rates[ONE_BY_ONE], at_least=3)
    recorder.bar("arrow_vs_json", rates[ARROW] / rates[VECTOR], at_least=20)


def _by_batch(recorder: RowRecorder, options: Options) -> None:
    """Rows a second by rows to a message: what a message costs, shared by its rows."""
    curve: list[tuple[float, float]] = []
    for rows in (10, 100, BATCH_ROWS):
        recorder.progress(f"Arrow framing, {rows} rows to a message")
        journal = _journal(ArrowBatches(SCHEMA), _batches(rows * (50 if options.quick else 500), rows))
        case = partial(_rate, partial(_vectorised, _chunks(journal), ArrowRows(SCHEMA)))
        rate = interleave({ARROW: case}, options.repeats)[ARROW]
        recorder.row("committed Arrow, rows out", ARROW, rate, "rows/s", rows_per_message=rows)
        curve.append((rows, rate))
    recorder.grows("committed rows by rows to a message", "rows to a message", "rows/s", {ARROW: curve})


def _publishing(recorder: RowRecorder, transfers: list[Transfer], options: Options) -> None:
    recorder.progress("publishing")
    framing = JsonLines(Transfer)

    def publish() -> int:
        publisher = Publisher(producer_id(1), 1_700_000_000_000_000_000)
        publisher.uncommitted(JOURNAL, framing, transfers)
        publisher.ack_intents()
        return len(transfers)

    def encode() -> int:
        encoder = msgspec.json.Encoder()
        b"".join([encoder.encode(transfer) + b"\n" for transfer in transfers])
        return len(transfers)

    cases = {"penstock": partial(_rate, publish), "bare loop of msgspec, no UUIDs": partial(_rate, encode)}
    for side, rate in interleave(cases, options.repeats).items():
        recorder.row("publishing JSON", side, rate, "messages/s")


# Measured


def _rate(case: Callable[[], int]) -> float:
    before = time.perf_counter()
    rows = case()
    return rows / (time.perf_counter() - before)


def _bare_loop(journal: bytes) -> int:
    count = 0
    for line in io.BytesIO(journal):
        json.loads(line)
        count += 1
    return count


def _one_by_one(chunks: list[tuple[Offset, bytes]], *, is_decoding: bool = True) -> int:
    framing = JsonLines(Transfer)
    decode = framing.decode
    reader = CommittedReader(JOURNAL, framing)
    count = 0
    for offset, data in chunks:
        reader.feed(offset, data)
        while (found := reader.next()) is not None:
            assert isinstance(found, CommittedMessage), found
            messages = [message for message in found.messages if not message.is_ack]
            if is_decoding:
                rows = [decode(message.frame) for message in messages]
                assert len(rows) == len(messages)
            count += len(messages)
    return count


def _vectorised(chunks: list[tuple[Offset, bytes]], decoder: RowDecoder) -> int:
    reader = RowsReader(JOURNAL, decoder)
    count = 0
    for offset, data in chunks:
        reader.feed(offset, data)
        while (found := reader.next()) is not None:
            assert isinstance(found, Rows), found
            count += found.table.num_rows
    return count


# Input


def _chunks(journal: bytes) -> list[tuple[Offset, bytes]]:
    """Yield them as a client of the journal would get them. They end anywhere, mostly within a frame."""
    return [(Offset(at), journal[at : at + CHUNK_BYTES]) for at in range(0, len(journal), CHUNK_BYTES)]


def _transfers(count: int) -> list[Transfer]:
    rng = Random(5)
    kinds = ("deposit", "withdrawal")
    return [
        Transfer(f"account-{rng.randrange(100_000):05}", rng.randrange(10_000) / 100, kinds[rng.randrange(2)], number)
        for number in range(count)
    ]


def _batches(rows: int, batch_rows: int) -> list[Any]:
    batches = []
    for begin in range(0, rows, batch_rows):
        numbers = range(begin, begin + batch_rows)
        columns = {
            "account": [f"account-{number % 100_000:05}" for number in numbers],
            "amount": [number / 100 for number in numbers],
            "kind": ["deposit"] * batch_rows,
            "number": list(numbers),
        }
        batches.append(pa.record_batch(columns, schema=SCHEMA))
    return batches


def _journal(framing: Framing, values: list[Any], turn_messages: int = TURN) -> bytes:
    """The values as a journal has them: producers in turns, transactions that overlap, all of them committed."""
    publishers = [Publisher(producer_id(number), 1_700_000_000_000_000_000) for number in range(PRODUCERS)]
    frames: list[bytes] = []
    for turn, begin in enumerate(range(0, len(values), turn_messages)):
        publisher = publishers[turn % PRODUCERS]
        frames.append(publisher.uncommitted(JOURNAL, framing, values[begin : begin + turn_messages]))
        # Each producer ends its transactions at a turn of its own, so that they overlap.
        if (turn // PRODUCERS + turn % PRODUCERS * 2) % TURNS == 0:
            frames += publisher.ack_intents().values()
    for publisher in publishers:
        frames += publisher.ack_intents().values()
    return b"".join(frames)
