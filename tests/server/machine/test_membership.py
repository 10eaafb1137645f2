"""The level of a cluster: a machine that does not speak it is refused, and it rises when all machines can."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.kernel.errors import FormatTooNew, PreconditionFailed
from penstock.kernel.version import Release
from penstock.keyspace.core.transaction import PutKey
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.membership import Membership
from penstock.server.machine.membership import (
    JOINED,
    LEVEL,
    ClusterMachine,
    join_cluster,
    level_of,
    machines_of,
    raise_level,
)

OLD, NEW = Release("0.4", 1, 2), Release("0.5", 2, 3)


@pytest.fixture
async def keyspace(tmp_path: Path) -> AsyncIterator[EmbeddedKeySpace]:
    async with await EmbeddedKeySpace.open(tmp_path) as keyspace:
        yield keyspace


def machine(name: str, release: Release) -> ClusterMachine:
    return ClusterMachine(name, "a", ("node",), *release, "h:7070", "h:8000", "h:9100", 0)


async def join(keyspace: EmbeddedKeySpace, name: str, release: Release) -> tuple[Membership, int]:
    return await join_cluster(
        keyspace, machine(name, release), time.monotonic_ns, lease_ms=60_000, on_lost=lambda reason: None
    )


async def test_the_first_machine_gives_a_cluster_its_level(keyspace: EmbeddedKeySpace) -> None:
    assert await level_of(keyspace) == 0
    first, level = await join(keyspace, "m1", OLD)
    second, same = await join(keyspace, "m2", NEW)
    assert (level, same, await level_of(keyspace)) == (2, 2, 2)
    assert [each.name for each in await machines_of(keyspace)] == ["m1", "m2"]
    await second.close()
    assert [each.name for each in await machines_of(keyspace)] == ["m1"]
    await first.close()


async def test_the_level_rises_only_when_every_machine_speaks_the_next(keyspace: EmbeddedKeySpace) -> None:
    with pytest.raises(PreconditionFailed, match="no machine has joined"):
        await raise_level(keyspace)
    old, _ = await join(keyspace, "m1", OLD)
    new, _ = await join(keyspace, "m2", NEW)
    with pytest.raises(PreconditionFailed, match=r"m1 runs 0\.4 \(levels 1 to 2\)"):
        await raise_level(keyspace)
    assert await level_of(keyspace) == 2
    await old.close()
    upgraded, _ = await join(keyspace, "m1", NEW)
    assert await raise_level(keyspace) == (2, 3)
    with pytest.raises(FormatTooNew, match=r"the cluster has level 3; this is 0\.4"):
        await join(keyspace, "m3", OLD)
    assert [each.name for each in await machines_of(keyspace)] == ["m1", "m2"], "the refused one is gone"
    for member in (new, upgraded):
        await member.close()


async def test_a_machine_that_joins_during_the_raise_is_not_overlooked(
    keyspace: EmbeddedKeySpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keyspace.transact(then=[PutKey(LEVEL, b"2")])
    new, _ = await join(keyspace, "m2", NEW)
    late: list[Membership] = []

    async def seen(space: EmbeddedKeySpace) -> list[ClusterMachine]:
        found = await machines_of(space)
        if not late:  # it joins after the look at all machines, and before the level is written
            late.append((await join(keyspace, "m1", OLD))[0])
        return found

    monkeypatch.setattr("penstock.server.machine.membership.machines_of", seen)
    with pytest.raises(PreconditionFailed, match="m1 runs"):
        await raise_level(keyspace)
    assert await level_of(keyspace) == 2
    for member in (new, *late):
        await member.close()


async def test_two_raises_at_once_are_one(keyspace: EmbeddedKeySpace, monkeypatch: pytest.MonkeyPatch) -> None:
    await keyspace.transact(then=[PutKey(LEVEL, b"2")])
    new, _ = await join(keyspace, "m2", NEW)
    raised: list[object] = []

    async def seen(space: EmbeddedKeySpace) -> list[ClusterMachine]:
        found = await machines_of(space)
        if not raised:
            raised.append(await keyspace.transact(then=[PutKey(LEVEL, b"3")]))
        return found

    monkeypatch.setattr("penstock.server.machine.membership.machines_of", seen)
    with pytest.raises(PreconditionFailed, match="the level stays 3"):
        await raise_level(keyspace)
    found = await keyspace.get(JOINED)
    assert found is not None
    assert found.value == b"m2"
    await new.close()
