"""Checkpoints: the newest one counts, few are kept, and members which have diverged find out."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from penstock.kernel.errors import FormatTooNew
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.core.staging.records import Request, Sync, Version
from penstock.lake.core.staging.tables import RULES
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


async def test_states_of_one_position_dispute_each_other(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        checkpoints = Checkpoints(store, "c/")
        await checkpoints.save(*checkpoints.take(10, machine_at(3)))
        await checkpoints.save(*checkpoints.take(10, machine_at(3)))  # the same again: another member's
        assert (await checkpoints.newest())[1].applied == 3
        await checkpoints.save(*checkpoints.take(20, machine_at(5)))
        await checkpoints.save(*checkpoints.take(20, machine_at(5, stamp=6)))
        assert (await checkpoints.newest())[1].applied == 3, "nobody knows which of the two is right"
        await checkpoints.dispute(5, [f"{machine_at(5, stamp=6).state_hash():032x}"])
        assert (await checkpoints.newest())[1].state_hash() == machine_at(5).state_hash()


async def test_a_disputed_checkpoint_is_never_loaded(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        checkpoints = Checkpoints(store, "c/")
        for position in (3, 4):
            await checkpoints.save(*checkpoints.take(10 * position, machine_at(position)))
        await checkpoints.dispute(4, [f"{machine_at(4).state_hash():032x}"])
        assert (await checkpoints.newest())[0] == 30


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-7], lambda data: b"", lambda data: flipped(data)], ids=["cut", "empty", "flip"]
)
async def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        checkpoints = Checkpoints(store, "c/")
        for position in (3, 4):
            await checkpoints.save(*checkpoints.take(10 * position, machine_at(position)))
        newest = f"c/{machine_at(4).applied:020d}-{machine_at(4).state_hash():032x}"
        await store.put(newest, damage(bytes((await store.get(newest)).data)))
        assert (await checkpoints.newest())[0] == 30
        assert len(checkpoints.unreadable) == 1
        assert newest in [each.key async for page in store.list("c/") for each in page.objects], "it is evidence"


def flipped(data: bytes) -> bytes:
    """A stamp in the middle of the state is another one."""
    at = data.index(b"now") + 3
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


async def test_a_checkpoint_of_newer_rules_is_refused(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        checkpoints = Checkpoints(store, "c/")
        machine = machine_at(3)
        machine.apply(4, 5, Version(Request("v", 0), RULES + 1))
        await checkpoints.save(*checkpoints.take(10, machine))
        with pytest.raises(FormatTooNew, match=f"rules {RULES + 1}"):
            await checkpoints.newest()


async def test_a_checkpoint_of_another_release_is_refused_by_name(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        key = f"c/{1:020d}-00"
        await store.put(key, msgspec.msgpack.encode(("lake-checkpoint-2", 10, b"", "more")))
        with pytest.raises(FormatTooNew, match=f"object {key} .* has version 2"):
            await Checkpoints(store, "c/").newest()
        await store.put(key, msgspec.msgpack.encode(("something-else", 10, b"")))
        assert (await Checkpoints(store, "c/").newest())[0] == START
