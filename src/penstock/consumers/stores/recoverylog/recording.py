"""What a store did to its files and the log does not hold yet. Design: gazette.md 2.10.

Code that changes a file reports it here. Between two barriers the frames are gathered, so that one append takes a whole
transaction of the store, or nothing of it. Writes which follow each other in a file become one operation.

A file which is changed in place keeps its whole history alive: nothing of the log could ever be pruned, and a playback
would grow without end. So such a file is *rewritten* from time to time: its content is copied, piece by piece, into a
new file of the log, which at last takes the old one's place. On the disk nothing changes. What always holds:

- Frames leave in the order in which they were recorded.
- While a file is rewritten, the copy holds the same bytes as the file up to `_Rewrite.upto`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.recorder import Recorder
from penstock.kernel.ids import Offset

__all__ = ["COPY_SUFFIX", "Recording", "RecordingBarrier"]

COPY_SUFFIX: Final = "~copy"  # of a file which is being rewritten
RUN_BYTES_MAX: Final = 1 << 20  # of writes which become one operation
REWRITE_FACTOR: Final = 4  # a file is rewritten when the log has grown by this many times its size since it was made
REWRITE_LOG_BYTES_MIN: Final = 4 << 20
REWRITE_STEP_BYTES: Final = 4 << 20  # copied between two barriers


class RecordingBarrier(msgspec.Struct, frozen=True):
    """All that was recorded since the barrier before: durable when the log has it."""

    frames: tuple[bytes, ...]
    seq_no: int  # of the last operation

    @property
    def size(self) -> int:
        return sum(map(len, self.frames))


@dataclass(slots=True)
class _Run:
    """Writes which follow each other."""

    path: str
    offset: int
    pieces: list[bytes]
    end: int


@dataclass(slots=True)
class _Rewrite:
    """A file on its way to a new one."""

    path: str
    upto: int  # the copy has everything before


class Recording:
    """Records changes of the files of one folder, from where a playback handed over."""

    def __init__(self, folder: Path, recorder: Recorder) -> None:
        self.folder = folder
        self._recorder = recorder
        self._frames: list[bytes] = []
        self._run: _Run | None = None
        self._rewrite: _Rewrite | None = None

    # Changes of a file

    def created(self, path: str) -> None:
        """A new empty file, also where there was one."""
        self._give_up_rewrite_of(path)
        self._add(self._in_turn().create(path))

    def wrote(self, path: str, offset: int, content: bytes) -> None:
        rewrite = self._rewrite
        if rewrite is not None and rewrite.path == path and offset < rewrite.upto:
            self._add(self._in_turn().write(path + COPY_SUFFIX, offset, content))
        run = self._run
        if run is not None and run.path == path and run.end == offset and offset - run.offset < RUN_BYTES_MAX:
            run.pieces.append(content)
            run.end += len(content)
        else:
            self._flush_run()
            self._run = _Run(path, offset, [content], offset + len(content))

    def linked(self, path: str, new_path: str) -> None:
        self._add(self._in_turn().link(path, new_path))

    def unlinked(self, path: str) -> None:
        self._give_up_rewrite_of(path)
        self._add(self._in_turn().unlink(path))

    def renamed(self, path: str, new_path: str) -> None:
        self._give_up_rewrite_of(path)
        self._give_up_rewrite_of(new_path)
        self._add(self._in_turn().rename(path, new_path))

    def truncated(self, path: str, size: int) -> None:
        """The file was longer, or shorter. A log has no operation for this: it is a new file, with the remaining
        content.
        """
        self.created(path)
        self._copy(path, path, 0, size)

    # Rewriting

    def rewrite(self, path: str) -> None:
        """Copy a piece of the file, if it is due or under way. Only between two transactions of the store."""
        file_bytes = (self.folder / path).stat().st_size
        if self._rewrite is None:
            log_bytes = self._recorder.log_bytes(path)
            if log_bytes < max(REWRITE_LOG_BYTES_MIN, REWRITE_FACTOR * file_bytes):
                return
            self._rewrite = _Rewrite(path, 0)
            self._add(self._in_turn().create(path + COPY_SUFFIX))
        rewrite = self._rewrite
        assert rewrite.path == path, "one file at a time is rewritten"
        end = min(file_bytes, rewrite.upto + REWRITE_STEP_BYTES)
        self._copy(path, path + COPY_SUFFIX, rewrite.upto, end)
        rewrite.upto = end
        if rewrite.upto >= file_bytes:
            self._rewrite = None
            self._add(self._in_turn().rename(path + COPY_SUFFIX, path))

    def _give_up_rewrite_of(self, path: str) -> None:
        if self._rewrite is not None and self._rewrite.path == path:
            self._rewrite = None
            self._add(self._in_turn().unlink(path + COPY_SUFFIX))

    def _copy(self, path: str, target: str, begin: int, end: int) -> None:
        """Write into a file of the log the bytes [begin, end) of a file on the disk."""
        with (self.folder / path).open("rb") as file:
            file.seek(begin)
            for at in range(begin, end, RUN_BYTES_MAX):
                self.wrote(target, at, file.read(min(RUN_BYTES_MAX, end - at)))

    # Barriers

    def barrier(self) -> RecordingBarrier:
        """Take the recorded frames."""
        self._flush_run()
        frames, self._frames = self._frames, []
        return RecordingBarrier(tuple(frames), self._recorder.recorded_upto)

    def acknowledged(self, barrier: RecordingBarrier, end: Offset) -> Hints | None:
        """The log has all of it, and ends at `end`. Hints to it, unless more was recorded meanwhile."""
        self._recorder.acknowledged(barrier.seq_no, end)
        if barrier.seq_no != self._recorder.recorded_upto or self._run is not None:
            return None
        return self._recorder.hints()

    def _add(self, frames: bytes) -> None:
        if frames:
            self._frames.append(frames)

    def _in_turn(self) -> Recorder:
        """The Recorder, with nothing held back which was done before."""
        self._flush_run()
        return self._recorder

    def _flush_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            self._frames.append(self._recorder.write(run.path, run.offset, b"".join(run.pieces)))
