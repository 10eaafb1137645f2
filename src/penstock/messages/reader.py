"""Reading a journal: chunks of its bytes in; messages out, all of them or the committed ones. Pure.

    reader.feed(offset, data)                    a chunk, as it came
    while (found := reader.next()) is not None:  a Committed, Skipped, Anomalous or Replay; None: a chunk is needed
        if isinstance(found, Replay):
            reader.replay(found.begin, data)     bytes from there on, as many as are at hand; it asks again for the rest

A chunk may end anywhere, also within a frame. Chunks follow each other. Where one begins after the end of the one
before, the journal has a gap, and a frame that the gap cut off is bad.

**Bad frames.** By default the reader fails, with an error which names journal and offset, and stays before the frame:
nothing is passed over unnoticed. With `OnBad.SKIP` it continues after the frame and reports the skipped bytes.
"""

from collections import deque
from enum import Enum
from itertools import islice, repeat
from operator import lt
from typing import Any, Final

import msgspec

from penstock.kernel.errors import FrameTooLarge, InvalidArgument, MalformedFrame
from penstock.kernel.ids import Offset
from penstock.messages.clock import NO_CLOCK
from penstock.messages.framing.framing import FRAME_BYTES_MAX, Framing, Split
from penstock.messages.message import NO_PRODUCER, Message, MessageRun, Replay
from penstock.messages.outcome import SequenceOutcome
from penstock.messages.read_state import Horizon, ReadState
from penstock.messages.sequencing.ring import Ring
from penstock.messages.sequencing.sequencer import Sequencer
from penstock.messages.uuid import UuidsInARow

__all__ = ["Anomalous", "CommittedMessage", "CommittedReader", "OnBad", "Skipped", "UncommittedReader"]

RUN_MAX: Final = 1024  # messages


class OnBad(Enum):
    """What to do about a frame that cannot be read."""

    FAIL = "fail"
    SKIP = "skip"


class Skipped(msgspec.Struct, frozen=True):
    """Bytes [begin, end) are no message, and were passed over."""

    begin: Offset
    end: Offset
    why: str


class Anomalous(msgspec.Struct, frozen=True):
    """A producer broke a rule: its messages may no longer be exactly once. See `SequenceOutcome`."""

    message: Message
    outcome: SequenceOutcome


class CommittedMessage(msgspec.Struct, frozen=True):
    """Messages which are committed, in the order of their commits. `is_whole`: the last one ends its transaction."""

    messages: list[Message]
    is_whole: bool


class UncommittedReader:
    """Every message of a journal, in its order: also pending ones, duplicates, and what will be rolled back."""

    def __init__(
        self,
        journal: str,
        framing: Framing,
        offset: Offset = Offset(0),  # noqa: B008
        *,
        on_bad: OnBad = OnBad.FAIL,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        self.journal = journal
        self.framing = framing
        self.offset = offset  # everything before it was given out
        self._on_bad = on_bad
        self._frame_bytes_max = frame_bytes_max
        self._rest = b""  # from the end of the last complete frame on
        self._rest_at = offset
        self.found: deque[Message | MessageRun | Skipped] = deque()  # not yet given out

    @property
    def done_upto(self) -> Offset:
        """The begin of the first frame that is not complete."""
        return self._rest_at

    @property
    def fed_upto(self) -> Offset:
        """The begin of the next chunk, unless the journal has a gap there."""
        return Offset(self._rest_at + len(self._rest))

    def feed(self, offset: Offset, data: bytes) -> None:
        """The next chunk."""
        if offset < self.fed_upto:
            raise InvalidArgument(f"{self.journal}: a chunk at {offset} was read before; expected {self.fed_upto}")
        if offset > self.fed_upto:
            if self._rest:
                self.found.append(Skipped(self._rest_at, offset, "a gap in the journal cuts off a frame"))
            self._rest, self._rest_at = b"", offset
        self._cut(self._rest + data if self._rest else data)

    def next(self) -> Message | Skipped | None:
        """The next message, or None: feed a chunk."""
        if not self.found:
            return None
        found = self.found.popleft()
        if isinstance(found, MessageRun):
            self.found.extendleft(reversed(found.messages))
            found = self.found.popleft()
            assert not isinstance(found, MessageRun), "a run holds messages"
        elif isinstance(found, Skipped) and self._on_bad is OnBad.FAIL:
            self.found.appendleft(found)
            raise self.error(found)
        self.offset = found.end
        return found

    def error(self, bad: Skipped) -> MalformedFrame:
        return MalformedFrame(
            f"{self.journal} at {bad.begin}: {bad.why}",
            next_step=f"continue after it, from {bad.end}, or skip bad frames with a report",
            journal=self.journal,
            begin=bad.begin,
            end=bad.end,
        )

    def _cut(self, data: bytes) -> None:
        split = self.framing.split(data)
        rows = None if split.bad else self.framing.uuids(split.frames)
        if rows is None:
            self._take_each(split)
        else:
            self._take_rows(split, rows)
        self._rest, self._rest_at = data[split.consumed :], Offset(self._rest_at + split.consumed)
        if len(self._rest) > self._frame_bytes_max:
            raise FrameTooLarge(
                f"{self.journal} at {self._rest_at}: a message of more than {self._frame_bytes_max} bytes",
                journal=self.journal,
                begin=self._rest_at,
            )

    def _take_rows(self, split: Split, rows: list[UuidsInARow]) -> None:
        """Take messages by runs, where their clocks rise."""
        base = self._rest_at
        ends = [base + end for end in split.ends]
        begins = [base, *ends[:-1]]
        at = 0
        for row in rows:
            upto = at + len(row.clocks)
            messages = list(
                map(
                    Message,
                    begins[at:upto],
                    ends[at:upto],
                    repeat(row.producer),
                    row.clocks,
                    repeat(row.flags),
                    split.frames[at:upto],
                )
            )
            at = upto
            if len(messages) > 1 and all(map(lt, row.clocks, islice(row.clocks, 1, None))):
                self.found += [
                    MessageRun(messages[first : first + RUN_MAX]) for first in range(0, len(messages), RUN_MAX)
                ]
            else:
                self.found += messages

    def _take_each(self, split: Split) -> None:
        """Take messages and bad ranges one by one."""
        base = self._rest_at
        bads = iter(split.bad)
        bad = next(bads, None)
        begin = 0
        for frame, end in zip(split.frames, split.ends, strict=True):
            while bad is not None and bad.end <= end and bad.begin >= begin:
                self.found.append(Skipped(Offset(base + bad.begin), Offset(base + bad.end), bad.why))
                begin, bad = bad.end, next(bads, None)
            self.found.append(self._message(frame, Offset(base + begin), Offset(base + end)))
            begin = end
        while bad is not None:
            self.found.append(Skipped(Offset(base + bad.begin), Offset(base + bad.end), bad.why))
            bad = next(bads, None)

    def _message(self, frame: bytes, begin: Offset, end: Offset) -> Message | Skipped:
        try:
            uuid = self.framing.uuid(frame)
        except InvalidArgument as error:
            return Skipped(begin, end, error.message)
        if uuid is None:
            return Message(begin, end, NO_PRODUCER, NO_CLOCK, 0, frame)
        return Message(begin, end, uuid.producer, uuid.clock, uuid.flags, frame)


class CommittedReader:
    """The committed messages of a journal, each once, in the order of their commits."""

    def __init__(
        self,
        journal: str,
        framing: Framing,
        state: ReadState = ReadState(),  # noqa: B008 (frozen)
        *,
        ring: Ring | None = None,
        horizon: Horizon = Horizon(),  # noqa: B008 (frozen)
        on_bad: OnBad = OnBad.FAIL,
        **options: Any,
    ) -> None:
        self.sequencer = Sequencer(state, ring, horizon)
        self._reader = UncommittedReader(journal, framing, state.offset, on_bad=on_bad, **options)
        self._again: UncommittedReader | None = None  # reads the replay
        self._report: Skipped | Anomalous | Replay | None = None  # found behind messages which are given out first
        self._on_bad = on_bad

    @property
    def journal(self) -> str:
        return self._reader.journal

    def feed(self, offset: Offset, data: bytes) -> None:
        """The next chunk."""
        self._reader.feed(offset, data)

    def replay(self, offset: Offset, data: bytes) -> None:
        """Bytes of the range the last `Replay` named, from its begin on. Later ones mean that those before are gone."""
        wanted = self.sequencer.replay
        if wanted is None:
            raise InvalidArgument(f"{self.journal}: no replay was asked for")
        if self._again is None:
            # Bad frames were reported when they were first read.
            self._again = UncommittedReader(self.journal, self._reader.framing, wanted.begin, on_bad=OnBad.SKIP)
        if offset > self._again.fed_upto:
            self._lost(Skipped(self._again.done_upto, offset, "gone, and committed messages were pending there"))
        self._again.feed(offset, data[: wanted.end - offset])

    def _lost(self, lost: Skipped) -> None:
        if self._on_bad is OnBad.FAIL:
            raise self._reader.error(lost)
        self._report = lost

    def next(self, limit: int = 1024) -> CommittedMessage | Skipped | Anomalous | Replay | None:
        """Return the next finding, or None: feed a chunk. A `CommittedMessage` ends at `limit` messages or more."""
        report, self._report = self._report, None
        if report is not None:
            return report
        if self.sequencer.replay is not None:
            return self._deliver_again(self.sequencer.replay, limit)
        messages: list[Message] = []
        report = self._sequence(messages, limit)
        if not messages:
            return report
        self._report = report
        return CommittedMessage(messages, is_whole=True)

    def _sequence(self, messages: list[Message], limit: int) -> Skipped | Anomalous | Replay | None:
        """Push and take, until there is enough, or something to report, or something to replay."""
        sequencer, found = self.sequencer, self._reader.found
        messages += sequencer.take()  # what a replay left in the ring
        while found and len(messages) < limit:
            message = found[0]
            if isinstance(message, MessageRun):
                self._sequence_run(message, messages, limit)
                continue
            if isinstance(message, Skipped):
                if self._on_bad is OnBad.FAIL and messages:
                    return None  # the error waits until the committed messages before it were given out
                self._reader.next()
                sequencer.skip(message.end)
                return message
            found.popleft()
            outcome = sequencer.push(message)
            if outcome.is_commit:
                if sequencer.replay is not None:
                    return sequencer.replay
                messages += sequencer.take()
            if outcome.is_anomaly:
                return Anomalous(message, outcome)
        return None

    def _sequence_run(self, run: MessageRun, messages: list[Message], limit: int) -> None:
        """Push the first messages of a run together, or leave them to be pushed one by one."""
        found = self._reader.found
        found.popleft()
        room = limit - len(messages)
        now, later = run.messages[:room], run.messages[room:]
        if later:
            found.appendleft(MessageRun(later))
        committed = self.sequencer.push_run(now)
        if committed is None:
            found.extendleft(reversed(now))
        else:
            messages += committed

    def _deliver_again(self, wanted: Replay, limit: int) -> CommittedMessage | Skipped | Anomalous | Replay | None:
        """Committed messages of the replay, or what of it is still to be read."""
        reader = self._again
        if reader is None:
            return wanted
        messages = []
        while (found := reader.next()) is not None:
            if isinstance(found, Message):
                messages.append(found)
        if reader.done_upto == wanted.begin:
            return Replay(reader.fed_upto, wanted.end)
        committed = self.sequencer.feed(messages, reader.done_upto)
        if self.sequencer.replay is None:
            self._again = None
        return CommittedMessage(committed, is_whole=False) if committed else self.next(limit)

    def state(self) -> ReadState:
        """Return the state to continue from. While a delivery is under way it is in the middle of a transaction."""
        return self.sequencer.state()
