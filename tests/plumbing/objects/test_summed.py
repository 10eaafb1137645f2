"""Objects with sums: wrong bytes are never given, wrong sums are replaced, and nothing is read twice without need."""

import hashlib
import random
from pathlib import Path

import pytest

from penstock.kernel.errors import DataDamaged, InvalidArgument, NotFound
from penstock.plumbing.files.sums import BLOCK_BYTES
from penstock.plumbing.objects import open_store
from penstock.plumbing.objects.keys import check_key
from penstock.plumbing.objects.summed import SMALL_BYTES_MAX, SummedStore

KEY = "shop/orders/content.raw"
CONTENT = random.Random(11).randbytes(SMALL_BYTES_MAX + 3 * BLOCK_BYTES + 500)
SMALL = CONTENT[:1_000]


class Known:
    """Content whose SHA-1 is known."""

    def __init__(self, content: bytes) -> None:
        self.digest = hashlib.sha1(content, usedforsecurity=False).digest()
        self.checks = 0

    def check(self) -> "Known":
        self._sum = hashlib.sha1(usedforsecurity=False)
        self.checks += 1
        return self

    def add(self, data: memoryview) -> None:
        self._sum.update(data)

    def finish(self) -> None:
        if self._sum.digest() != self.digest:
            raise DataDamaged("it has another digest")


@pytest.fixture
def store(tmp_path: Path) -> SummedStore:
    return SummedStore(open_store(f"file://{tmp_path}"))


def sums_file(folder: Path) -> Path:
    return folder / ".penstock/sums" / KEY


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


async def everything(store: SummedStore, start: int, end: int, known: Known | None = None, size: int | None = None):  # type: ignore[no-untyped-def]
    got = b""
    try:
        async for chunk in store.read(KEY, start, end, size=size, known=known):
            got += chunk
    except DataDamaged as error:
        return got, error
    return got, None


async def put(store: SummedStore, known: Known | None = None, content: bytes = CONTENT) -> None:
    await store.put(KEY, content, digest=known.digest if known is not None else b"")


@pytest.mark.parametrize("way", ["put", "writer"])
async def test_any_range_is_read_back(store: SummedStore, tmp_path: Path, way: str) -> None:
    if way == "put":
        await put(store)
    else:
        async with store.writer(KEY) as writer:
            for at in range(0, len(CONTENT), 70_001):
                await writer.write(CONTENT[at : at + 70_001])
    assert sums_file(tmp_path).is_file()
    for start, end in ((0, len(CONTENT)), (0, 1), (BLOCK_BYTES - 1, BLOCK_BYTES + 1), (len(CONTENT) - 1, 1 << 60)):
        assert bytes(await store.get(KEY, start, end)) == CONTENT[start:end]
    assert (await anext(store.store.list())).objects[0].key == KEY  # sums are not listed


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_damaged_block_is_refused_by_name_and_all_before_it_is_given(
    store: SummedStore, tmp_path: Path, *, is_known: bool
) -> None:
    known = Known(CONTENT) if is_known else None
    await put(store, known)
    flip(tmp_path / KEY, 2 * BLOCK_BYTES + 17)
    got, error = await everything(store, 5, len(CONTENT), known)
    assert got == CONTENT[5 : 2 * BLOCK_BYTES]
    assert (error.details["object"], error.details["begin"]) == (KEY, 2 * BLOCK_BYTES)
    assert await everything(store, 0, 100, known) == (CONTENT[:100], None)  # others stay readable
    fresh = SummedStore(store.store)
    assert (await everything(fresh, 2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 1, known))[0] == b""


async def test_an_object_cut_short_is_damaged_and_a_lost_one_is_not_found(store: SummedStore, tmp_path: Path) -> None:
    await put(store)
    (tmp_path / KEY).write_bytes(CONTENT[:-1])
    got, error = await everything(store, 0, len(CONTENT), size=len(CONTENT))
    assert (CONTENT.startswith(got), error.details["end"]) == (True, len(CONTENT))
    (tmp_path / KEY).unlink()
    with pytest.raises(NotFound):
        await everything(store, 0, 10, size=len(CONTENT))


@pytest.mark.parametrize("damage", ["flip", "cut", "deleted", "other"])
async def test_wrong_sums_are_replaced_where_the_content_is_known(
    store: SummedStore, tmp_path: Path, damage: str
) -> None:
    known = Known(CONTENT)
    await put(store, known)
    right, path = sums_file(tmp_path).read_bytes(), sums_file(tmp_path)
    match damage:
        case "flip":
            flip(path, 60)
        case "cut":
            path.write_bytes(right[:-9])
        case "deleted":
            path.unlink()
        case _:  # right for other bytes of the same size
            await SummedStore(store.store)._save(KEY, (await _sums_of(CONTENT[::-1])), known.digest)
    fresh = SummedStore(store.store)
    assert await everything(fresh, 70_000, 70_100, known) == (CONTENT[70_000:70_100], None)
    assert path.read_bytes() == right
    checks = known.checks
    assert await everything(SummedStore(store.store), 0, 100, known) == (CONTENT[:100], None)
    assert known.checks == checks == 1  # read whole once, and never again


async def _sums_of(content: bytes):  # type: ignore[no-untyped-def]
    from penstock.plumbing.files.sums import Summing

    summing = Summing()
    summing.add(content)
    return summing.sums


async def test_damaged_content_without_sums_is_refused_and_gets_none(store: SummedStore, tmp_path: Path) -> None:
    known = Known(CONTENT)
    await store.store.put(KEY, CONTENT)
    flip(tmp_path / KEY, len(CONTENT) - 1)
    got, error = await everything(store, 0, 100, known)
    assert (got, type(error)) == (b"", DataDamaged)
    assert not sums_file(tmp_path).exists()


async def test_sums_of_a_newer_release_stay_and_the_object_is_read_whole(store: SummedStore, tmp_path: Path) -> None:
    known = Known(CONTENT)
    await put(store, known)
    data = bytearray(sums_file(tmp_path).read_bytes())
    data[8] = 9
    sums_file(tmp_path).write_bytes(data)
    assert await everything(SummedStore(store.store), 0, 100, known) == (CONTENT[:100], None)
    assert sums_file(tmp_path).read_bytes() == data
    flip(tmp_path / KEY, 5)
    got, error = await everything(SummedStore(store.store), 0, 100, known)
    assert (got, type(error)) == (b"", DataDamaged)


async def test_unknown_content_gets_sums_from_whoever_reads_it_all(store: SummedStore, tmp_path: Path) -> None:
    await store.store.put(KEY, CONTENT)
    assert await everything(store, 3, 9) == (CONTENT[3:9], None)
    assert not sums_file(tmp_path).exists()
    assert await everything(store, 0, len(CONTENT)) == (CONTENT, None)
    flip(tmp_path / KEY, 5)
    assert (await everything(store, 3, 9))[0] == b""


async def test_small_objects_are_compared_whole(store: SummedStore, tmp_path: Path) -> None:
    known = Known(SMALL)
    await put(store, known, SMALL)
    assert not sums_file(tmp_path).exists()
    assert await everything(store, 10, 20, known) == (SMALL[10:20], None)
    flip(tmp_path / KEY, 900)
    got, error = await everything(store, 10, 20, known)
    assert (got, type(error)) == (b"", DataDamaged)
    (tmp_path / KEY).write_bytes(SMALL[:900])
    assert type((await everything(store, 10, 20, known, len(SMALL)))[1]) is DataDamaged


async def test_sums_go_with_their_object(store: SummedStore, tmp_path: Path) -> None:
    await put(store)
    await store.copy(KEY, "shop/copy")
    assert (tmp_path / ".penstock/sums/shop/copy").is_file()
    flip(tmp_path / "shop/copy", 0)
    with pytest.raises(DataDamaged):
        await store.get("shop/copy", 0, 10)
    await store.delete(KEY, "shop/copy", "shop/never")
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parts[-2] not in ("locks", "staging")] == []


async def test_an_aborted_writer_leaves_nothing(store: SummedStore, tmp_path: Path) -> None:
    async with store.writer(KEY) as writer:
        await writer.write(CONTENT)
        await writer.abort()
    assert not sums_file(tmp_path).exists()


async def test_the_sums_are_there_before_the_object_is(
    store: SummedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: object, **__: object) -> None:
        assert sums_file(tmp_path).is_file()
        raise NotFound("the store is away")

    inner = store.store
    real = inner.put

    async def put_(key: str, data: bytes, **how: object) -> object:
        return await (real(key, data) if key != KEY else fails())

    monkeypatch.setattr(inner, "put", put_)
    with pytest.raises(NotFound):
        await store.put(KEY, CONTENT, if_absent=True)


def test_no_request_can_name_sums() -> None:
    with pytest.raises(InvalidArgument):
        check_key(f".penstock/sums/{KEY}")
