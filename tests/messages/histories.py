"""Histories of a journal to read, and a model of what must come out, so naive that one can check it by looking."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from penstock.kernel.ids import Clock, Offset
from penstock.messages.columns import Columns
from penstock.messages.framing.fixed import Fixed
from penstock.messages.message import Message, Replay
from penstock.messages.read_state import Horizon, ReadState
from penstock.messages.reader import Anomalous, CommittedMessage, CommittedReader, Skipped
from penstock.messages.sequencing.ring import Ring
from penstock.messages.sequencing.vector_sequencer import Sequenced, VectorSequencer
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, ProducerId, Uuid

FIXED = Fixed()
EVERY_HORIZON = st.sampled_from(
    [Horizon(), Horizon(clock=5, bytes=60), Horizon(clock=0, bytes=0), Horizon(clock=3, bytes=0)]
)


@dataclass(frozen=True)
class Line:
    """One message of a history. Clock 0: it has no UUID."""

    producer: int
    clock: int
    flags: int
    size: int = 0

    def frame(self, number: int) -> bytes:
        uuid = Uuid(ProducerId(self.producer + 1), Clock(self.clock), self.flags) if self.clock else None
        return FIXED.encode(f"{number}".encode().ljust(self.size, b"."), uuid)


def wild_line(producer: int, clock: int, flags: int, size: int) -> Line:
    """Clocks of ACKs are odd: no message shares its clock with one."""
    return Line(producer, 2 * clock + (flags == ACK_TXN), flags, size)


# Any producer, clock and flags in any order: every row of the table comes up, and most of what producers never do.
WILD = st.lists(
    st.builds(
        wild_line,
        st.integers(0, 2),
        st.integers(0, 12),
        st.sampled_from([0, 1, 1, 1, 2, 2, 3]),
        st.sampled_from([0, 0, 30]),
    ),
    max_size=40,
)


@st.composite
def tame(draw: st.DrawFn) -> list[Line]:
    """What real producers write: transactions, lone messages, roll-backs, and ranges appended a second time."""
    history: list[Line] = []
    clocks = [draw(st.integers(1, 3)) for _ in range(3)]
    acks: list[Line | None] = [None] * 3
    mine: list[list[Line]] = [[], [], []]
    for _ in range(draw(st.integers(0, 40))):
        who = draw(st.integers(0, 2))
        what = draw(st.sampled_from(["continue", "continue", "continue", "ack", "lone", "roll back", "again"]))
        clocks[who] += draw(st.integers(1, 2))
        if what == "again":
            begin = draw(st.integers(0, len(mine[who])))
            history += mine[who][begin : begin + 3]
            continue
        line = Line(who, clocks[who], {"continue": CONTINUE_TXN, "lone": 0}.get(what, ACK_TXN))
        if what == "ack":
            acks[who] = line
        if what == "roll back":
            line = acks[who] or line
        history.append(line)
        mine[who].append(line)
    return history


def journal_of(history: list[Line]) -> bytes:
    return b"".join(line.frame(number) for number, line in enumerate(history))


@st.composite
def orderly(draw: st.DrawFn) -> list[Line]:
    """What needs no second look: clocks rise, and no lone message stands in an open span. Clocks up to the largest."""
    history: list[Line] = []
    count = draw(st.sampled_from([1, 2, 3, 20]))
    clocks = [draw(st.sampled_from([0, 1 << 53, (1 << 63) - 20, (1 << 64) - 200])) for _ in range(count)]
    is_open = [False] * count
    for _ in range(draw(st.integers(0, 60))):
        who = draw(st.integers(0, count - 1))
        flags = draw(st.sampled_from([CONTINUE_TXN, CONTINUE_TXN, ACK_TXN] if is_open[who] else [0, 1, 1, 2, 3, None]))
        if flags is None:
            history.append(Line(who, 0, draw(st.integers(0, 3))))
            continue
        clocks[who] += draw(st.integers(1, 3))
        is_open[who] = flags == CONTINUE_TXN
        history.append(Line(who, clocks[who], flags))
    return history


@dataclass
class Model:
    """Remembers everything, looks at the whole of it every time."""

    horizon: Horizon
    delivered: list[int] = field(default_factory=list)  # numbers of lines
    acked: dict[int, int] = field(default_factory=dict)
    pending: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # (clock, number)
    seen: dict[int, int] = field(default_factory=dict)
    largest: int = 0

    def read(self, history: list[Line]) -> "Model":
        offset = 0
        for number, line in enumerate(history):
            self.prune(offset)
            self.one(number, line)
            if line.clock:
                self.seen[line.producer] = offset
            offset += len(line.frame(number))
        self.prune(offset)
        return self

    def one(self, number: int, line: Line) -> None:
        who, clock = line.producer, line.clock
        if clock == 0:
            self.delivered.append(number)
            return
        acked = self.acked.setdefault(who, clock - 1)
        pending = self.pending.setdefault(who, [])
        if line.flags == CONTINUE_TXN:
            if clock > max([acked, *(other for other, _ in pending)]):
                pending.append((clock, number))
            return
        if line.flags != ACK_TXN and clock <= acked:
            return
        if line.flags == ACK_TXN:
            self.delivered += [other for their, other in pending if their <= clock]
        self.pending[who] = []
        self.acked[who] = clock
        if clock > acked:
            self.delivered.append(number)
            self.largest = max(self.largest, clock)

    def prune(self, offset: int) -> None:
        for who in list(self.acked):
            last = max([self.acked[who], *(clock for clock, _ in self.pending[who])])
            if last < self.largest - self.horizon.clock and self.seen[who] < offset - self.horizon.bytes:
                del self.acked[who], self.pending[who], self.seen[who]


class ByNumpy(VectorSequencer):
    """Leaves nothing to what is compiled."""

    def _at_once(self, base: int, columns: Columns) -> Sequenced | None:
        return None


@dataclass
class Reading:
    """Drives a CommittedReader over a journal in memory."""

    journal: bytes
    horizon: Horizon
    ring_length: int
    chunk: int
    state: ReadState = field(default_factory=ReadState)
    delivered: list[int] = field(default_factory=list)
    is_cut_short: bool = False

    def run(self, steps_max: int = 1 << 30, limit: int = 1024) -> "Reading":
        """Read on from the state; stop at the end, or after so many steps. The state is the one to go on from."""
        reader = CommittedReader("j", FIXED, self.state, ring=Ring(self.ring_length), horizon=self.horizon)
        at = int(self.state.offset)
        for _ in range(steps_max):
            match reader.next(limit):
                case CommittedMessage(messages):
                    self.delivered += [number_of(message) for message in messages]
                case Replay(begin, end):
                    reader.replay(begin, self.journal[begin : min(end, begin + self.chunk)])
                case None:
                    if at == len(self.journal):
                        break
                    reader.feed(Offset(at), self.journal[at : at + self.chunk])
                    at = min(at + self.chunk, len(self.journal))
                case Anomalous():
                    pass
                case Skipped() as skipped:
                    raise AssertionError(skipped)
            reader.sequencer.check()
        self.state = ReadState.decode(reader.state().encode())
        return self


def number_of(message: Message) -> int:
    return int(FIXED.decode(message.frame).rstrip(b"."))
