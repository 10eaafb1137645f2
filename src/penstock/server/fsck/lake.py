"""The objects of a lake: each commit, tree and entry names objects that must be in the store, with their size.

The state is that of the newest checkpoint, so changes since then are not looked at. It only reads.
"""

from collections.abc import Iterable
from contextlib import suppress

import polars as pl

from penstock.kernel.errors import DataDamaged, DataMissing, NotFound, PenstockError
from penstock.lake.core.staging.branch import Repository
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.machine import StagingMachine
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.garbage.garbage_marks import entries_of, files_of, held_by, reachable, trees_of
from penstock.lake.member.services.uploads import is_own_address
from penstock.lake.member.shelves import LakeShelf, Shelves
from penstock.plumbing.objects import ObjectStore
from penstock.plumbing.objects.known import Md5Content
from penstock.plumbing.objects.summed import SummedStore
from penstock.server.fsck.report import FsckReport

__all__ = ["look_into_lake"]

FOLDER = "_penstock/lake/"


async def look_into_lake(store: ObjectStore, url: str, report: FsckReport, *, deep: bool) -> None:
    """Look at the lakes of a store; with `deep` also at every byte of their objects."""
    sizes = {each.key: each.size async for page in store.list() for each in page.objects}
    queues = {key.split("/")[2] for key in sizes if key.startswith(FOLDER)}
    for queue in sorted(queues):
        checkpoints = Checkpoints(store, f"{FOLDER}{queue}/")
        _, machine = await checkpoints.newest()
        for reason in checkpoints.unreadable:
            report.add(f"{FOLDER}{queue}", "checkpoint of the lake", DataDamaged(reason))
        look = _Look(Shelves(store, url), sizes, report, deep=deep)
        for repository in machine.repositories.values():
            await look.repository(machine, repository)


class _Look:
    def __init__(self, shelves: Shelves, sizes: dict[str, int], report: FsckReport, *, deep: bool) -> None:
        self._shelves = shelves
        self._sizes = sizes
        self._report = report
        self._deep = deep
        self._done: set[str] = set()  # keys of objects
        self._data = SummedStore(shelves.store, is_read_only=True)

    async def repository(self, machine: StagingMachine, repository: Repository) -> None:
        shelf, held = self._shelves.of(repository), held_by(machine, repository)
        commits = set()
        for head in held.commits:
            try:
                commits |= await reachable(shelf, [head])
            except PenstockError as error:
                self._report.add(f"{repository.name}: commit {head}", "commit of the lake", error)
        known: set[str] = set()
        for commit in sorted(commits):
            with suppress(NotFound):
                await self._commit(shelf, repository, commit, known)
        for frame in held.staged:
            await self._entries(shelf, frame)

    async def _commit(self, shelf: LakeShelf, repository: Repository, commit: str, known: set[str]) -> None:
        where = f"{repository.name}: commit {commit[:12]}"
        try:
            trees = await trees_of(shelf, [commit])  # type: ignore[list-item]
            for key in sorted(files_of(trees)):
                if shelf.folder + key not in self._sizes:
                    self._report.add(shelf.folder + key, "tree of the lake", DataMissing("it is missing"))
            for tree in trees:
                async for frame in entries_of(shelf, tree, known):
                    await self._entries(shelf, frame)
        except PenstockError as error:
            self._report.add(where, "tree of the lake", error)

    async def _entries(self, shelf: LakeShelf, frame: pl.DataFrame) -> None:
        live = frame.filter(pl.col("address") != "")
        rows: Iterable[tuple[str, int, str]] = (
            zip(live["address"], live["size"], live["etag"], strict=True)
            if {"size", "etag"} <= set(live.columns)
            else ((each, -1, "") for each in live["address"])
        )
        for address, size, etag in rows:
            key = shelf.key(Entry(address))
            if key and key not in self._done:
                self._done.add(key)
                await self._object(key, address, size, etag)

    async def _object(self, key: str, address: str, size: int, etag: str) -> None:
        self._report.seen["bytes of the lake, named"] += 1
        found = self._sizes.get(key)
        try:
            if found is None:
                raise DataMissing("an entry names it, and the store does not have it")
            if size >= 0 and found != size:
                raise DataDamaged(f"it has {found} bytes, and its entry says {size}")
            if self._deep:
                known = Md5Content(etag, key, key) if len(etag) == 32 and is_own_address(address) else None
                async for _ in self._data.read(key, 0, found, size=found, known=known):
                    pass
        except PenstockError as error:
            self._report.add(key, "bytes of the lake", error)
