"""Imports on a real lake: what they take and refuse, and that a cancelled one is known to have been in time or not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.lake.member.lakes import running_lake

from penstock.kernel.errors import InvalidArgument, Refused
from penstock.lake.core.staging.proposing.port import Envelope
from penstock.lake.core.staging.records import Perform
from penstock.lake.member.member_host import MemberHost
from penstock.lake.member.services.lake_service import LakeService
from penstock.lake.member.wishes import ImportWish, Made
from penstock.lake.records.service import ImportPath, ImportStatus

OUTSIDE = ImportPath("local://outside/", "taken/", is_prefix=True)


@pytest.fixture
async def lake(tmp_path: Path) -> AsyncIterator[LakeService]:
    async with running_lake(tmp_path) as lake:
        await lake.create_repository("shop")
        for key in ("outside/one", "outside/deep/two", "shopping/three"):
            await lake.store.put(key, key.encode())
        yield lake


async def head(lake: LakeService) -> str:
    return (await lake.get_commit("shop", "main")).id


async def paths(lake: LakeService) -> list[str]:
    return [each.path for each in (await lake.list("shop", "main")).results]


async def ended(lake: LakeService, id_: str) -> ImportStatus:
    async with asyncio.timeout(30):
        while True:
            status = await lake.import_status("shop", "main", id_)
            if status.commit is not None or status.error is not None:
                return status
            await asyncio.sleep(0.01)


async def imported(lake: LakeService, *sources: ImportPath, allow_empty: bool = False) -> ImportStatus:
    return await ended(lake, await lake.start_import("shop", "main", sources, "take", allow_empty=allow_empty))


async def refusal(lake: LakeService, *sources: ImportPath) -> tuple[str, str]:
    """Its code and its message; nothing has changed."""
    before = await head(lake)
    status = await imported(lake, *sources)
    assert status.error is not None
    assert (status.commit, await head(lake)) == (None, before)
    return status.error.code, status.error.message


async def test_it_takes_folders_and_objects(lake: LakeService) -> None:
    status = await imported(lake, OUTSIDE, ImportPath("local://shopping/three", "3"))
    assert (status.objects, status.error) == (3, None)
    assert status.commit is not None
    assert status.commit.id == await head(lake)
    assert await paths(lake) == ["3", "taken/deep/two", "taken/one"]


async def test_what_finds_or_changes_nothing_is_refused_unless_it_may(lake: LakeService) -> None:
    nothing = ImportPath("local://misspelled/", "taken/", is_prefix=True)
    await imported(lake, OUTSIDE)
    assert await refusal(lake, nothing) == ("not-found", "no object lies below 'local://misspelled/'")
    assert await refusal(lake, OUTSIDE) == ("no-changes", "no changes")
    assert await refusal(lake, ImportPath("local://outside", "x")) == ("not-found", "no object 'outside'")
    for sources, left in [((), 2), ((OUTSIDE,), 2), ((nothing,), 0)]:
        before = await head(lake)
        status = await imported(lake, *sources, allow_empty=True)
        assert status.commit is not None
        assert (status.commit.parents, status.error) == ((before,), None)
        assert len(await paths(lake)) == left


@pytest.mark.parametrize(
    "source",
    [
        ImportPath("local://shop/", "x/", is_prefix=True),
        ImportPath("local://shop", "x/", is_prefix=True),
        ImportPath("local://sh", "x/", is_prefix=True),
        ImportPath("local://shop/data/", "x/", is_prefix=True),
        ImportPath("local://shop/data/00000001/f00d", "x"),
    ],
    ids=lambda path: path.source,
)
async def test_the_repositorys_own_folder_is_no_source(lake: LakeService, source: ImportPath) -> None:
    with pytest.raises(InvalidArgument, match="the repository's own folder local://shop/"):
        await lake.start_import("shop", "main", [OUTSIDE, source], "take")


async def test_cancelled_while_it_lists(lake: LakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    before, lists = await head(lake), asyncio.Event()

    async def listing(*_: Any) -> list[Any]:
        lists.set()
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(lake, "_listing", listing)
    id_ = await lake.start_import("shop", "main", [OUTSIDE], "take")
    await lists.wait()
    await asyncio.gather(*(lake.cancel_import("shop", "main", id_) for _ in range(3)))
    status = await lake.import_status("shop", "main", id_)
    assert status.error is not None
    assert (status.commit, status.error.message) == (None, "Canceled")
    assert await head(lake) == before
    with pytest.raises(Refused, match="has ended already"):
        await lake.cancel_import("shop", "main", id_)


async def test_cancelled_while_it_builds(lake: LakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    before, builds, goes_on, make = await head(lake), asyncio.Event(), asyncio.Event(), ImportWish.make

    async def slowly(*arguments: Any) -> Made:
        builds.set()
        await goes_on.wait()
        return await make(*arguments)

    monkeypatch.setattr(ImportWish, "make", slowly)
    id_ = await lake.start_import("shop", "main", [OUTSIDE], "take")
    await builds.wait()
    await asyncio.gather(*(lake.cancel_import("shop", "main", id_) for _ in range(3)))
    goes_on.set()
    status = await ended(lake, id_)
    assert status.error is not None
    assert (status.commit, status.error.message) == (None, "Canceled")
    await lake.put("shop", "main", "later", b"")  # behind whatever the build might have put on the queue
    assert (await head(lake), await paths(lake)) == (before, ["later"])


async def test_who_cancels_too_late_is_told(lake: LakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(lake.engine.host, MemberHost)
    queue = lake.engine.host._queue
    put, performs = queue.put, asyncio.Event()

    def seen(envelope: Envelope) -> None:
        put(envelope)
        if isinstance(envelope.record, Perform):
            performs.set()

    monkeypatch.setattr(queue, "put", seen)
    id_ = await lake.start_import("shop", "main", [OUTSIDE], "take")
    await performs.wait()  # its record is on the queue, and a CANCEL comes behind it
    with pytest.raises(Refused, match="was committed before it could be cancelled"):
        await lake.cancel_import("shop", "main", id_)
    status = await lake.import_status("shop", "main", id_)
    assert status.commit is not None
    assert (status.commit.id, status.error) == (await head(lake), None)


async def test_a_defect_ends_it(lake: LakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    async def listing(*_: Any) -> list[Any]:
        raise ZeroDivisionError("by a defect")

    monkeypatch.setattr(lake, "_listing", listing)
    code, message = await refusal(lake, OUTSIDE)
    assert (code, message.partition(";")[0]) == (
        "internal",
        "a defect of Penstock ended this request: ZeroDivisionError",
    )
