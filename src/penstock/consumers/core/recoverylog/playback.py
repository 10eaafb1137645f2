"""Playback: builds a store's files again from its recovery log, and takes the log over. Design: gazette.md 2.10.

    BACKFILL ──at the head──▶ TAIL (a hot standby stays here) ──Promote──▶ HANDOFF ──its own operation is read──▶ DONE

Files are built under their fnodes, in a folder of their own, and linked to their paths when all is done. A handoff is
an operation without an effect, with this process's author, which sets the log's register `author`: from then on no
other process can record. If another operation was in the log before it, the handoff is not the next of the chain, and
is tried again after that operation. What the log no longer holds although the hints name it is an error.
"""

from enum import Enum

from penstock.consumers.core.recoverylog.fsm import OperationVerdict, RecoveryFsm
from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.recorded_op import (
    Author,
    Handoff,
    OpReader,
    ReadOp,
    RecordedCreate,
    RecordedOp,
    RecordedWrite,
    Unlink,
    encode,
)
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.kernel.effects import Effect, Event, Stop
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Instant, Offset
from penstock.kernel.probes import reached

__all__ = [
    "AppendHandoff",
    "AtHead",
    "CreateFile",
    "LinkFiles",
    "LogChunk",
    "PlayState",
    "Playback",
    "Promote",
    "ReadRecoveryLog",
    "RemoveFile",
    "WriteFile",
]


class PlayState(Enum):
    """The state of a playback; see the module's picture."""

    BACKFILL = "backfill"
    TAIL = "tail"
    HANDOFF = "handoff"
    DONE = "done"


# Effects


class ReadRecoveryLog(Effect, frozen=True):
    """Bytes of the log from an offset on. Completed by `LogChunk`, or by `AtHead` where there are none yet."""

    offset: Offset


class CreateFile(Effect, frozen=True):
    """A new empty file, named by its fnode."""

    fnode: int


class WriteFile(Effect, frozen=True):
    """Bytes into a file, which is made longer with zeros where it ends before them."""

    fnode: int
    offset: int
    content: bytes


class RemoveFile(Effect, frozen=True):
    """The file is gone."""

    fnode: int


class AppendHandoff(Effect, frozen=True):
    """Append this, setting the register `author`, whatever its value. Reading continues; nothing else completes it."""

    author: Author
    frame: bytes


class LinkFiles(Effect, frozen=True):
    """Link the files to their paths: the store may be opened, and recorded with `Playback.recorder`."""

    paths: dict[str, int]


# Events


class LogChunk(Event, frozen=True):
    """Bytes of the journal, in answer to `Read`. It begins after the requested offset where the bytes between
    are gone.
    """

    offset: Offset
    data: bytes


class AtHead(Event, frozen=True):
    """The log ends at this offset, for now."""

    offset: Offset


class Promote(Event, frozen=True):
    """This process is to become the one that records."""

    author: Author


class Playback:
    """Plays one log back, from hints on."""

    def __init__(self, hints: Hints) -> None:
        self.state = PlayState.BACKFILL
        self.fsm = RecoveryFsm(hints)
        self._log = hints.log
        self._promoted: Author | None = None
        self._injected: RecordedOp | None = None  # the handoff which is on its way
        self._reader = OpReader(self.fsm.next.offset)

    def start(self) -> list[Effect]:
        return [ReadRecoveryLog(self._reader.fed_upto)]

    def step(self, event: Event, now: Instant) -> list[Effect]:
        if self.state is PlayState.DONE:
            return []
        try:
            match event:
                case LogChunk(offset, data):
                    return self._on_chunk(offset, data)
                case AtHead(offset):
                    return self._on_head(offset)
                case Promote(author):
                    self._promoted = author
                    return self._maybe_inject()
                case _:
                    raise AssertionError(f"unknown event {event}")
        except MalformedFrame as error:
            self.state = PlayState.DONE
            return [Stop(f"{self._log}: {error.message}")]

    @property
    def recorder(self) -> Recorder:
        """Return the Recorder that continues from here."""
        assert self.state is PlayState.DONE, "the playback is not done"
        assert self._promoted is not None
        return Recorder(self.fsm, self._promoted)

    # events

    def _on_chunk(self, offset: Offset, data: bytes) -> list[Effect]:
        wanted = self._reader.fed_upto
        if offset != wanted:
            # Gone bytes may be passed over only where nothing in them can count: before the next segment begins.
            if offset > self.fsm.next.offset:
                raise MalformedFrame(f"possible data loss: operations from {self.fsm.next.offset} on are gone")
            self._reader = OpReader(offset)
        effects: list[Effect] = []
        for read in self._reader.feed(offset, data):
            effects += self._play(read)
            if self.state is PlayState.DONE:
                return effects
        return [*effects, ReadRecoveryLog(self._seek())]

    def _on_head(self, offset: Offset) -> list[Effect]:
        if self.fsm.is_hinted or offset < self.fsm.next.offset:
            raise MalformedFrame(f"possible data loss: the log ends at {offset}, before what its hints name")
        effects: list[Effect] = []
        if self.state is PlayState.BACKFILL:
            self.state = PlayState.TAIL
            effects = self._maybe_inject()
        return [*effects, ReadRecoveryLog(self._reader.fed_upto)]

    def _seek(self) -> Offset:
        """Return where to continue reading: at the next segment, if the hints jump."""
        if self.fsm.next.offset > self._reader.fed_upto:
            reached("recoverylog.jump")
            self._reader = OpReader(self.fsm.next.offset)
        return self._reader.fed_upto

    # operations

    def _play(self, read: ReadOp) -> list[Effect]:
        verdict = self.fsm.apply(read.recorded, read.begin, read.end, read.next_checksum)
        if read.recorded == self._injected:
            return self._on_handoff(verdict)
        if verdict is not OperationVerdict.APPLIED:
            if not verdict.counts:
                reached("recoverylog.passed_over")
            return []
        match read.recorded.op:
            case RecordedCreate():
                return [CreateFile(read.recorded.seq_no)]
            case RecordedWrite(fnode, offset, _):
                return [WriteFile(fnode, offset, read.content)]
            case Unlink(fnode) if fnode not in self.fsm.fnodes:
                return [RemoveFile(fnode)]
            case _:
                return []

    # the handoff

    def _maybe_inject(self) -> list[Effect]:
        if self._promoted is None or self.state is not PlayState.TAIL:
            return []
        self.state = PlayState.HANDOFF
        return [self._inject()]

    def _inject(self) -> AppendHandoff:
        assert self._promoted is not None
        point = self.fsm.next
        self._injected = RecordedOp(point.seq_no, point.checksum, self._promoted, Handoff())
        frame, _ = encode(self._injected)
        return AppendHandoff(self._promoted, frame)

    def _on_handoff(self, verdict: OperationVerdict) -> list[Effect]:
        if not verdict.counts:
            reached("recoverylog.handoff_again")
            return [self._inject()]
        self.state = PlayState.DONE
        return [LinkFiles(dict(sorted(self.fsm.paths.items())))]

    def check(self) -> None:
        """The invariants."""
        self.fsm.check()
        assert (self._injected is not None) == (self.state is PlayState.HANDOFF) or self.state is PlayState.DONE
        assert self._promoted is not None or self.state is not PlayState.HANDOFF
