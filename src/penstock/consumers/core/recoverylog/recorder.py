"""The Recorder: turns what a store does to its files into frames for the recovery log.

Pure: it returns frames, and the caller appends them, in order, each with the check that the log's register `author` is
still this one. A process which was replaced finds it is not: its append is refused, and so is its commit.

A commit of the store is a barrier: when everything up to it is acknowledged (`acknowledged`), it is durable.
"""

from penstock.consumers.core.recoverylog.fsm import UNKNOWN_END, OperationVerdict, RecoveryFsm
from penstock.consumers.core.recoverylog.hints import Hints
from penstock.consumers.core.recoverylog.recorded_op import (
    Author,
    Op,
    RecordedCreate,
    RecordedLink,
    RecordedOp,
    RecordedWrite,
    Unlink,
    encode,
)
from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.kernel.ids import Offset

__all__ = ["AUTHOR_REGISTER", "OWNER_REGISTER", "Recorder"]

AUTHOR_REGISTER = "author"
OWNER_REGISTER = "owner"  # the group and shard whose files the log has


class Recorder:
    """Records for one author, from the state at which a playback handed over."""

    def __init__(self, fsm: RecoveryFsm, author: Author) -> None:
        assert not fsm.is_hinted, "the playback is not complete"
        self.author = author
        self._fsm = fsm
        self._sent = fsm.next.seq_no
        self._head = fsm.next.offset  # at or before whatever is appended next

    def create(self, path: str) -> bytes:
        """A new empty file. An existing file is unlinked first: this is how truncating works."""
        gone = self.unlink(path) if path in self._fsm.paths else b""
        return gone + self._record(RecordedCreate(path))

    def write(self, path: str, offset: int, content: bytes) -> bytes:
        if offset < 0:
            raise InvalidArgument(f"a write to {path} at {offset}")
        return self._record(RecordedWrite(self._fnode(path), offset, len(content)), content)

    def link(self, path: str, new_path: str) -> bytes:
        if new_path in self._fsm.paths:
            raise InvalidArgument(f"{new_path} exists already")
        return self._record(RecordedLink(self._fnode(path), new_path))

    def unlink(self, path: str) -> bytes:
        return self._record(Unlink(self._fnode(path), path))

    def rename(self, path: str, new_path: str) -> bytes:
        """Record a `rename`: a file at the new path is gone."""
        fnode = self._fnode(path)
        if path == new_path or self._fsm.paths.get(new_path) == fnode:
            return b""
        gone = self.unlink(new_path) if new_path in self._fsm.paths else b""
        return gone + self._record(RecordedLink(fnode, new_path)) + self._record(Unlink(fnode, path))

    @property
    def recorded_upto(self) -> int:
        """The number of the last operation, to be named in `acknowledged`."""
        return self._fsm.next.seq_no - 1

    def log_bytes(self, path: str) -> int:
        """Return how much the log has grown since the file was made: an upper bound on the bytes that a playback reads
        for it.
        """
        return self._head - self._fsm.fnodes[self._fnode(path)].segments[0].first_offset

    def acknowledged(self, seq_no: int, end: Offset) -> None:
        """Every operation up to a number is in the log, which ends at `end`, or did then."""
        self._head = max(self._head, end)
        if seq_no == self.recorded_upto:
            self._fsm.settle(self._head)

    def hints(self) -> Hints:
        """Hints to everything recorded. Only at a barrier: when all of it is acknowledged."""
        return self._fsm.hints()

    def _fnode(self, path: str) -> int:
        if path not in self._fsm.paths:
            raise NotFound(f"{path} is not in the recovery log")
        return self._fsm.paths[path]

    def _record(self, op: Op, content: bytes = b"") -> bytes:
        point = self._fsm.next
        recorded = RecordedOp(point.seq_no, point.checksum, self.author, op)
        frame, next_checksum = encode(recorded, content)
        verdict = self._fsm.apply(recorded, self._head, UNKNOWN_END, next_checksum)
        assert verdict is OperationVerdict.APPLIED, verdict
        return frame

    def check(self) -> None:
        self._fsm.check()
