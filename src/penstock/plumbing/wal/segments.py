"""The segments of a WAL, as the one thread sees them which may write: append, roll over, truncate, trim. It blocks.

What always holds between two calls:

- Every record up to `last_lsn` is durable; `chain` is the crc of the last one.
- `live` is replaced, never changed: a reader in another thread keeps the row it took.
- After an exception from any of them, only `close` may be called: the content of the disk is unknown.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.kernel.ids import Lsn
from penstock.plumbing.ports.ports import Chance, SystemChance
from penstock.plumbing.wal.batch import HEAD_BYTES, encode
from penstock.plumbing.wal.cursor import Cursor, Damage, LogBatch
from penstock.plumbing.wal.disk import Disk, lock_folder, make_folder, read_fully, storage_error, write_fully
from penstock.plumbing.wal.recovery import Recovery, Survey, Tail, survey
from penstock.plumbing.wal.segment import HEADER_BYTES, WalSegment, corrupt, create_segment

__all__ = ["LOCK_NAME", "Segments"]

LOCK_NAME: Final = "LOCK"


class Segments:
    """An open folder of segments, locked for this object."""

    def __init__(self, disk: Disk, folder: Path, segment_bytes: int, lock_fd: int, chance: Chance) -> None:
        self.live: tuple[WalSegment, ...] = ()
        self.last_lsn = Lsn(0)
        self.written_lsn = Lsn(0)  # as last_lsn, but not yet durable between a write and its fdatasync
        self.chain = 0
        self._disk = disk
        self._chance = chance
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._lock_fd = lock_fd
        self._fd: int | None = None  # of the last segment
        self._at = 0  # where the next batch goes
        self._serial = 0
        self._is_marked = True  # whether a later record proves it durable

    @classmethod
    def open(
        cls, disk: Disk, folder: Path, segment_bytes: int, confirmed: int = 0, chance: Chance | None = None
    ) -> tuple["Segments", Recovery]:
        """Lock the folder, recover its log, and make ready to append.

        `confirmed`: the Lsn up to which a witness has seen the log durable. A log that ends before it is corrupt.
        """
        try:
            make_folder(disk, folder)
            lock_fd = lock_folder(disk, folder / LOCK_NAME)
        except OSError as error:
            raise storage_error(error, f"opening the WAL in {folder}") from error
        segments = cls(disk, folder, segment_bytes, lock_fd, chance or SystemChance())
        try:
            return segments, segments._recover(confirmed)
        except OSError as error:
            segments.close()
            raise storage_error(error, f"recovering the WAL in {folder}") from error
        except BaseException:
            segments.close()
            raise

    @property
    def first_lsn(self) -> Lsn:
        return self.live[0].first_lsn

    def make_room(self, body_bytes: int) -> None:
        """Begin a new segment if a batch with this much of index and payloads does not fit into the last one.

        If this fails, nothing of the batch was written.
        """
        wanted_bytes = HEAD_BYTES + body_bytes + HEAD_BYTES  # a mark must fit after it
        if self._at + wanted_bytes > self._segment_bytes and self._at > HEADER_BYTES:
            self._begin(Lsn(self.last_lsn + 1), self.chain, HEADER_BYTES + wanted_bytes)

    def write(self, records: list[bytes]) -> None:
        """Append a batch, for which there must be room, and return when it is durable."""
        assert self._fd is not None
        segment = self.live[-1]
        data, chain = encode(records, self.last_lsn + 1, segment.salt, self.chain)
        write_fully(self._disk, self._fd, data, self._at)
        if records:
            segment.note(self.last_lsn + 1, self._at)
            self.written_lsn = Lsn(self.last_lsn + len(records))
        self._disk.fdatasync(self._fd)
        self._at += len(data)
        self.chain = chain
        self.last_lsn = self.written_lsn
        self._is_marked = not records

    def mark(self) -> None:
        """Prove to the next recovery that everything so far is durable, unless something proves it already."""
        if not self._is_marked:
            self.write([])

    def truncate(self, lsn: Lsn) -> None:
        """Drop every record behind `lsn`. After a crash, all of them are dropped or none."""
        if lsn == self.last_lsn:
            return
        assert self.first_lsn - 1 <= lsn < self.last_lsn, (self.first_lsn, lsn, self.last_lsn)
        before = self.live
        chain, end = self._place_of(lsn)
        self.written_lsn = lsn
        self._begin(Lsn(lsn + 1), chain)
        # From here on the records are gone, whatever happens: their segments are dead, or end at a newer one.
        kept = [segment.path for segment in self.live]
        self._remove([segment.path.name for segment in before if segment.path not in kept])
        if len(kept) > 1:
            self._cut(self.live[-2], end)

    def trim(self, lsn: Lsn) -> None:
        """Remove the segments which hold nothing but records before `lsn`."""
        while len(self.live) > 1 and self.live[1].first_lsn <= lsn:
            oldest = self.live[0]
            self.live = self.live[1:]  # first, so that a reader who misses the file sees why
            # Each removal is made durable before the next: a hole between two segments would look like damage.
            self._remove([oldest.path.name])

    def close(self) -> None:
        """Give everything back. Whatever happened before, this does not fail."""
        for fd in (self._fd, self._lock_fd):
            if fd is not None and fd >= 0:
                with suppress(OSError):
                    self._disk.close(fd)
        self._fd, self._lock_fd = None, -1

    def _begin(self, first_lsn: Lsn, chain: int, needed_bytes: int = 0) -> None:
        """Start a new life at `first_lsn`, in a new segment. What any other segment holds from there on is dead."""
        segment, fd = create_segment(
            self._disk,
            self._folder,
            first_lsn=first_lsn,
            serial=self._serial + 1,
            salt=int.from_bytes(self._chance.token(8), "big"),
            chain=chain,
            reserve_bytes=max(self._segment_bytes, needed_bytes),
        )
        before, self._fd = self._fd, fd
        if before is not None:
            self._disk.close(before)
        self._serial += 1
        self._at = HEADER_BYTES
        self.chain = chain
        self.last_lsn = self.written_lsn = Lsn(first_lsn - 1)
        self._is_marked = True
        self.live = (*(other for other in self.live if other.first_lsn < first_lsn), segment)

    def _place_of(self, lsn: Lsn) -> tuple[int, int]:
        """Return the crc of a record, and the byte after it."""
        segment = next(segment for segment in reversed(self.live) if segment.first_lsn <= max(lsn, self.first_lsn))
        if lsn < segment.first_lsn:
            return segment.chain, HEADER_BYTES
        batch = self._batch_of(segment, lsn)
        return batch.chain, batch.end

    def _batch_of(self, segment: WalSegment, lsn: Lsn) -> LogBatch:
        """Return the batch that holds a record, cut off after it."""
        fd = self._disk.open(segment.path)
        try:
            cursor = Cursor.before(self._disk, fd, segment, lsn)
            while not isinstance(batch := cursor.next(lsn), Damage):
                if batch.count and batch.last_lsn == lsn:
                    return batch
        finally:
            self._disk.close(fd)
        raise corrupt(segment.path, batch.at, batch.lsn, batch.why)

    def _remove(self, names: list[str]) -> None:
        for name in names:
            self._disk.unlink(self._folder / name)
        if names:
            self._disk.fsync_folder(self._folder)

    def _cut(self, segment: WalSegment, end: int) -> None:
        """Give back the space after the last live record of a segment. It is dead already: this only saves space."""
        fd = self._disk.open(segment.path)
        try:
            self._disk.ftruncate(fd, end)
        finally:
            self._disk.close(fd)

    def _recover(self, confirmed: int) -> Recovery:
        # What an earlier process did to the folder may not be durable yet, though we see it.
        self._disk.fsync_folder(self._folder)
        found = survey(self._disk, self._folder)
        last_lsn = found.tail.last_lsn if found.tail is not None else 0
        if last_lsn < confirmed:
            last = found.live[-1].path if found.live else self._folder
            at = found.torn.byte if found.torn is not None else found.tail.at if found.tail is not None else 0
            raise corrupt(last, at, last_lsn + 1, f"the log ends at lsn {last_lsn}, and had come to lsn {confirmed}")
        self._serial = found.serial_max
        self._remove(list(found.dead))
        if found.tail is None:
            self._disk.fsync_folder(self._folder.parent)
            self._begin(Lsn(1), 0)
        else:
            self._resume(found, found.tail)
        return Recovery(
            self.first_lsn, self.last_lsn, len(self.live), found.bytes_checked, found.torn, tuple(found.dead)
        )

    def _resume(self, found: Survey, tail: Tail) -> None:
        """Continue after the last right record: in the same segment if its end is clean, else in a new one."""
        self.live = found.live
        self.last_lsn = self.written_lsn = tail.last_lsn
        self.chain = tail.chain
        self._at = tail.at
        self._fd = self._disk.open(found.live[-1].path)
        self._is_marked = tail.unsure_at is None
        if tail.unsure_at is not None:
            self._write_again(tail.unsure_at, tail.at)
        if found.torn is None:
            self.mark()
            return
        torn = found.live[-1]
        self._begin(Lsn(tail.last_lsn + 1), tail.chain)
        if torn in self.live:
            self._cut(torn, tail.at)

    def _write_again(self, start: int, end: int) -> None:
        """Make the last batch durable, of which we only know that we can read it.

        The process which wrote it may have seen its fdatasync fail. Then the bytes are in the page cache, marked as
        clean, and another fdatasync would return at once without writing them: they have to be made dirty again.
        """
        assert self._fd is not None
        write_fully(self._disk, self._fd, read_fully(self._disk, self._fd, end - start, start), start)
        self._disk.fdatasync(self._fd)
