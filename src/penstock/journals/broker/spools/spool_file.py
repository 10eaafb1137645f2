"""One Fragment's content in a file, as it comes: written at the end, cut, read from anywhere, sent without a copy.

Design: journals.md J3; gazette.md §2.3. The file is made by the first write, so that a journal without appends has
none. It has a running SHA-1, and a copy of it now and then, so that a cut need read only the content after the last
copy. It also has a CRC-32C for each 64 KiB block on the disk, and readers get only blocks that match.

Content is added, which sums it, and then written out, all of it with one call of the system: so peers can learn of it
before this disk has it. Whatever looks into the file writes out first. Room is reserved before content is taken
(`reserve`), so that the write does not fail for lack of it.

A reader or uploader holds it: its bytes stay until the last holder releases it, whatever becomes of its name.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from penstock.journals.records.fragment import EMPTY_SUM, Sum
from penstock.kernel.errors import DataDamaged, StorageError, Written
from penstock.kernel.ids import Offset
from penstock.plumbing.files.sums import BLOCK_BYTES, Summing
from penstock.plumbing.ports.disk import FileSystem, is_full
from penstock.plumbing.wal.checksum import crc32c
from penstock.plumbing.wal.disk import storage_error

__all__ = ["CHUNK_BYTES", "Buffer", "SpoolFile", "view_of"]

Buffer = bytes | bytearray | memoryview

CHUNK_BYTES: Final = 1 << 20  # read at a time when a file is summed
SUM_STEP_BYTES: Final = 256 << 10  # between copies of the running sum: a cut reads so much, and cuts are rare
RESERVED_MIN: Final = 64 << 10  # an idle journal holds no more than this; a busy one doubles it
RESERVED_MAX: Final = 16 << 20
SUMS_MAX: Final = 1_024  # copies; for a file which is longer than those reach, the steps are
_BUFFERS_MAX: Final = 1_024  # IOV_MAX


class SpoolFile:
    """A file for the content from `begin` on. Its calls block for as long as the page cache takes."""

    def __init__(self, disk: FileSystem, path: Path, begin: Offset) -> None:
        self.path = path
        self.begin = begin
        self.size = 0
        self._disk = disk
        self._fd: int | None = None
        self._holders = 1  # its owner
        self._hash = hashlib.sha1(usedforsecurity=False)
        self._hashes: dict[int, Any] = {}  # size → the sum's state there
        self._hashed = 0  # the last of those sizes
        self._step = SUM_STEP_BYTES
        self._blocks = Summing()  # of the written bytes
        self._unwritten: list[memoryview] = []  # added, and not yet written: the last bytes of `size`
        self._unsynced = False
        self._reserved = 0  # writes below this offset of the file do not fail for lack of room
        self._is_tight = False  # there was no room ahead when some was asked for last

    @classmethod
    def recover(cls, disk: FileSystem, path: Path, begin: Offset, size: int, sum_: Sum) -> "SpoolFile | None":
        """Open a file of an earlier run; None unless it has at least `size` bytes, and the first `size` bytes have this
        sum.

        Later bytes stay until other content is written over them: only the caller can judge them.
        """
        file = cls(disk, path, begin)
        try:
            file._fd = disk.open(path)
            if disk.size(file._fd) >= size:
                file.size = size
                file._restore(size)
                if file.sum == sum_:
                    return file
        except FileNotFoundError:
            return None
        except OSError as error:
            raise storage_error(error, f"reading {path}") from error
        file.release()
        return None

    @property
    def end(self) -> Offset:
        return Offset(self.begin + self.size)

    @property
    def sum(self) -> Sum:
        """SHA-1 of its whole content."""
        digest: Sum = self._hash.digest() if self.size else EMPTY_SUM
        return digest

    # Writing

    def reserve(self, length: int) -> bool:
        """Reserve room for `length` more bytes, and some ahead; return whether there was room ahead.

        The system's error says that there is no room for these bytes.
        """
        needed = self.size + length
        if needed <= self._reserved:
            return not self._is_tight
        if not self._reserve(needed + min(max(needed, RESERVED_MIN), RESERVED_MAX)):
            at = min(self._reserved, self.size)
            self._disk.reserve(self._open(), at, needed - at)
            self._reserved, self._is_tight = needed, True
        return not self._is_tight

    def widen(self) -> bool:
        """Reserve ahead again; return whether there is room now."""
        return self._reserve(self.size + min(max(self.size, RESERVED_MIN), RESERVED_MAX))

    def _reserve(self, upto: int) -> bool:
        """Reserve up to this offset; False if the disk is too full for that."""
        at = min(self._reserved, self.size)
        try:
            self._disk.reserve(self._open(), at, upto - at)
        except OSError as error:
            if not is_full(error):
                raise
            return False
        self._reserved, self._is_tight = max(self._reserved, upto), False
        return True

    def release_reserved(self) -> None:
        """Give back the room for more: no content comes any more, or not soon."""
        if self._fd is not None and self._reserved > self.size:
            self._disk.release(self._fd)
            self._reserved = 0

    def add(self, content: Buffer) -> None:
        """More at the end. It must not change before it is written out."""
        if type(content) is memoryview and content.format == "B" and content.ndim == 1:
            view = content  # as nearly always
        else:
            view = view_of(content)
        self._hash.update(view)
        self._unwritten.append(view)
        self.size += len(view)
        if self.size - self._hashed >= self._step:
            self._keep_sum()

    def _keep_sum(self) -> None:
        if len(self._hashes) >= SUMS_MAX:
            self._hashes = dict(list(self._hashes.items())[1::2])
            self._step *= 2
        self._hashes[self.size] = self._hash.copy()
        self._hashed = self.size

    def write(self, *contents: Buffer) -> None:
        """Add bytes at the end, and write them out."""
        for content in contents:
            self.add(content)
        self.write_out()

    def write_out(self) -> None:
        """Write all that was added. If it fails, nothing of it was."""
        views, self._unwritten = self._unwritten, []
        if not views:
            return
        before = self.size - (len(views[0]) if len(views) == 1 else sum(map(len, views)))
        try:
            self._write(views, before)
        except OSError as error:
            self.size = before
            self._restore(before)
            raise storage_error(error, f"writing {self.path}", written=Written.NO) from error
        for view in views:
            self._blocks.add(view)
        self._unsynced = True

    def _write(self, views: Sequence[memoryview], at: int) -> None:
        fd = self._fd if self._fd is not None else self._open()
        if len(views) == 1 and self._disk.pwrite(fd, views[0], at) == len(views[0]):
            return
        for first in range(0, len(views), _BUFFERS_MAX):
            batch = views[first : first + _BUFFERS_MAX]
            expected = sum(map(len, batch))
            done = self._disk.pwritev(fd, batch, at)
            if done < expected:  # a full disk says so with the next call
                self._write_rest(fd, batch, done, at)
            at += expected

    def _write_rest(self, fd: int, views: Sequence[memoryview], done: int, at: int) -> None:
        whole = memoryview(b"".join(views))
        while done < len(whole):
            done += self._disk.pwrite(fd, whole[done:], at + done)

    def _open(self) -> int:
        if self._fd is None:
            self._disk.make_folders(self.path.parent)
            self._fd = self._disk.create_new(self.path)
        return self._fd

    def cut(self, size: int, sum_: Sum, *, frees: bool = True) -> None:
        """Drop all content from this size on; the rest must have this sum.

        Without `frees` the bytes stay in the file until others are written over them: a state which is still the last
        durable one may speak of them.
        """
        assert size <= self.size, (size, self.size)
        self.write_out()
        if size < self.size:
            self._restore(size)
            self.size = size
            if frees:
                self._truncate()
        if self.sum != sum_:
            raise StorageError(f"{self.path} is damaged: its first {size} bytes have another sum than they had")

    def _truncate(self) -> None:
        try:
            self._disk.ftruncate(self._open(), self.size)
            self._reserved = 0
        except OSError as error:
            raise storage_error(error, f"cutting {self.path}", written=Written.UNKNOWN) from error

    def _restore(self, size: int) -> None:
        """Restore the sum at this size: from the last copy below it, and the file's content after that."""
        self._hashes = {at: state for at, state in self._hashes.items() if at <= size}
        self._hashed = max(self._hashes, default=0)
        known = self._hashes.get(self._hashed)
        self._hash = hashlib.sha1(usedforsecurity=False) if known is None else known.copy()
        summed = self._blocks.cut(size)
        for at in range(self._hashed, size, CHUNK_BYTES):
            data = self.read(at, min(CHUNK_BYTES, size - at))
            self._hash.update(data)
            if at == summed:
                self._blocks.add(data)
                summed += len(data)
        if summed < size:  # of the last block only
            self._blocks.add(self.read(summed, size - summed))

    @property
    def is_synced(self) -> bool:
        return not self._unsynced

    def sync(self) -> bool:
        """Make the written content durable; return whether there was any. May run in a thread, while writes
        continue.
        """
        if not self._unsynced or self._fd is None:
            return False
        self._unsynced = False  # before, not after: content written meanwhile may not be covered
        try:
            self._disk.fdatasync(self._fd)
        except OSError as error:
            raise storage_error(error, f"syncing {self.path}", written=Written.UNKNOWN) from error
        return True

    # Reading

    def read(self, at: int, size: int) -> bytes:
        """Return exactly these bytes, by their place in the file; added content is not in the file yet."""
        assert self._fd is not None
        try:
            data = self._disk.pread(self._fd, size, at)
            while len(data) < size:
                more = self._disk.pread(self._fd, size - len(data), at + len(data))
                if not more:
                    raise StorageError(f"{self.path} is cut short: {at + len(data)} of {at + size} bytes are left")
                data += more
        except OSError as error:
            raise storage_error(error, f"reading {self.path}") from error
        return data

    def read_checked(self, at: int, size: int) -> memoryview:
        """Return the same bytes after the blocks in which they lie were compared. `DataDamaged`: one is another."""
        first, behind = at - at % BLOCK_BYTES, min(-(-(at + size) // BLOCK_BYTES) * BLOCK_BYTES, self._blocks.size)
        data = self.read(first, max(behind, at + size) - first)
        for begin in range(0, len(data), BLOCK_BYTES):
            block = data[begin : begin + BLOCK_BYTES] if len(data) > BLOCK_BYTES else data
            if crc32c(block) != self._blocks.crc((first + begin) // BLOCK_BYTES):
                begin, end = self.begin + first + begin, self.begin + first + begin + len(block)
                raise DataDamaged(
                    f"{self.path} is damaged: offsets [{begin}, {end}) have another sum than they had",
                    next_step="read from another broker, or look into the file",
                    object=str(self.path),
                    begin=begin,
                    end=end,
                )
        return memoryview(data)[at - first : at - first + size]

    @property
    def fd(self) -> int | None:
        """The file for a caller that maps or sends it in its own way; None while nothing was written."""
        return self._fd

    # Life

    def hold(self) -> Self:
        assert self._holders > 0
        self._holders += 1
        return self

    def release(self) -> None:
        """Let go; the last one closes it."""
        self._holders -= 1
        if self._holders == 0 and self._fd is not None:
            self._disk.close(self._fd)
            self._fd = None

    def unlink(self) -> None:
        """Take its name away; who holds it still reads it."""
        if self._fd is not None:
            self._disk.remove(self.path)

    def rename(self, path: Path) -> None:
        if self._fd is not None:
            self._disk.make_folders(path.parent)
            self._disk.rename(self.path, path)
        self.path = path


def view_of(content: Buffer) -> memoryview:
    """The bytes of a buffer, whatever its items are."""
    view = memoryview(content)
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
