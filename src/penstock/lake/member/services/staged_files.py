"""Look at the files that tasks of Spark staged, before their batch is proposed. Design: spark-2.md S9, S10.

A task may run on a host where the URL of the store names another folder. So the lake asks its own store for each file,
and a task compares a mark before it writes to a folder.
"""

import asyncio
from contextlib import suppress
from typing import Final

from penstock.kernel.errors import NotFound, PreconditionFailed, StagedFileMissing
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.records.sink_batch import STORE_MARK, BatchFile, BatchTable
from penstock.plumbing.objects.arguments import shown_url
from penstock.plumbing.objects.port import ObjectStore
from penstock.plumbing.ports.ports import Chance

__all__ = ["check_staged", "store_mark"]

ASKED_AT_ONCE: Final = 64


async def store_mark(store: ObjectStore, chance: Chance) -> str:
    """Return the content of the mark by which a task knows the lake's own folder; make the mark if it is missing."""
    with suppress(NotFound):
        return bytes((await store.get(STORE_MARK)).data).decode()
    with suppress(PreconditionFailed):  # another member has just made it
        await store.put(STORE_MARK, chance.token(16).hex().encode(), if_absent=True)
    return bytes((await store.get(STORE_MARK)).data).decode()


async def check_staged(shelf: LakeShelf, store_url: str, tables: tuple[BatchTable, ...]) -> None:
    """Refuse a batch with a file that the store does not have whole: its commit would name rows that do not exist."""
    asking = asyncio.Semaphore(ASKED_AT_ONCE)

    async def check(file: BatchFile) -> None:
        async with asking:
            try:
                size = (await shelf.store.head(shelf.folder + file.address)).size
            except NotFound:
                raise _missing(file, store_url, "is not in the lake's store") from None
        if size != file.size:
            raise _missing(file, store_url, f"has {size:,} B in the lake's store, and the task wrote {file.size:,} B")

    await asyncio.gather(*(check(each) for table in tables for each in table.files))


def _missing(file: BatchFile, store_url: str, why: str) -> StagedFileMissing:
    at = f" by a task on {file.host}" if file.host else ""
    return StagedFileMissing(
        f"{file.path}, written{at} to {file.address}, {why} {shown_url(store_url)}; nothing was committed",
        next_step="workers of Spark must write to the lake's own store: share the folder, or use a bucket",
    )
