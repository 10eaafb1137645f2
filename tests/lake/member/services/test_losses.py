"""Bytes that entries refer to: seen before they are linked, copied out of other repositories, and missed by name."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.lake.member.lakes import member_of, running_lake
from tests.lake.member.services.test_imports_service import ended
from tests.quorum.node.cluster import running_cluster

from penstock.kernel.errors import DataDamaged, DataMissing, InvalidArgument, NotFound, PreconditionFailed
from penstock.lake.core.staging.records import Precondition
from penstock.lake.member.services.lake_service import LakeService
from penstock.lake.records.service import ImportPath, Object

LARGE = b"0123456789abcdef" * 70_000


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[LakeService]:
    async with running_lake(tmp_path) as lake:
        for name in ("shop", "other"):
            await lake.create_repository(name)
        yield lake


async def read(lake: LakeService, path: str, ref: str = "main") -> bytes:
    async with lake.open("shop", ref, path) as reading:
        return b"".join([bytes(chunk) async for chunk in reading.chunks])


async def give_up(lake: LakeService, repository: str, path: str) -> None:
    """Delete an object of a repository, and collect until its bytes are gone."""
    found = await lake.head(repository, "main", path)
    await lake.reset(repository, "main")
    for _ in range(4):
        await lake.collect_garbage(repository, grace_s=0)
    with pytest.raises(NotFound):
        await lake.store.head(found.key)


async def key_of(lake: LakeService, path: str) -> str:
    return (await lake.head("shop", "main", path)).key


async def test_a_link_to_another_repository_outlives_its_collector(lake: LakeService) -> None:
    theirs = await lake.put("other", "main", "a", b"bytes")
    await lake.link("shop", "main", "mine", theirs.address, size=5, etag="e")
    await lake.commit("shop", "main", "linked")
    await give_up(lake, "other", "a")
    assert await read(lake, "mine") == b"bytes"


@pytest.mark.parametrize("is_prefix", [True, False])
async def test_an_import_of_another_repository_outlives_its_collector(lake: LakeService, is_prefix: bool) -> None:
    theirs = await lake.put("other", "main", "a", b"bytes")
    await lake.store.put("outside/b", b"outside")
    source = theirs.address.rpartition("/")[0] + "/" if is_prefix else theirs.address
    paths = [ImportPath(source, "in/" if is_prefix else "in/x", is_prefix=is_prefix)]
    paths.append(ImportPath("local://outside/", "in2/", is_prefix=True))
    status = await ended(lake, await lake.start_import("shop", "main", paths, "take"))
    assert status.commit is not None, status.error
    await give_up(lake, "other", "a")
    shown = (await lake.list("shop", "main")).results
    assert [await read(lake, each.path) for each in shown] == [b"bytes", b"outside"]
    assert [each.address.startswith("local://shop/data/") for each in shown] == [True, False]


async def test_only_what_was_seen_is_linked(lake: LakeService) -> None:
    place = await lake.upload_address("shop", "main", "a")
    with pytest.raises(DataMissing, match=place.address):
        await lake.link("shop", "main", "a", place.address, size=5, etag="e")
    await lake.store.put(place.key, b"bytes")
    with pytest.raises(InvalidArgument, match="has 5 bytes, not 6"):
        await lake.link("shop", "main", "a", place.address, size=6, etag="e")
    with pytest.raises(DataMissing):
        await lake.link("shop", "main", "a", "local://outside/nothing", size=5, etag="e")
    with pytest.raises(NotFound):
        await lake.head("shop", "main", "a")


@pytest.mark.parametrize("content", [b"small", LARGE], ids=["small", "large"])
async def test_lost_bytes_are_not_an_absent_object(lake: LakeService, content: bytes) -> None:
    await lake.put("shop", "main", "a", content)
    await lake.commit("shop", "main", "put")
    await lake.store.delete(await key_of(lake, "a"))
    with pytest.raises(DataMissing, match="'a' on main"):
        await lake.read("shop", "main", "a")
    with pytest.raises(PreconditionFailed):
        await lake.put("shop", "main", "a", b"new", when=Precondition(absent=True))


@pytest.mark.parametrize("what", ["ranges", "commits"])
async def test_lost_trees_and_commits_are_named(tmp_path: Path, what: str) -> None:
    async with running_cluster(tmp_path / "quorum", 1) as cluster:
        async with member_of(cluster, tmp_path, "m1") as lake:
            await lake.create_repository("shop")
            await lake.put("shop", "main", "a", b"1")
            await lake.commit("shop", "main", "put")
            keys = [each.key async for page in lake.store.list("shop/_penstock/") for each in page.objects]
            await lake.store.delete(*[each for each in keys if ("/commits/" in each) == (what == "commits")])
        async with member_of(cluster, tmp_path, "m2") as lake:
            with pytest.raises(DataMissing):
                await lake.head("shop", "main", "a")


async def test_a_flipped_bit_of_a_small_object_is_no_answer(lake: LakeService) -> None:
    made: Object = await lake.put("shop", "main", "a", b"bytes")
    await lake.store.put(made.key, b"bytfs")
    with pytest.raises(DataDamaged, match="'a'"):
        await read(lake, "a")


@pytest.mark.parametrize("size", [5, 200_000, 700_000, 9 << 20], ids=["tiny", "small", "put", "streamed"])
async def test_no_wrong_byte_of_an_object_is_an_answer(lake: LakeService, size: int) -> None:
    """Only objects up to 64 KiB, read whole, were compared: all others were served as the store had them (L-4)."""
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]
    made = await lake.put("shop", "main", "a", content)
    start, end = size // 2, size // 2 + 100
    async with lake.open("shop", "main", "a", start, end) as reading:
        assert b"".join([bytes(each) async for each in reading.chunks]) == content[start:end]
    damaged = bytearray(content)
    damaged[size // 2] ^= 1
    await lake.store.put(made.key, bytes(damaged))
    for first, behind in ((start, end), (0, size)):
        got, why = b"", ""
        try:
            async with lake.open("shop", "main", "a", first, behind) as reading:
                async for each in reading.chunks:
                    got += each
        except DataDamaged as error:
            why = str(error)
        assert made.key in why
        assert got == content[first : first + len(got)]
    if size > 1 << 20:  # other blocks stay readable
        async with lake.open("shop", "main", "a", 0, 1_000) as reading:
            assert b"".join([bytes(each) async for each in reading.chunks]) == content[:1_000]
