"""Checkpoints: the newest one counts, few are kept, and members which have diverged find out."""

from pathlib import Path

import pytest

from penstock.kernel.errors import InternalError
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import Sync
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.queue import START
from penstock.plumbing.objects import open_store


def machine_at(position: int, *, stamp: int = 5) -> StagingMachine:
    machine = StagingMachine()
    for each in range(1, position + 1):
        machine.apply(each, stamp, Sync())
    return machine


async def test_the_newest_is_loaded_and_few_are_kept(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        checkpoints = Checkpoints(store, "_penstock/lake/main/")
        cursor, empty = await checkpoints.newest()
        assert (cursor, empty.applied) == (START, 0)
        for position in range(1, 7):
            await checkpoints.save(*checkpoints.take(10 * position, machine_at(position)))
        cursor, newest = await checkpoints.newest()
        assert (cursor, newest.applied, newest.state_hash()) == (60, 6, machine_at(6).state_hash())
        kept = [each.key async for page in store.list("_penstock/lake/main/") for each in page.objects]
        assert len(kept) == 3


async def test_another_state_of_the_same_position_is_a_divergence(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        checkpoints = Checkpoints(store, "c/")
        await checkpoints.save(*checkpoints.take(10, machine_at(3)))
        await checkpoints.save(*checkpoints.take(10, machine_at(3)))  # the same again: another member's
        with pytest.raises(InternalError, match="diverged"):
            await checkpoints.save(*checkpoints.take(10, machine_at(3, stamp=6)))
