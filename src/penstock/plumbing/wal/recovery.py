"""Recovery: what a folder of segments holds, and whether its end is clean, torn or damaged. It only reads.

How recovery tells a torn tail from corruption (docs/reference/wal.md#recovery, with the limits of this judgement):

- A segment which is not the last was durable before the next one got its name: anything wrong in it is corruption.
- In the last one, a batch was written only when all before it was durable: any error followed by a right head of a
  later batch is corruption.
- Any error without such a later head is the rest of an interrupted write: a torn tail, never acknowledged.
"""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import msgspec

from penstock.kernel.ids import Lsn
from penstock.plumbing.wal.cursor import Cursor, Damage, LogBatch, find_head, is_blank
from penstock.plumbing.wal.disk import Disk
from penstock.plumbing.wal.segment import HEADER_BYTES, SUFFIX, TEMPORARY, WalSegment, corrupt, read_header

__all__ = ["Recovery", "Survey", "Tail", "TornTail", "survey"]

_NO_LIMIT = 1 << 64


class TornTail(msgspec.Struct, frozen=True):
    """What an interrupted write left behind. It is dropped."""

    file: str
    byte: int  # where the first wrong thing begins
    lsn: Lsn  # what the first dropped record had, or would have had
    why: str


class Recovery(msgspec.Struct, frozen=True):
    """The records that were found when a WAL was opened, and those that were dropped."""

    first_lsn: Lsn
    last_lsn: Lsn
    segments: int
    bytes_checked: int
    torn: TornTail | None = None
    dead: tuple[str, ...] = ()  # files left over from a truncation or a roll-over which did not come to its end


class Tail(msgspec.Struct, frozen=True):
    """The end of the last segment."""

    at: int  # the byte after the last right record or mark
    last_lsn: Lsn
    chain: int
    unsure_at: int | None  # where the last batch begins, unless a later mark proves it durable


class Survey(msgspec.Struct, frozen=True):
    """A folder's segments, checked from the first byte to the last."""

    live: tuple[WalSegment, ...]  # by first Lsn, and by serial
    dead: tuple[str, ...]  # names to be removed
    tail: Tail | None  # None in a new folder
    bytes_checked: int = 0
    torn: TornTail | None = None
    serial_max: int = 0


def survey(disk: Disk, folder: Path) -> Survey:
    """Check everything in the folder, or raise `WalCorrupt` at the first thing which must not be."""
    names = sorted(disk.names(folder))
    leftovers = [name for name in names if name.endswith(SUFFIX + TEMPORARY)]
    found = [_open_header(disk, folder / name) for name in names if _is_segment(name)]
    live = _live(found)
    kept = {segment.path for segment in live}
    dead = leftovers + [segment.path.name for segment in found if segment.path not in kept]
    if not live:
        return Survey((), tuple(dead), None)
    checked = 0
    chain = live[0].chain
    for segment, following in pairwise(live):
        checked += _check_sealed(disk, segment, chain, following)
        chain = following.chain
    tail, torn = _check_last(disk, live[-1], chain)
    serial_max = max(segment.serial for segment in found)
    return Survey(live, tuple(dead), tail, checked + tail.at, torn, serial_max)


def _is_segment(name: str) -> bool:
    return name.endswith(SUFFIX) and name.removesuffix(SUFFIX).isdecimal()


def _open_header(disk: Disk, path: Path) -> WalSegment:
    fd = disk.open(path)
    try:
        return read_header(disk, fd, path)
    finally:
        disk.close(fd)


def _live(found: Iterable[WalSegment]) -> tuple[WalSegment, ...]:
    """Return the segments that no newer one ended before they began."""
    live: list[WalSegment] = []
    for segment in sorted(found, key=lambda segment: segment.serial):
        while live and live[-1].first_lsn >= segment.first_lsn:
            live.pop()
        live.append(segment)
    return tuple(live)


def _check_sealed(disk: Disk, segment: WalSegment, chain: int, following: WalSegment) -> int:
    """Walk a segment up to where the following one takes over; how many bytes that was."""
    last_lsn = following.first_lsn - 1
    fd = disk.open(segment.path)
    try:
        cursor = Cursor(disk, fd, segment, at=HEADER_BYTES, chain=chain, lsn=segment.first_lsn)
        while cursor.lsn <= last_lsn:
            batch = cursor.next(last_lsn)
            if isinstance(batch, Damage):
                why = f"{batch.why}, though {following.path.name} continues from lsn {following.first_lsn}"
                raise corrupt(segment.path, batch.at, batch.lsn, why)
            segment.note(batch.first_lsn, batch.at)
    finally:
        disk.close(fd)
    if cursor.chain != following.chain:
        why = f"it does not continue lsn {last_lsn} of {segment.path.name}"
        raise corrupt(following.path, 0, following.first_lsn, why)
    return cursor.at


def _check_last(disk: Disk, segment: WalSegment, chain: int) -> tuple[Tail, TornTail | None]:
    """Walk the last segment to its end, and judge its records."""
    fd = disk.open(segment.path)
    try:
        cursor = Cursor(disk, fd, segment, at=HEADER_BYTES, chain=chain, lsn=segment.first_lsn)
        unsure_at = None
        while isinstance(batch := cursor.next(_NO_LIMIT), LogBatch):
            segment.note(batch.first_lsn, batch.at)
            unsure_at = batch.at if batch.count else None
        tail = Tail(cursor.at, Lsn(cursor.lsn - 1), cursor.chain or 0, unsure_at)
        return _judge(disk, fd, segment, batch, tail)
    finally:
        disk.close(fd)


def _judge(disk: Disk, fd: int, segment: WalSegment, damage: Damage, tail: Tail) -> tuple[Tail, TornTail | None]:
    """Why the walk stopped: the clean end, a torn tail (which may leave records of its batch), or corruption."""
    if is_blank(disk, fd, damage.batch_at):
        return tail, None
    if damage.is_misplaced:
        raise corrupt(segment.path, damage.at, damage.lsn, damage.why)
    # A right head at the very place of the damage is that of the damaged batch itself, and proves nothing about it.
    behind = find_head(disk, fd, segment, at=damage.batch_at + 1, lsn=tail.last_lsn + 1)
    if behind is not None:
        at, head = behind
        why = f"{damage.why}, though a batch that begins at lsn {head.first_lsn} follows, at byte {at}"
        raise corrupt(segment.path, damage.at, damage.lsn, why)
    torn = TornTail(str(segment.path), damage.at, Lsn(damage.lsn), damage.why)
    intact = damage.intact
    if intact is None:
        return tail, torn
    segment.note(intact.first_lsn, intact.at)
    return Tail(intact.end, Lsn(intact.last_lsn), intact.chain, intact.at), torn
