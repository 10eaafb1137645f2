"""A recovery log in memory, with its register, and a machine room which plays it back."""

from dataclasses import dataclass, field

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.playback import (
    AppendHandoff,
    AtHead,
    CreateFile,
    LinkFiles,
    LogChunk,
    Playback,
    PlayState,
    Promote,
    ReadRecoveryLog,
    RemoveFile,
    WriteFile,
)
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.kernel.effects import Effect, Stop
from penstock.kernel.ids import Instant, Offset

NOW = Instant(0)


class Fenced(Exception):
    pass


@dataclass
class Log:
    """The journal: bytes, holes where it was pruned, and the register."""

    data: bytearray = field(default_factory=bytearray)
    author: int = 0
    holes: list[tuple[int, int]] = field(default_factory=list)

    def append(self, data: bytes, author: int, *, is_checked: bool = True) -> Offset:
        if is_checked and author != self.author:
            raise Fenced
        self.data += data
        return Offset(len(self.data))

    def read(self, offset: int, size: int) -> tuple[int, bytes]:
        """Return bytes at an offset, or after the hole in which it lies; up to the next hole."""
        for begin, end in sorted(self.holes):
            if begin <= offset < end:
                offset = end
        stop = min([begin for begin, _ in self.holes if begin >= offset] + [len(self.data)])
        return offset, bytes(self.data[offset : min(offset + size, stop)])


@dataclass
class Room:
    """Runs a playback: files by fnode, and then by path."""

    log: Log
    playback: Playback
    chunk: int = 64
    fnodes: dict[int, bytearray] = field(default_factory=dict)
    files: dict[str, bytes] | None = None
    stopped: str | None = None

    def run(self, promoted: int | None, *, rivals: list[bytes] | None = None) -> "Room":
        """Play up to the head; if promoted, to the end. Rivals' operations get into the log just before our handoff
        does.
        """
        queue: list[Effect] = self.playback.start()
        is_told = promoted is None
        while queue and self.stopped is None:
            effect = queue.pop(0)
            queue += self.perform(effect, rivals or [])
            self.playback.check()
            if self.playback.state is PlayState.TAIL:
                if is_told:
                    break
                is_told = True
                assert promoted is not None
                queue += self.playback.step(Promote(promoted), NOW)
        return self

    def perform(self, effect: Effect, rivals: list[bytes]) -> list[Effect]:
        match effect:
            case ReadRecoveryLog(offset):
                at, data = self.log.read(offset, self.chunk)
                return self.playback.step(LogChunk(Offset(at), data) if data else AtHead(Offset(at)), NOW)
            case CreateFile(fnode):
                self.fnodes[fnode] = bytearray()
            case WriteFile(fnode, offset, content):
                file = self.fnodes[fnode]
                file.extend(bytes(max(0, offset - len(file))))
                file[offset : offset + len(content)] = content
            case RemoveFile(fnode):
                del self.fnodes[fnode]
            case AppendHandoff(author, frame):
                if rivals:
                    self.log.data += rivals.pop(0)
                self.log.author = author
                self.log.append(frame, author)
            case LinkFiles(paths):
                self.files = {path: bytes(self.fnodes[fnode]) for path, fnode in paths.items()}
            case Stop(reason):
                self.stopped = reason
            case _:
                raise AssertionError(effect)
        return []


def recorder_of(
    log: Log, author: int, hints: Hints | None = None, chunk: int = 64
) -> tuple[Recorder, dict[str, bytes]]:
    """Play the log back, take it over; the recorder, and the files."""
    room = Room(log, Playback(hints or Hints("log")), chunk).run(author)
    assert room.stopped is None, room.stopped
    assert room.files is not None
    return room.playback.recorder, room.files
