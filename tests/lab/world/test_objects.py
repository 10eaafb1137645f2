"""The simulated object store does what every store does, and fails as its port allows."""

import pytest
from tests.lab.world.inside import all_inside, process
from tests.plumbing.objects.test_behaviours import *  # noqa: F403

from penstock.kernel.errors import ObjectStoreFailed, Written
from penstock.plumbing.objects import ObjectStore
from penstock_lab.world.ports.objects import Bucket, SimulatedObjects
from penstock_lab.world.process import Life

__all__ = ["process"]


@pytest.fixture
def store(process: Life) -> ObjectStore:
    return SimulatedObjects(Bucket(process.world, "bucket"), process)


async def test_a_store_that_is_away_wrote_nothing(store: SimulatedObjects) -> None:
    store.bucket.trouble.is_away = True
    with pytest.raises(ObjectStoreFailed) as caught:
        await store.put("a", b"1")
    assert caught.value.written is Written.NO
    store.bucket.trouble.is_away = False
    assert [page async for page in store.list()] == []


async def test_a_call_that_failed_says_whether_it_may_have_taken_place(store: SimulatedObjects) -> None:
    store.bucket.trouble.fails = 1.0
    stored = set()
    for number in range(20):
        with pytest.raises(ObjectStoreFailed) as caught:
            await store.put(f"a{number}", b"1")
        if caught.value.written is Written.UNKNOWN:
            stored.add(f"a{number}")
    assert set(store.bucket.objects) == stored
    assert 0 < len(stored) < 20


all_inside(globals())
