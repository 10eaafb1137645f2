"""Fragments go into a store and come back unchanged, under Gazette's names; damaged ones are not passed on."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from penstock.journals.broker.spools.spool_file import SpoolFile
from penstock.journals.records.fragment import CompressionCodec, Fragment
from penstock.journals.storage.fragment_store import FragmentStores, object_store_url
from penstock.kernel.errors import DataDamaged, NotFound, StorageError
from penstock.kernel.ids import Offset
from penstock.plumbing.ports.ports import system_ports

JOURNAL = "shop/orders"
CONTENT = b'{"order": 17, "amount": 99.5}\n' * 10_000 + random.Random(3).randbytes(200_000)
LONG = CONTENT * 20  # 10 MB: streamed
CODECS = [codec for codec in CompressionCodec if codec is not CompressionCodec.GZIP_OFFLOAD_DECOMPRESSION]


@pytest.fixture
async def stores() -> AsyncIterator[FragmentStores]:
    async with FragmentStores() as stores:
        yield stores


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store/"


def spooled(content: bytes, begin: int = 100, codec: CompressionCodec = CompressionCodec.NONE) -> Fragment:
    sum_ = hashlib.sha1(content, usedforsecurity=False).digest()
    return Fragment(JOURNAL, Offset(begin), Offset(begin + len(content)), sum_, codec, path_postfix="date=2026-11-15")


def file_of(folder: Path, fragment: Fragment, content: bytes) -> SpoolFile:
    file = SpoolFile(system_ports().disk, folder / f"content-{fragment.begin}", fragment.begin)
    file.write(content)
    return file


async def content_of(stores: FragmentStores, fragment: Fragment, begin: int = 0, end: int | None = None) -> bytes:
    upto = fragment.length if end is None else end
    chunks = stores.read(fragment, Offset(fragment.begin + begin), Offset(fragment.begin + upto))
    return b"".join([bytes(chunk) async for chunk in chunks])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("content", [CONTENT, LONG], ids=["put", "streamed"])
async def test_what_is_uploaded_is_listed_and_read(
    stores: FragmentStores, url: str, tmp_path: Path, codec: CompressionCodec, content: bytes
) -> None:
    fragment = spooled(content, codec=codec)
    stored = await stores.upload(fragment, file_of(tmp_path, fragment, content), url)
    assert stored == msgspec.structs.replace(fragment, backing_store=url, mod_time=stored.mod_time)
    assert stored.mod_time > 1_700_000_000
    assert (tmp_path / "store" / JOURNAL / "date=2026-11-15" / fragment.content_name).is_file()
    assert await stores.list(JOURNAL, [url]) == [stored]
    assert await content_of(stores, stored) == content
    for begin, end in ((0, 10), (5, 5), (1_000_000 % len(content), 1_000_100 % len(content)), (7, len(content))):
        assert await content_of(stores, stored, begin, max(begin, end)) == content[begin : max(begin, end)]


async def test_a_store_which_is_no_folder_does_the_same(stores: FragmentStores, tmp_path: Path) -> None:
    fragment = spooled(LONG, codec=CompressionCodec.ZSTANDARD)
    stored = await stores.upload(fragment, file_of(tmp_path, fragment, LONG), "memory:///")
    assert await stores.list(JOURNAL, ["memory:///"]) == [stored]
    assert await content_of(stores, stored) == LONG
    await stores.delete([stored])
    assert await stores.list(JOURNAL, ["memory:///"]) == []


async def test_the_second_upload_finds_the_object_and_leaves_it(
    stores: FragmentStores, url: str, tmp_path: Path
) -> None:
    fragment = spooled(CONTENT)
    file = file_of(tmp_path, fragment, CONTENT)
    first = await stores.upload(fragment, file, url)
    path = tmp_path / "store" / fragment.content_path
    before = path.stat()
    assert await stores.upload(fragment, file, url) == first
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


async def test_uploads_at_the_same_time_leave_one_object(stores: FragmentStores, url: str, tmp_path: Path) -> None:
    fragment = spooled(CONTENT, codec=CompressionCodec.SNAPPY)
    file = file_of(tmp_path, fragment, CONTENT)
    await asyncio.gather(*(stores.upload(fragment, file, url) for _ in range(8)))
    (stored,) = await stores.list(JOURNAL, [url])
    assert await content_of(stores, stored) == CONTENT


@pytest.mark.parametrize("content", [CONTENT, LONG], ids=["put", "streamed"])
async def test_a_damaged_spool_is_never_stored(
    stores: FragmentStores, url: str, tmp_path: Path, content: bytes
) -> None:
    fragment = spooled(content)
    with pytest.raises(StorageError, match="damaged"):
        await stores.upload(fragment, file_of(tmp_path, fragment, content[:-1] + b"?"), url)
    assert await stores.list(JOURNAL, [url]) == []


@pytest.mark.parametrize("codec", CODECS)
async def test_a_damaged_object_is_not_passed_on_unnoticed(
    stores: FragmentStores, url: str, tmp_path: Path, codec: CompressionCodec
) -> None:
    fragment = spooled(CONTENT, codec=codec)
    stored = await stores.upload(fragment, file_of(tmp_path, fragment, CONTENT), url)
    path = tmp_path / "store" / fragment.content_path
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(damaged) // 2] ^= 0x10
    for data in (bytes(damaged), whole[:-5], whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(StorageError):
            await content_of(stores, stored)


@pytest.mark.parametrize("codec", CODECS)
async def test_more_content_than_the_name_says_is_refused(
    stores: FragmentStores, url: str, tmp_path: Path, codec: CompressionCodec
) -> None:
    longer = spooled(CONTENT, codec=codec)
    stored = await stores.upload(longer, file_of(tmp_path, longer, CONTENT), url)
    shorter = msgspec.structs.replace(stored, end=Offset(stored.end - 1))
    (tmp_path / "store" / stored.content_path).rename(tmp_path / "store" / shorter.content_path)
    with pytest.raises(StorageError):
        await content_of(stores, shorter)


async def test_an_object_of_the_wrong_size_is_noticed_at_upload(
    stores: FragmentStores, url: str, tmp_path: Path
) -> None:
    fragment = spooled(CONTENT)
    path = tmp_path / "store" / fragment.content_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"short")
    with pytest.raises(StorageError, match="bytes"):
        await stores.upload(fragment, file_of(tmp_path, fragment, CONTENT), url)


async def test_all_stores_are_listed_and_strangers_and_nested_journals_left_out(
    stores: FragmentStores, tmp_path: Path
) -> None:
    urls = [f"file://{tmp_path}/{name}/" for name in ("one", "two")]
    uploaded = []
    for number, url in enumerate(urls):
        fragment = spooled(CONTENT, begin=1_000_000 * number)
        uploaded.append(await stores.upload(fragment, file_of(tmp_path, fragment, CONTENT), url))
    nested = msgspec.structs.replace(spooled(CONTENT), journal=f"{JOURNAL}/nested", path_postfix="")
    await stores.upload(nested, file_of(tmp_path, nested, CONTENT), urls[0])
    (tmp_path / "one" / JOURNAL / "README").write_text("not a fragment")
    assert await stores.list(JOURNAL, urls, nested=[f"{JOURNAL}/nested"]) == uploaded
    assert len(await stores.list(JOURNAL, urls)) == 3
    assert await stores.list("nobody/wrote/here", urls) == []


async def test_deleted_is_gone_and_may_be_deleted_again(stores: FragmentStores, url: str, tmp_path: Path) -> None:
    fragment = spooled(CONTENT)
    stored = await stores.upload(fragment, file_of(tmp_path, fragment, CONTENT), url)
    await stores.delete([stored])
    await stores.delete([stored])
    assert await stores.list(JOURNAL, [url]) == []
    with pytest.raises(NotFound):
        await content_of(stores, stored)


async def test_a_folder_signs_nothing(stores: FragmentStores, url: str, tmp_path: Path) -> None:
    stored = msgspec.structs.replace(spooled(CONTENT), backing_store=url)
    assert await stores.sign(stored, 60) == ""


@pytest.mark.parametrize(
    ("url", "ours"),
    [
        ("file:///var/data/", "file:///var/data"),
        ("memory:///", "memory://"),
        ("s3://bucket/", "s3://bucket"),
        ("gs://bucket/some/prefix/", "gs://bucket/some/prefix"),
        ("azure://account/container/", "az://container?account=account"),
        ("azure-ad://tenant/account/container/a/b/", "az://container/a/b?account=account"),
    ],
)
def test_stores_as_specs_name_them(url: str, ours: str) -> None:
    assert object_store_url(url) == ours


async def test_one_url_is_one_store(stores: FragmentStores) -> None:
    assert stores.store("memory:///") is stores.store("memory:///")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("content", [CONTENT[:9_000], LONG], ids=["small", "large"])
async def test_a_part_of_a_damaged_object_is_refused_by_name(
    stores: FragmentStores, url: str, tmp_path: Path, codec: CompressionCodec, content: bytes
) -> None:
    """A part was read without a look at its sum, so wrong bytes came with success (J-11)."""
    fragment = spooled(content, codec=codec)
    stored = await stores.upload(fragment, file_of(tmp_path, fragment, content), url)
    path = tmp_path / "store" / fragment.content_path
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 0x10
    path.write_bytes(damaged)
    middle = len(content) // 3  # of a compressed object any content may have been there
    begin, end = (middle - 5, middle + 5) if codec is CompressionCodec.NONE else (1, len(content) - 1)
    with pytest.raises(DataDamaged, match=fragment.content_name):
        await content_of(stores, stored, begin, end)
    if len(content) > 1 << 20 and codec is CompressionCodec.NONE:
        assert await content_of(stores, stored, 0, 1_000) == content[:1_000]  # other blocks stay readable


@pytest.mark.parametrize("codec", CODECS)
async def test_an_object_of_another_program_gets_sums_at_its_first_read(
    stores: FragmentStores, url: str, tmp_path: Path, codec: CompressionCodec
) -> None:
    fragment = spooled(LONG, codec=codec)
    stored = await stores.upload(fragment, file_of(tmp_path, fragment, LONG), url)
    sums = tmp_path / "store/.penstock/sums" / fragment.content_path
    written = sums.read_bytes()
    sums.unlink()
    async with FragmentStores() as others:
        assert await content_of(others, stored, 77, 99) == LONG[77:99]
    assert sums.read_bytes() == written
    await stores.delete([stored])
    assert not sums.exists()
