"""Scratch is swept by age: an upload as a whole by its newest part, everything else after a day."""

import os
from pathlib import Path

from tests.lake.member.lakes import running_lake

from penstock.lake.member.services.scratch import DAY_S, sweep_now
from penstock.lake.s3.uploads import Uploads
from penstock.plumbing.objects import ObjectStore, open_store

NOW = 2_000_000_000.0


async def keys(store: ObjectStore) -> list[str]:
    return [each.key async for page in store.list() for each in page.objects]


async def test_only_what_is_old_goes(tmp_path: Path) -> None:
    ages = {
        "scratch/s3/new/upload": 8.0,
        "scratch/s3/new/parts/00001": 6.9,
        "scratch/s3/old/upload": 7.1,
        "scratch/s3/old/data/x": 7.1,
        "scratch/sinks/young": 0.9,
        "scratch/sinks/old": 1.1,
        "shop/data/00000001/x": 100.0,
    }
    async with open_store(f"file://{tmp_path}/objects") as store:
        for key, days in ages.items():
            await store.put(key, b"")
            os.utime(tmp_path / "objects" / key, (NOW - days * DAY_S,) * 2)
        assert await sweep_now(store, NOW) == 3
        assert await keys(store) == [
            "scratch/s3/new/parts/00001",
            "scratch/s3/new/upload",
            "scratch/sinks/young",
            "shop/data/00000001/x",
        ]
        assert await sweep_now(store, NOW) == 0


async def test_a_lake_sweeps_by_itself(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/objects") as store:
        upload = await Uploads(store).begin("shop", "main/a", "", {})
        left = f"scratch/s3/{upload.id}/upload"
        os.utime(tmp_path / "objects" / left, (0, 0))
        async with running_lake(tmp_path):
            while left in await keys(store):
                pass
