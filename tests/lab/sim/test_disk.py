"""The simulated disk: operations in order, torn tails, and a crash that keeps a prefix."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.effects import Persist, SaveState, TrimLog, TruncateLog
from penstock.kernel.ids import Instant, Lsn
from penstock_lab.sim.disk import DiskContent, SimDisk

NOW = Instant(0)


def persist(disk: SimDisk, *records: str) -> None:
    operation = Persist(Lsn(disk.last + 1), records)
    disk.submit(NOW, operation)
    disk.complete(operation)


def test_durable_operations_survive_in_order() -> None:
    disk = SimDisk(Random(1))
    persist(disk, "a", "b", "c")
    for operation in (TruncateLog(Lsn(2)), SaveState("s"), Persist(Lsn(3), ("d",))):
        disk.submit(NOW, operation)
        disk.complete(operation)
    disk.trim(TrimLog(Lsn(2)))
    disk.crash()
    assert disk.recover() == DiskContent(Lsn(2), ("b", "d"), "s")


def test_completions_come_in_order_even_when_a_later_operation_is_quicker() -> None:
    disk = SimDisk(Random(3))
    ends = [disk.submit(NOW, Persist(Lsn(n), (n,)))[0] for n in range(1, 50)]
    assert ends == sorted(ends)


def test_a_hole_in_the_log_is_a_defect() -> None:
    disk = SimDisk(Random(1))
    persist(disk, "a")
    hole = Persist(Lsn(3), ("c",))
    disk.submit(NOW, hole)
    with pytest.raises(AssertionError, match="a hole in the log"):
        disk.complete(hole)


def test_a_wiped_disk_is_as_new() -> None:
    disk = SimDisk(Random(1))
    persist(disk, "a")
    disk.wipe()
    assert disk.recover() == DiskContent(Lsn(1), (), None)


@given(seed=st.integers(0, 10**9), batches=st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_a_crash_keeps_a_prefix_of_the_records(seed: int, batches: list[int]) -> None:
    disk = SimDisk(Random(seed))
    persist(disk, "durable")
    written = ["durable"]
    for size in batches:
        records = tuple(f"r{len(written) + n}" for n in range(size))
        disk.submit(NOW, Persist(Lsn(len(written) + 1), records))
        written.extend(records)
    disk.crash()
    survived = list(disk.recover().records)
    assert survived == written[: len(survived)]
    assert survived[0] == "durable"


@given(seed=st.integers(0, 10**9))
def test_a_truncation_is_whole_or_not_at_all(seed: int) -> None:
    disk = SimDisk(Random(seed))
    persist(disk, "a", "b", "c")
    disk.submit(NOW, TruncateLog(Lsn(1)))
    disk.submit(NOW, Persist(Lsn(2), ("x", "y")))
    disk.crash()
    assert disk.recover().records in (("a", "b", "c"), ("a",), ("a", "x"), ("a", "x", "y"))
