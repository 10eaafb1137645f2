"""Journals with everything that producers do in them, written to a broker, and what a plain reader makes of them."""

import json
from random import Random
from typing import Any

import pyarrow as pa

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.ids import Clock, Offset
from penstock.messages.clock import from_unix_ns
from penstock.messages.framing.framing import Framing
from penstock.messages.message import Replay
from penstock.messages.reader import CommittedMessage, CommittedReader
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, ProducerId, Uuid, producer_id

NOON = 1_763_208_000_000_000_000
TIMEOUT_S = 60.0


def make(
    journals: BlockingJournals, name: str, *, fragment_bytes: int = 1 << 10, labels: dict[str, str] | None = None
) -> str:
    """A journal of small fragments, which are stored as they are full."""
    spec = JournalSpec(
        name=name, replication=1, fragment=FragmentSpec(length=fragment_bytes), labels=LabelSet.of(labels or {})
    )
    journals.create(spec)
    journals.append(name, b"", timeout=TIMEOUT_S)
    return name


class History:
    """Producers in turns: transactions which overlap, lone messages, roll-backs, and appends which came twice."""

    def __init__(self, seed: int, framing: Framing, value_of: Any) -> None:
        self._rng = Random(seed)
        self._framing = framing
        self._value_of = value_of
        self._producers = [producer_id(self._rng.getrandbits(48)) for _ in range(4)]
        self._clocks = [int(from_unix_ns(NOON)) + number for number in range(4)]
        self._acks = [self._clocks[number] for number in range(4)]  # the last one of each, to roll back to
        self._written: list[list[bytes]] = [[], [], [], []]
        self._numbers = 0

    def appends(self, count: int) -> list[bytes]:
        return [self._append() for _ in range(count)]

    def _append(self) -> bytes:
        who = self._rng.randrange(4)
        what = self._rng.choice(["continue"] * 5 + ["ack", "ack", "lone", "roll back", "again"])
        if what == "again" and self._written[who]:
            return self._rng.choice(self._written[who][-3:])
        if what == "roll back":
            return self._framing.acknowledgement(Uuid(self._producers[who], Clock(self._acks[who]), ACK_TXN))
        if what == "ack":
            self._acks[who] = self._tick(who)
            written = self._framing.acknowledgement(Uuid(self._producers[who], Clock(self._acks[who]), ACK_TXN))
        else:
            flags = 0 if what == "lone" else CONTINUE_TXN
            written = b"".join(self._frame(who, flags) for _ in range(self._rng.randint(1, 5)))
        self._written[who].append(written)
        return written

    def _frame(self, who: int, flags: int) -> bytes:
        self._numbers += 1
        uuid = Uuid(ProducerId(self._producers[who]), Clock(self._tick(who)), flags)
        return self._framing.encode(self._value_of(self._numbers), uuid)

    def _tick(self, who: int) -> int:
        self._clocks[who] += self._rng.choice([1, 160])
        return self._clocks[who]


def read_plainly(journals: BlockingJournals, name: str, framing: Framing) -> list[Any]:
    """The committed messages, by the one-by-one reader over the bytes a broker serves: offset and what they say."""
    data = b"".join(bytes(chunk.content) for chunk in journals.read(name))
    reader = CommittedReader(name, framing)
    reader.feed(Offset(0), data)
    found: list[Any] = []
    while (one := reader.next()) is not None:
        if isinstance(one, Replay):
            reader.replay(one.begin, data[one.begin : one.end])
        if isinstance(one, CommittedMessage):
            found += [(each.begin, framing.decode(each.frame)) for each in one.messages if not each.is_ack]
    return found


def json_value(number: int) -> dict[str, Any]:
    return {"n": number, "text": f"é{number}" * (number % 3)}


SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])


def arrow_value(number: int) -> Any:
    rows = [json_value(number)] * (number % 3 + 1)
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def csv_value(number: int) -> list[str]:
    return [str(number), 'quoted "é"\n, and so on' if number % 2 else "plain"]


def raw_value(number: int) -> bytes:
    return json.dumps(json_value(number)).encode()
