import asyncio

import pytest

from penstock.lake.member.committed.cache import Cache


async def give(value: str) -> str:
    return value


async def test_what_was_not_asked_for_the_longest_goes_first() -> None:
    cache: Cache[str] = Cache(6, len)
    for name in ("aa", "bb", "cc"):
        await cache.get(name, lambda name=name: give(name))  # type: ignore[misc]
    cache.peek("aa")

    cache.put("dd", "dd")

    assert [name for name in ("aa", "bb", "cc", "dd") if cache.peek(name)] == ["aa", "cc", "dd"]
    assert cache.bytes == 6
    assert cache.misses == 3


async def test_what_is_too_large_is_given_and_not_held() -> None:
    cache: Cache[str] = Cache(3, len)

    assert await cache.get("a", lambda: give("large")) == "large"
    assert cache.peek("a") is None
    assert cache.bytes == 0


async def test_those_who_come_together_load_once() -> None:
    cache: Cache[str] = Cache(10, len)
    loads = 0
    go = asyncio.Event()

    async def load() -> str:
        nonlocal loads
        loads += 1
        await go.wait()
        return "value"

    waiting = [asyncio.ensure_future(cache.get("a", load)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    go.set()

    assert await asyncio.gather(*waiting[1:]) == ["value", "value"]
    assert loads == 1


async def test_a_failure_is_told_and_not_held() -> None:
    cache: Cache[str] = Cache(10, len)

    async def fail() -> str:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await cache.get("a", fail)
    assert await cache.get("a", lambda: give("yes")) == "yes"


async def test_closing_ends_what_is_loading() -> None:
    cache: Cache[str] = Cache(10, len)

    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    waiting = asyncio.ensure_future(cache.get("a", never))
    await asyncio.sleep(0)
    await cache.close()

    with pytest.raises(asyncio.CancelledError):
        await waiting
