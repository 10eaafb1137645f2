"""Work in the background: it tells how far it is and how it ended, and there is never too much of it."""

import asyncio
from collections.abc import Callable

import pytest

from penstock.kernel.errors import InternalError, NoChanges, NotFound, Overloaded
from penstock.lake.records.service import Commit, Progress
from penstock.lake.rest.work import RUNNING_MAX, Work, Works

COMMIT = Commit("c", (), "why", "me", 0.0, {}, "tree")


async def ended(work: Work) -> None:
    await asyncio.gather(*(each for each in asyncio.all_tasks() if each.get_name() == f"lake work {work.id}"))
    assert work.is_completed


async def test_progress_and_both_ends() -> None:
    works = Works()
    go_on = asyncio.Event()

    async def good(watch: Callable[[Progress], None]) -> Commit:
        watch(Progress("building", 1, 2))
        await go_on.wait()
        return COMMIT

    async def bad(watch: Callable[[Progress], None]) -> Commit:
        raise NoChanges("no changes")

    one, other = works.start(good), works.start(bad)
    await ended(other)
    assert (one.progress, one.is_completed) == (Progress("building", 1, 2), False)
    go_on.set()
    await ended(works.get(one.id))
    assert (one.result, one.error) == (COMMIT, None)
    assert (other.result, str(other.error)) == (None, "no changes")
    with pytest.raises(NotFound):
        works.get("nothing")


async def test_a_defect_ends_it_too() -> None:
    async def broken(watch: Callable[[Progress], None]) -> Commit:
        raise ZeroDivisionError("by a defect")

    work = Works().start(broken)
    await ended(work)
    assert isinstance(work.error, InternalError)
    assert work.error.message == (
        f"a defect of Penstock ended this request: ZeroDivisionError; its log says more under {work.id}"
    )


async def test_only_so_much_runs_at_once() -> None:
    works = Works()
    go_on = asyncio.Event()

    async def slow(watch: Callable[[Progress], None]) -> Commit:
        await go_on.wait()
        return COMMIT

    running = [works.start(slow) for _ in range(RUNNING_MAX)]
    with pytest.raises(Overloaded):
        works.start(slow)
    go_on.set()
    for each in running:
        await ended(each)
