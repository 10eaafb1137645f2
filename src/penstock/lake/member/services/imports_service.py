"""Imports of the lake's service: objects which are in the store already become entries, without being copied.

An import lists the store, then moves the branch's head by one record (lake.md L13). Until then nothing shows; it may be
cancelled, and whether that was in time the queue decides. It belongs to the member it was started on.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.kernel.errors import InvalidArgument, NotFound, Overloaded, PenstockError, Refused
from penstock.lake.core.staging.proposing import port
from penstock.lake.core.staging.records import Instance
from penstock.lake.core.staging.results import Status
from penstock.lake.member.services.commits_service import CommitsService, shown
from penstock.lake.member.services.uploads import data_address
from penstock.lake.member.shelves import LakeShelf
from penstock.lake.member.wishes import Draft, ImportWish
from penstock.lake.records.service import Commit, ImportPath, ImportStatus
from penstock.plumbing.objects.port import ObjectMeta
from penstock.plumbing.objects.threads import all_of
from penstock.plumbing.process.defects import defect

__all__ = ["Imports"]

RUNNING_MAX: Final = 16
REMEMBERED_MAX: Final = 1000
COPIES_AT_ONCE: Final = 16


@dataclass(slots=True, eq=False)
class _Import:
    id: str
    repository: str
    branch: str
    updated_at: float
    task: "asyncio.Task[None] | None" = None
    link_epoch: int | None = None  # of copies that it made
    objects: int = 0
    commit: Commit | None = None
    error: PenstockError | None = None
    is_cancelled: bool = False

    @property
    def has_ended(self) -> bool:
        return self.commit is not None or self.error is not None


class Imports(CommitsService):
    """The part of the service which imports."""

    _imports: "OrderedDict[str, _Import]"

    async def start_import(
        self,
        repository: str,
        branch: str,
        paths: Sequence[ImportPath],
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
    ) -> str:
        """Start one; its id. It is refused if it finds or changes nothing, unless it may."""
        found, known = await self.engine.branch(repository, branch)
        for each in paths:
            self._check_source(each, self.engine.shelves.of(found))
        if sum(not each.has_ended for each in self._imports.values()) >= RUNNING_MAX:
            raise Overloaded(f"{RUNNING_MAX} imports are under way already")
        draft = self._draft(self.engine.shelves.of(found), message or "Import objects", committer, metadata)
        made = _Import(self.engine.ports.chance.token(10).hex(), repository, branch, self._now())
        self._imports[made.id] = made
        while len(self._imports) > REMEMBERED_MAX:
            self._imports.popitem(last=False)
        made.task = asyncio.get_running_loop().create_task(
            self._import(made, draft, known.instance, list(paths), allow_empty=allow_empty),
            name=f"lake import {made.id}",
        )
        return made.id

    def _now(self) -> float:
        return self.engine.ports.clock.time_ns() / 1e9

    def _check_source(self, path: ImportPath, shelf: LakeShelf) -> None:
        store, own = self.engine.shelves.prefix, shelf.storage + "/"
        if not self.engine.shelves.key_of(path.source):
            raise InvalidArgument(
                f"{path.source[:200]!r} is not in this lake's store, {store}…",
                next_step=f"name a folder of the store, like {store}outside/",
            )
        # The collector may have condemned what lies there; a name for it would outlive it (L15).
        if path.source.startswith(own) or (path.is_prefix and own.startswith(path.source)):
            raise InvalidArgument(
                f"{path.source[:200]!r} is, or holds, the repository's own folder {own}",
                next_step="import from another folder; what a ref shows is copied or merged instead",
            )

    async def _import(
        self, made: _Import, draft: Draft, instance: str, paths: list[ImportPath], *, allow_empty: bool
    ) -> None:
        try:
            listings = [(_whole_folder(each), await self._listing(made, each, draft.shelf)) for each in paths]
            for path, listing in listings:
                if not listing and not allow_empty:
                    raise NotFound(
                        f"no object lies below {path.source!r}", kind="source", next_step="compare the address"
                    )
            wish = ImportWish(draft, listings)
            move = port.Move(
                self.engine.request(), Instance(instance), wish, allow_empty, is_clean=True, link_epoch=made.link_epoch
            )
            result = await self.engine.ask(move, to_the_end=True)
            if result.status is Status.CANCELLED and made.is_cancelled:
                raise _canceled()
            self.engine.judge(result, made.branch)
            made.commit = shown(result.commit, await draft.shelf.history.get(result.commit))
        except PenstockError as error:
            made.error = error
        except asyncio.CancelledError:
            made.error = _canceled()
            raise
        except Exception as error:
            made.error = defect("lake import", error, request=made.id)
        finally:
            made.updated_at = self._now()

    async def _listing(self, made: _Import, path: ImportPath, shelf: LakeShelf) -> list[pa.RecordBatch]:
        """Return the listing of objects to add below the destination, with paths relative to it."""
        shelves = self.engine.shelves
        key = shelves.key_of(path.source)
        if not path.is_prefix:
            meta = await shelves.store.head(key)
            made.objects += 1
            return [await self._batch(made, [("", meta)], shelf)]
        folder = key if key.endswith("/") else key.rpartition("/")[0] + "/"
        batches: list[pa.RecordBatch] = []
        async for page in shelves.store.list(folder):
            rows = [(each.key[len(key) :].lstrip("/"), each) for each in page.objects if each.key.startswith(key)]
            if rows:
                batches.append(await self._batch(made, rows, shelf))
            made.objects += len(rows)
            made.updated_at = self._now()
        return batches

    async def _batch(self, made: _Import, rows: list[tuple[str, ObjectMeta]], shelf: LakeShelf) -> pa.RecordBatch:
        """Make entries. Objects of another repository are copied, because its collector may delete them (D21)."""
        prefix, machine = self.engine.shelves.prefix, self.engine.machine
        addresses = [prefix + meta.key for _, meta in rows]
        owned = [
            at
            for at, address in enumerate(addresses)
            if machine.namespaces.overlapping(address) or machine.retired_namespaces.overlapping(address)
        ]
        if owned:
            epoch = self.engine.known_repository(made.repository).gce
            made.link_epoch = epoch if made.link_epoch is None else min(made.link_epoch, epoch)
            for first in range(0, len(owned), COPIES_AT_ONCE):
                part = owned[first : first + COPIES_AT_ONCE]
                copies = [data_address(epoch, self.engine.ports.chance) for _ in part]
                await all_of(
                    shelf.data.copy(rows[at][1].key, shelf.folder + copy) for at, copy in zip(part, copies, strict=True)
                )
                for at, copy in zip(part, copies, strict=True):
                    addresses[at] = copy
        return pa.record_batch(
            {
                "path": pa.array([path for path, _ in rows], pa.large_string()),
                "address": pa.array(addresses, pa.large_string()),
                "size": pa.array([meta.size for _, meta in rows], pa.int64()),
                "etag": pa.array([str(meta.etag).strip('"') for _, meta in rows], pa.large_string()),
                "mtime_ns": pa.array([int(meta.modified.timestamp() * 1e9) for _, meta in rows], pa.int64()),
            }
        )

    async def import_status(self, repository: str, branch: str, id: str) -> ImportStatus:
        made = self._imports.get(id)
        if made is None or (made.repository, made.branch) != (repository, branch):
            raise NotFound(f"no import of {branch} has the id {id[:64]!r} on this member", kind="import")
        error = made.error.to_record() if made.error is not None else None
        return ImportStatus(made.id, made.updated_at, made.objects, made.commit, error)

    async def cancel_import(self, repository: str, branch: str, id: str) -> None:
        await self.import_status(repository, branch, id)
        made = self._imports[id]
        if made.has_ended:
            raise Refused(f"import {id} has ended already")
        assert made.task is not None
        if not made.is_cancelled:  # a second cancellation would end the wait for the result of the first
            made.is_cancelled = True
            made.task.cancel()
        await asyncio.wait([made.task])
        if made.commit is not None:
            raise Refused(f"import {id} was committed before it could be cancelled")

    async def end_imports(self) -> None:
        """Cancel what still runs."""
        tasks = [each.task for each in self._imports.values() if each.task is not None and not each.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _canceled() -> PenstockError:
    return Refused("Canceled")  # lakeFS's word, which its clients look for


def _whole_folder(path: ImportPath) -> ImportPath:
    """A prefix goes below a folder: what merely begins like its name is none of its business."""
    if not path.is_prefix or not path.destination or path.destination.endswith("/"):
        return path
    return ImportPath(path.source, path.destination + "/", is_prefix=True)
