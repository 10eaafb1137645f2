"""What every store does, whatever stands behind it. A new store passes this file, or it is none."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from penstock.kernel.errors import AlreadyClosed, InvalidArgument, LimitExceeded, NotFound, PreconditionFailed, Written
from penstock.plumbing.objects import ETag, ObjectPage, ObjectStore
from penstock.plumbing.objects.port import GET_BYTES_MAX, MANY_MAX, PUT_BYTES_MAX

# Each is a way in which stores are known to differ.
ODD_KEYS = [
    "a b", "a%20b", "a+b&c=d", "a#1", "a?b", "a~b", "a'(b)!$,;:@", "[a]{b}^`|<>\"", "*", "ü/ñ/水", "🌊",
    "date=2026-11-15/x", "-a", "..a", ".a", "_a", "%", "a%2Fb", "UPPER", "upper", "a" * 255, "/".join(["deep"] * 60),
]  # fmt: skip


async def content(store: ObjectStore, key: str) -> bytes:
    return bytes((await store.get(key)).data)


async def listed(store: ObjectStore, prefix: str = "", after: str = "") -> list[str]:
    return [meta.key async for page in store.list(prefix, after=after) for meta in page.objects]


async def folder(store: ObjectStore, prefix: str = "", after: str = "") -> tuple[list[str], list[str]]:
    pages = [page async for page in store.list(prefix, after=after, delimiter="/")]
    return [meta.key for page in pages for meta in page.objects], [name for page in pages for name in page.folders]


async def test_an_object_comes_back_as_it_was_put(store: ObjectStore) -> None:
    etag = await store.put("a/b", b"hello")
    found = await store.get("a/b")
    assert (bytes(found.data), found.meta.key, found.meta.size, found.meta.etag) == (b"hello", "a/b", 5, etag)
    assert abs(found.meta.modified - datetime.now(UTC)) < timedelta(minutes=5)
    assert await store.head("a/b") == found.meta
    assert [meta async for page in store.list() for meta in page.objects] == [found.meta]


async def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    await store.put("empty", b"")
    assert await content(store, "empty") == b""
    assert (await store.head("empty")).size == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_any_buffer_can_be_put(store: ObjectStore, kind: type) -> None:
    await store.put("a", kind(b"hello"))
    assert await content(store, "a") == b"hello"


async def test_a_put_replaces_the_whole_object(store: ObjectStore) -> None:
    first = await store.put("a", b"long content")
    second = await store.put("a", b"short")
    assert first != second
    assert await content(store, "a") == b"short"


async def test_many_objects_come_back_as_they_were_put(store: ObjectStore) -> None:
    objects = {f"a/{number % 3}/{number}": bytes([number]) * number for number in range(MANY_MAX)}
    await store.put("a/0/0", b"old")

    await store.put_many(objects)
    found = await store.get_many(list(objects))

    assert {one.meta.key: bytes(one.data) for one in found} == objects
    assert [one.meta for one in found] == [await store.head(key) for key in objects]
    await store.put_many({})
    assert await store.get_many([]) == ()
    with pytest.raises(NotFound):
        await store.get_many(["a/0/0", "missing"])
    with pytest.raises(LimitExceeded):
        await store.get_many(["a"] * (MANY_MAX + 1))
    with pytest.raises(LimitExceeded):
        await store.put_many({f"b{number}": b"" for number in range(MANY_MAX + 1)})


async def test_a_missing_object_is_not_found(store: ObjectStore) -> None:
    await store.put("a/b", b"")
    for key in ["c", "a/c", "a", "a/b/c"]:
        with pytest.raises(NotFound) as caught:
            await store.get(key)
        assert caught.value.details == {"key": key}
        with pytest.raises(NotFound):
            await store.head(key)
        with pytest.raises(NotFound):
            await store.get_ranges(key, [(0, 1)])
        with pytest.raises(NotFound):
            async with store.reader(key):
                pass


async def test_put_if_absent_keeps_what_is_there(store: ObjectStore) -> None:
    await store.put("a/b", b"first", if_absent=True)
    with pytest.raises(PreconditionFailed) as caught:
        await store.put("a/b", b"second", if_absent=True)
    assert caught.value.written is Written.NO
    assert await content(store, "a/b") == b"first"


async def test_put_if_absent_succeeds_again_after_a_delete(store: ObjectStore) -> None:
    await store.put("a/b", b"first", if_absent=True)
    await store.delete("a/b")
    await store.put("a/b", b"second", if_absent=True)
    assert await content(store, "a/b") == b"second"


async def test_of_many_put_if_absent_exactly_one_wins(store: ObjectStore) -> None:
    puts = [store.put("race", str(number).encode(), if_absent=True) for number in range(12)]
    results = await asyncio.gather(*puts, return_exceptions=True)
    winners = [number for number, result in enumerate(results) if isinstance(result, str)]
    assert len(winners) == 1
    assert all(isinstance(result, str | PreconditionFailed) for result in results)
    assert await content(store, "race") == str(winners[0]).encode()


async def test_put_if_match_replaces_only_what_was_read(store: ObjectStore) -> None:
    first = await store.put("a", b"1")
    second = await store.put("a", b"2", if_match=first)
    with pytest.raises(PreconditionFailed):
        await store.put("a", b"3", if_match=first)
    assert await content(store, "a") == b"2"
    assert (await store.head("a")).etag == second


async def test_put_if_match_of_a_missing_object_fails(store: ObjectStore) -> None:
    etag = await store.put("a/b", b"1")
    await store.delete("a/b")
    with pytest.raises(PreconditionFailed):
        await store.put("a/b", b"2", if_match=etag)
    with pytest.raises(NotFound):
        await store.head("a/b")


async def test_concurrent_increments_by_if_match_all_count(store: ObjectStore) -> None:
    await store.put("count", b"0")

    async def increment() -> None:
        while True:
            found = await store.get("count")
            try:
                await store.put("count", str(int(bytes(found.data)) + 1).encode(), if_match=found.meta.etag)
            except PreconditionFailed:
                continue
            return

    await asyncio.gather(*(increment() for _ in range(5)))
    assert await content(store, "count") == b"5"


async def test_two_conditions_at_once_are_refused(store: ObjectStore) -> None:
    with pytest.raises(InvalidArgument):
        await store.put("a", b"", if_absent=True, if_match=ETag("x"))
    with pytest.raises(InvalidArgument):
        await store.put("a", b"", if_match=ETag(""))


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 10, b"0123456789"), (0, 3, b"012"), (7, None, b"789"), (7, 99, b"789"), (4, 4, b""), (10, None, b""),
     (10, 12, b""), (0, 0, b"")],
)  # fmt: skip
async def test_a_range_is_cut_at_the_end(store: ObjectStore, start: int, end: int | None, expected: bytes) -> None:
    await store.put("a", b"0123456789")
    found = await store.get("a", start, end)
    assert (bytes(found.data), found.meta.size) == (expected, 10)
    async with store.reader("a", start, end) as reader:
        assert b"".join([bytes(chunk) async for chunk in reader]) == expected
        assert reader.meta == found.meta


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (11, None), (11, 12), (11, 11)])
async def test_a_range_which_cannot_be_is_refused(store: ObjectStore, start: int, end: int | None) -> None:
    await store.put("a", b"0123456789")
    with pytest.raises(InvalidArgument):
        await store.get("a", start, end)
    with pytest.raises(InvalidArgument):
        async with store.reader("a", start, end):
            pass


async def test_several_ranges_come_in_the_order_asked(store: ObjectStore) -> None:
    await store.put("a", b"0123456789")
    ranges = [(8, 10), (0, 2), (3, 3), (1, 4), (9, 99), (10, 20)]
    assert [bytes(part) for part in await store.get_ranges("a", ranges)] == [b"89", b"01", b"", b"123", b"9", b""]
    assert await store.get_ranges("a", []) == ()
    for refused in [[(0, 1), (11, 12)], [(-1, 2)], [(3, 1)]]:
        with pytest.raises(InvalidArgument):
            await store.get_ranges("a", refused)


async def test_delete_is_for_many_keys_and_idempotent(store: ObjectStore) -> None:
    keys = [f"{number % 3}/{number}" for number in range(20)]
    await asyncio.gather(*(store.put(key, b"x") for key in keys))
    await store.delete(*keys[:15], "never/there", "0")
    assert await listed(store) == sorted(keys[15:])
    await store.delete(*keys)
    await store.delete(*keys)
    await store.delete()
    assert await listed(store) == []


async def test_copy_leaves_two_independent_objects(store: ObjectStore) -> None:
    await store.put("a", b"first")
    await store.put("b/c", b"old")
    await store.copy("a", "b/c")
    await store.put("a", b"second")
    assert await content(store, "b/c") == b"first"
    with pytest.raises(NotFound):
        await store.copy("nothing", "d")
    assert await listed(store) == ["a", "b/c"]


async def test_odd_keys_come_back_as_they_were_put(store: ObjectStore) -> None:
    for key in ODD_KEYS:
        await store.put(key, key.encode(), if_absent=True)
    for key in ODD_KEYS:
        assert await content(store, key) == key.encode()
    assert await listed(store) == sorted(ODD_KEYS)
    await store.delete(*ODD_KEYS)
    assert await listed(store) == []


NO_KEYS = [
    "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/./b", "a.", "a./b", "a\nb", "a\0", "a\x7f", "a\x85",
    "a\\b", "\ud800", "\ufffe", "e\u0301", "a" * 256, "a/" * 450 + "a", ".penstock/locks/00", ".penstock",
]  # fmt: skip


async def test_a_name_which_is_no_key_is_refused_everywhere(store: ObjectStore) -> None:
    for key in NO_KEYS:
        calls = [
            store.put(key, b""), store.get(key), store.head(key), store.delete("a", key), store.copy(key, "a"),
            store.copy("a", key), store.get_ranges(key, [(0, 1)]), store.sign("GET", key, 60),
            store.put_many({"a": b"", key: b""}), store.get_many(["a", key]),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(InvalidArgument):
                await call
        for stream in (store.reader(key), store.writer(key)):
            with pytest.raises(InvalidArgument):
                async with stream:
                    pass
    assert await listed(store) == []


async def test_a_listing_is_sorted_and_paged(store: ObjectStore) -> None:
    keys = ["b.txt", "b/c", "b/c.d/e", "b0", "a", "b/a/z", "Z", "é", "b/b", *(f"n/{number:03}" for number in range(20))]
    await asyncio.gather(*(store.put(key, key.encode()) for key in keys))
    pages = [page async for page in store.list()]
    assert [meta.key for page in pages for meta in page.objects] == sorted(keys)
    assert max(len(page.objects) for page in pages) <= 7
    assert min(len(page.objects) for page in pages) > 0
    for after in ["b", "b/", "b/c", "n/007", "zzz", "A"]:
        assert await listed(store, after=after) == sorted(key for key in keys if key > after)
    assert await listed(store, "b/") == ["b/a/z", "b/b", "b/c", "b/c.d/e"]
    assert await listed(store, "b/", after="b/b") == ["b/c", "b/c.d/e"]
    assert await listed(store, "nothing/") == await listed(store, "a/") == []


async def test_a_folder_shows_what_lies_directly_in_it(store: ObjectStore) -> None:
    keys = ["a", "b/c", "b/d/e", "b/d/f", "b.txt", "g/h/i", *(f"m/{number:02}/x" for number in range(10))]
    await asyncio.gather(*(store.put(key, b"") for key in keys))
    assert await folder(store) == (["a", "b.txt"], ["b/", "g/", "m/"])
    assert await folder(store, "b/") == (["b/c"], ["b/d/"])
    assert await folder(store, after="b/") == ([], ["g/", "m/"])
    assert await folder(store, "m/", after="m/03/") == ([], [f"m/{number:02}/" for number in range(4, 10)])
    assert await folder(store, "nothing/") == ([], [])
    first = await anext(aiter(store.list("m/", delimiter="/")))
    assert first == ObjectPage((), tuple(f"m/{number:02}/" for number in range(7)))


async def test_a_prefix_is_a_folder(store: ObjectStore) -> None:
    for prefix in ["a", "/", "a//", "../", "a/../", ".penstock/"]:
        with pytest.raises(InvalidArgument):
            await listed(store, prefix)
    with pytest.raises(InvalidArgument):
        await listed(store, after="a//b")


@pytest.mark.parametrize("sizes", [[], [0], [5], [3, 0, 4], [1 << 20] * 3, [6 << 20, 6 << 20, 17]])
async def test_a_writer_joins_its_chunks_into_one_object(store: ObjectStore, sizes: list[int]) -> None:
    chunks = [bytes([number]) * size for number, size in enumerate(sizes)]
    async with store.writer("a/b") as writer:
        for chunk in chunks:
            await writer.write(chunk)
        assert writer.size == sum(sizes)
        with pytest.raises(NotFound):
            await store.head("a/b")
    async with store.reader("a/b") as reader:
        assert b"".join([bytes(chunk) async for chunk in reader]) == b"".join(chunks)
    assert reader.meta.size == sum(sizes)


async def test_a_writer_may_reuse_its_buffer(store: ObjectStore) -> None:
    buffer = bytearray(3)
    async with store.writer("a") as writer:
        for number in range(4):
            buffer[:] = bytes([number]) * 3
            await writer.write(buffer)
    assert await content(store, "a") == bytes(sorted([0, 1, 2, 3] * 3))


@pytest.mark.parametrize("size", [10, 6 << 20])
async def test_a_writer_which_fails_changes_nothing(store: ObjectStore, size: int) -> None:
    await store.put("a", b"old")

    async def write_and_fail() -> None:
        async with store.writer("a") as writer:
            await writer.write(b"x" * size)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write_and_fail()
    async with store.writer("b") as writer:
        await writer.write(b"x" * size)
        await writer.abort()
        with pytest.raises(AlreadyClosed):
            await writer.write(b"more")
    assert await content(store, "a") == b"old"
    assert await listed(store) == ["a"]


async def test_a_cancelled_writer_changes_nothing(store: ObjectStore) -> None:
    written = asyncio.Event()

    async def write() -> None:
        async with store.writer("a") as writer:
            await writer.write(b"x" * (6 << 20))
            written.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write())
    await written.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await listed(store) == []


async def test_a_reader_keeps_its_version_while_the_key_is_replaced(store: ObjectStore) -> None:
    await store.put("a", b"1" * 200_000)
    async with store.reader("a") as reader:
        chunks = aiter(reader)
        first = await anext(chunks)
        await store.put("a", b"2" * 200_000)
        rest = [chunk async for chunk in chunks]
    assert b"".join([bytes(first), *map(bytes, rest)]) == b"1" * 200_000
    assert (await content(store, "a"))[:1] == b"2"


async def test_what_is_too_large_for_memory_is_refused(store: ObjectStore) -> None:
    too_large = memoryview(bytearray(PUT_BYTES_MAX + 1))
    with pytest.raises(LimitExceeded):
        await store.put("a", too_large)
    with pytest.raises(LimitExceeded):
        await store.put_many({"a": too_large})
    await store.put("a", b"small")
    with pytest.raises(LimitExceeded):
        await store.get_ranges("a", [(0, GET_BYTES_MAX), (0, 1)])


async def test_a_signed_url_lives_for_a_bounded_time(store: ObjectStore) -> None:
    for expires_s in [0, -1, 8 * 24 * 3600]:
        with pytest.raises(InvalidArgument):
            await store.sign("GET", "a", expires_s)


async def test_a_closed_store_says_so(store: ObjectStore) -> None:
    await store.put("a", b"")
    await store.close()
    await store.close()
    for call in [store.put("a", b""), store.put("a", b"", if_absent=True), store.get("a"), store.delete("a")]:
        with pytest.raises(AlreadyClosed):
            await call
    with pytest.raises(AlreadyClosed):
        await listed(store)
