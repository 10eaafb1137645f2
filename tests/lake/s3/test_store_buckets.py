from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.errors import NotFound, PreconditionFailed
from penstock.lake.core.staging.records import Precondition
from penstock.lake.s3.store_buckets import StoreBuckets, _key_of, _name_key
from penstock.plumbing.http.conditions import ByteRange
from penstock.plumbing.objects import ObjectStore, open_store

KEYS = [
    "a",
    "a/b",
    "a/b/c.txt",
    "dir/",
    "dir/x",
    "..",
    "a..",
    "./b",
    "//",
    "sp ace",
    "%",
    "%25",
    "$",
    "é/日本",
    ".penstock/x",
]


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    for one in data:
        yield one


@pytest.fixture(params=["memory", "folder"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"file://{tmp_path}/objects"


@asynccontextmanager
async def bucket_in(url: str) -> AsyncIterator[tuple[StoreBuckets, ObjectStore]]:
    async with open_store(url) as store:
        buckets = StoreBuckets(store)
        await buckets.create_bucket("b")
        yield buckets, store


async def keys_of(store: ObjectStore, prefix: str) -> list[str]:
    return [meta.key async for page in store.list(prefix) for meta in page.objects]


async def test_keys_of_any_shape_live_beside_each_other(url: str) -> None:
    async with bucket_in(url) as (buckets, _):
        for key in KEYS:
            await buckets.put("b", key, chunks(key.encode(), b"!"))
        listing = await buckets.list("b", prefix="", after="", delimiter="", limit=100)
        assert [one.key for one in listing.objects] == sorted(KEYS)
        for key in KEYS:
            async with buckets.open("b", key) as opened:
                assert b"".join([bytes(chunk) async for chunk in opened.chunks]) == key.encode() + b"!"
        below = await buckets.list("b", prefix="a/b", after="", delimiter="/", limit=100)
        assert ([one.key for one in below.objects], below.prefixes) == (["a/b"], ["a/b/"])


async def test_bytes_go_when_nobody_names_them(url: str) -> None:
    async with bucket_in(url) as (buckets, store):
        first = await buckets.put("b", "k", chunks(b"1"))
        await buckets.put("b", "k", chunks(b"2"))
        await buckets.copy("b", "k", "b", "copy")
        assert len(await keys_of(store, "objects/")) == 2
        with pytest.raises(PreconditionFailed):
            await buckets.put("b", "k", chunks(b"3"), when=Precondition(etag=first.etag))
        with pytest.raises(PreconditionFailed):
            await buckets.put("b", "k", chunks(b"3"), when=Precondition(absent=True))
        assert len(await keys_of(store, "objects/")) == 2
        await buckets.delete("b", ["k", "copy", "nobody"])
        assert await keys_of(store, "objects/") == await keys_of(store, "names/") == []


async def test_content_which_fails_leaves_nothing(url: str) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"half"
        raise NotFound("the rest is gone")

    async with bucket_in(url) as (buckets, store):
        with pytest.raises(NotFound, match="the rest"):
            await buckets.put("b", "k", failing())
        assert await keys_of(store, "objects/") == []
        with pytest.raises(NotFound, match="no object 'k'"):
            await buckets.head("b", "k")


async def test_large_objects_come_in_chunks(url: str) -> None:
    data = bytes(range(256)) * 8192
    async with bucket_in(url) as (buckets, _):
        await buckets.put("b", "k", chunks(data[:1000], data[1000:]))
        async with buckets.open("b", "k", ByteRange(5, 1_000_000)) as opened:
            assert b"".join([bytes(chunk) async for chunk in opened.chunks]) == data[5:1_000_000]
            assert (opened.start, opened.end, opened.info.size) == (5, 1_000_000, len(data))


@given(st.text(alphabet="ab/.%$ é\x7f", min_size=1, max_size=20))
def test_every_key_has_a_name_of_its_own(key: str) -> None:
    assert _key_of(_name_key("b", key), "b") == key
