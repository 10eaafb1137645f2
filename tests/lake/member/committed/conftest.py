"""Trees in a store of each kind that needs no server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.lake.core.committed.boundary import Chunking
from penstock.lake.core.committed.leaves.cut import LeafCut
from penstock.lake.member.committed import TreeOptions, Trees
from penstock.plumbing.objects import ObjectStore, open_store

OPTIONS = TreeOptions(
    chunking=Chunking(rows_mean=20, rows_max=200),
    leaf_cut=LeafCut(rows_mean=8, rows_min=8, rows_max=40, node_rows_mean=100),
    job_rows=200,
    threads_max=2,
)


@pytest.fixture(params=["folder", "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    async with open_store(f"file://{tmp_path}/objects" if request.param == "folder" else "memory://") as opened:
        yield opened


@pytest.fixture
async def trees(store: ObjectStore) -> AsyncIterator[Trees]:
    async with Trees(store, "shop/", OPTIONS) as opened:
        yield opened
