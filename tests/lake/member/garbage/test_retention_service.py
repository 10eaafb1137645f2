"""Retention rules on a real lake: old history is given up, and with it the objects which it alone had."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lake.member.garbage.test_garbage_service import collect, is_there, put, read
from tests.lake.member.lakes import running_lake

from penstock.kernel.errors import Gone, ObjectStoreFailed
from penstock.lake.core.refs.rules import BranchRule, RetentionRules
from penstock.lake.member.services.lake_service import LakeService

DAY_S = 86_400.0


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[LakeService]:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        yield lake


async def commit(
    lake: LakeService, path: str, content: bytes, days_ago: float, branch: str = "main"
) -> tuple[str, str]:
    """A commit made so many days ago: its id, and the store's key of its object."""
    key = await put(lake, path, content, branch)
    made = await lake.commit("shop", branch, f"{days_ago:g} days ago", created_at=time.time() - days_ago * DAY_S)
    return made.id, key


async def test_history_older_than_the_rules_keep_is_given_up(lake: LakeService) -> None:
    old, overwritten = await commit(lake, "a", b"1", 90)
    tagged, tagged_key = await commit(lake, "a", b"2", 80)
    await lake.create_tag("shop", "v1", tagged)
    shown, shown_key = await commit(lake, "a", b"3", 60)
    _, kept = await commit(lake, "b", b"4", 1)
    await lake.set_retention("shop", RetentionRules(30))
    assert await collect(lake) == 0  # given up now, swept by the next run
    with pytest.raises(Gone):
        await read(lake, old, "a")
    with pytest.raises(Gone):
        await lake.create_branch("shop", "again", "main~3")
    assert await is_there(lake, overwritten)
    assert (await lake.find_garbage("shop")).objects == 1
    assert await collect(lake) == 1
    assert not await is_there(lake, overwritten)
    assert [await is_there(lake, key) for key in (tagged_key, shown_key, kept)] == [True] * 3
    assert await read(lake, shown, "a") == b"3"  # the branch showed it until yesterday
    assert await read(lake, "v1", "a") == b"2"
    messages = [each.message for each in (await lake.log("shop", "main")).results]
    assert messages[:4] == [f"{days} days ago" for days in (1, 60, 80, 90)]


async def test_what_was_given_up_can_still_be_merged_over(lake: LakeService) -> None:
    """The merge base has lost its objects, not its tree."""
    await commit(lake, "a", b"1", 90)
    await lake.create_branch("shop", "work", "main")
    await commit(lake, "a", b"2", 2)
    await commit(lake, "c", b"3", 2)
    await commit(lake, "w", b"4", 1, "work")
    await commit(lake, "x", b"5", 0.5, "work")
    await lake.set_retention("shop", RetentionRules(1, (BranchRule("work", 1),)))
    await collect(lake, 3)
    await lake.merge("shop", "work", "main")
    assert [each.path for each in (await lake.list("shop", "main")).results] == ["a", "c", "w", "x"]
    assert await read(lake, "main", "a") == b"2"


async def test_without_rules_all_history_is_kept(lake: LakeService) -> None:
    old, _ = await commit(lake, "a", b"1", 90)
    await commit(lake, "a", b"2", 80)
    await lake.set_retention("shop", RetentionRules(30))
    assert await lake.retention("shop") == RetentionRules(30)
    await lake.set_retention("shop", None)
    assert await lake.retention("shop") is None
    assert await collect(lake, 4) == 0
    assert await read(lake, old, "a") == b"1"


async def test_who_cannot_read_the_rules_collects_nothing(lake: LakeService) -> None:
    await lake.store.put("shop/_penstock/retention", b'{"default_retention_days": -1}')
    with pytest.raises(ObjectStoreFailed, match="holds no retention rules"):
        await collect(lake)
