"""Roots name all kept data: every tree that a branch or a tag reaches, and every uncommitted object."""

from pathlib import Path

import pytest
from tests.lake.member.lakes import running_lake

from penstock.kernel.errors import NotFound


async def test_roots_are_the_trees_of_all_commits_and_what_is_staged(tmp_path: Path) -> None:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        await lake.put("shop", "main", "a", b"1")
        await lake.commit("shop", "main", "one")
        await lake.put("shop", "main", "b", b"2")
        await lake.commit("shop", "main", "two")
        staged = await lake.put("shop", "main", "c", b"3")
        roots = await lake.garbage_roots("shop")
        assert (len(roots.metaranges), roots.trees_only) == (2, ())
        there = [key async for page in lake.store.list(roots.folder) for key in [each.key for each in page.objects]]
        assert {roots.folder + key for key in roots.metaranges} <= set(there)
        (address,) = roots.staged
        assert f"{roots.storage}/{address}" == staged.address
        assert roots.folder + address in there
        assert roots.gce == (await lake.sink_place("shop", "main")).link_epoch
        with pytest.raises(NotFound):
            await lake.garbage_roots("none")
