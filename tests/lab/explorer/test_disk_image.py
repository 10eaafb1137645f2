"""What a crash may leave behind."""

import pytest

from penstock.kernel.effects import Persist, Persisted, SaveState, StateSaved, TruncateLog
from penstock.kernel.ids import EntryId, Epoch, Lsn, Offset
from penstock.quorum.records.entry import Barrier, Confirm, Entry
from penstock.quorum.records.state import NodeState, SnapshotMeta
from penstock_lab.explorer.desks import member
from penstock_lab.explorer.disk_image import DiskImage

STATE = NodeState(member("A"))
BARRIER = Barrier(Epoch(1))
CONFIRM = Confirm(Epoch(1), Offset(1))
OTHER = Barrier(Epoch(2))


def persist(first: int, *entries: Entry) -> Persist:
    return Persist(Lsn(first), entries)


def test_writes_are_done_in_order_and_say_so() -> None:
    disk = DiskImage(STATE).put(persist(1, BARRIER, CONFIRM)).put(TruncateLog(Lsn(1))).put(SaveState(STATE))
    disk, event = disk.finish_one()
    assert (disk.records, event) == ((BARRIER, CONFIRM), Persisted(Lsn(2)))
    disk, event = disk.finish_one()
    assert (disk.records, event) == ((BARRIER,), None)
    disk, event = disk.finish_one()
    assert (disk.pending, event) == ((), StateSaved())


def test_a_crash_cuts_between_any_two_records() -> None:
    disk = DiskImage(STATE).put(persist(1, BARRIER, CONFIRM)).put(TruncateLog(Lsn(1))).put(persist(2, OTHER))
    logs = [survivor.records for survivor in disk.survivors()]
    assert logs == [(), (BARRIER,), (BARRIER, CONFIRM), (BARRIER, OTHER)], (
        "each once, although two cuts leave (BARRIER,)"
    )
    assert all(not survivor.pending for survivor in disk.survivors())


def test_the_log_as_it_will_be() -> None:
    disk = DiskImage(STATE).put(persist(1, BARRIER, CONFIRM)).put(TruncateLog(Lsn(1)))
    assert disk.written().records == (BARRIER,)
    assert disk.records == ()


def test_a_hole_in_the_log_is_no_log() -> None:
    with pytest.raises(AssertionError, match="a hole"):
        DiskImage(STATE, records=(BARRIER,)).put(persist(3, CONFIRM)).finish_one()


SNAPSHOT = NodeState(member("A"), snapshot=SnapshotMeta(EntryId(Epoch(2), Offset(2))))


@pytest.mark.parametrize(
    ("records", "first", "log", "head"),
    [
        ((), 1, (3, ()), (2, 2)),  # nothing but the snapshot
        ((BARRIER, CONFIRM), 1, (3, ()), (2, 2)),  # entries the snapshot has replaced
        ((BARRIER, OTHER, OTHER), 1, (1, (BARRIER, OTHER, OTHER)), (2, 3)),  # entries it agrees with
        ((OTHER,), 3, (3, (OTHER,)), (2, 3)),  # entries after it
    ],
)
def test_the_durable_log_is_what_a_restart_would_read(
    records: tuple[Entry, ...], first: int, log: tuple[int, tuple[Entry, ...]], head: tuple[int, int]
) -> None:
    disk = DiskImage(SNAPSHOT, first, records)
    assert disk.log() == log
    assert (disk.head.epoch, disk.head.offset) == head


def test_what_a_snapshot_holds_is_held() -> None:
    disk = DiskImage(SNAPSHOT, 3, (OTHER,))
    assert disk.holds(Epoch(1), 1)
    assert disk.holds(Epoch(2), 3)
    assert not disk.holds(Epoch(1), 3)
    assert not disk.holds(Epoch(2), 4)


def test_snapshots_are_kept_by_their_head() -> None:
    head = EntryId(Epoch(1), Offset(4))
    disk = DiskImage(STATE).keep_snapshot(head, b"one").keep_snapshot(head, b"two")
    assert disk.snapshot_at(head) == b"two"
    assert disk.snapshot_at(EntryId(Epoch(1), Offset(5))) is None


def test_trimming_drops_the_beginning_only() -> None:
    disk = DiskImage(STATE, records=(BARRIER, CONFIRM))
    assert (disk.trim(2).first, disk.trim(2).records) == (2, (CONFIRM,))
    assert disk.trim(1) == disk
