"""Objects of the lake's service: read, list, put, delete, copy; uploads in two phases. Design: lake.md L4-L6, L15."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final

from penstock.kernel.errors import Gone, InvalidArgument, NotFound, PenstockError, Refused
from penstock.lake.core.staging.branch import Branch, Repository
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.records import (
    Basis,
    Changing,
    CommitId,
    Delete,
    FromCommit,
    FromStaged,
    Precondition,
    Put,
    Row,
)
from penstock.lake.member.engine import AGAIN_MAX, Engine
from penstock.lake.member.names import check_path
from penstock.lake.member.queue import RECORD_BYTES_MAX
from penstock.lake.member.services.checks import checked_metadata, checked_type, nanoseconds
from penstock.lake.member.services.uploads import LinkSigner, data_address, is_own_address, link_epoch_of, upload
from penstock.lake.member.shelves import LakeShelf, lost_if_absent
from penstock.lake.member.view import View
from penstock.lake.records.service import AMOUNT_MAX, Content, Object, Page, Reading, UploadAddress
from penstock.plumbing.objects.known import Md5Content
from penstock.plumbing.objects.summed import gathered

__all__ = ["Objects"]

SIGNED_S: Final = 3600
DELETE_BYTES_MAX: Final = RECORD_BYTES_MAX // 2  # of the paths of one record
WHOLE_BYTES_MAX: Final = 512 << 10  # read at once; more comes in chunks


class Objects:
    """The part of the service which deals with objects."""

    engine: Engine
    signer: LinkSigner

    # reading

    async def head(self, repository: str, ref: str, path: str, *, stale_ok: bool = False) -> Object:
        view = await self.engine.view(repository, ref, stale_ok=stale_ok)
        return await _object(view, repository, ref, path)

    @asynccontextmanager
    async def open(
        self, repository: str, ref: str, path: str, start: int = 0, end: int | None = None
    ) -> AsyncIterator[Reading]:
        reading = await self.read(repository, ref, path, start, end)
        async with aclosing(reading.chunks):
            yield reading

    async def read(self, repository: str, ref: str, path: str, start: int = 0, end: int | None = None) -> Reading:
        view = await self.engine.view(repository, ref)
        found = await _object(view, repository, ref, path)
        assert found.entry is not None
        size = found.entry.size
        start = max(0, size + start) if start < 0 else start
        end = size if end is None else min(end, size)
        if size and start >= size:
            raise InvalidArgument(f"{path!r} has {size} bytes: none from {start} on", status=416, size=size)
        return await self._reading(view.shelf, found, start, end, f"{path!r} on {ref}")

    async def read_entry(self, repository: str, path: str, entry: Entry, start: int, end: int) -> Reading:
        shelf = self.engine.shelves.of(await self.engine.repository(repository))
        found = Object(path, entry, shelf.full_address(entry), shelf.key(entry))
        return await self._reading(shelf, found, start, end, f"{path!r}")

    async def _reading(self, shelf: LakeShelf, found: Object, start: int, end: int, what: str) -> Reading:
        if start >= end:
            return Reading(found, start, start, _whole(None))
        if not found.key:
            raise Refused(f"the bytes are at {found.address[:200]!r}, which this lake's store does not hold")
        known, size = _known(found), _size(found)
        with lost_if_absent(what):
            chunks = shelf.data.read(found.key, start, end, size=size, known=known)
            if end - start > WHOLE_BYTES_MAX:
                return Reading(found, start, end, await _opened(chunks))
            return Reading(found, start, end, _whole(await gathered(chunks)))

    async def list(
        self,
        repository: str,
        ref: str,
        *,
        prefix: str = "",
        after: str = "",
        delimiter: str = "",
        limit: int = AMOUNT_MAX,
        stale_ok: bool = False,
    ) -> Page[Object]:
        view = await self.engine.view(repository, ref, stale_ok=stale_ok)
        return await view.list_page(prefix, after, delimiter, limit)

    # writing

    def _now_ns(self) -> int:
        return self.engine.ports.clock.time_ns()

    async def put(
        self,
        repository: str,
        branch: str,
        path: str,
        content: Content,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        when: Precondition | None = None,
        etag: str = "",
    ) -> Object:
        check_path(path)
        shown_type, text = checked_type(content_type), checked_metadata(metadata)  # before a byte is taken
        found, _ = await self.engine.branch_to_write(repository, branch)
        address = data_address(found.gce, self.engine.ports.chance)
        size, md5 = await upload(self.engine.shelves.of(found), address, content)
        entry = Entry(address, size, etag or md5, self._now_ns(), shown_type, text)
        return await self._link(repository, branch, path, entry, link_epoch_of(address), when)

    async def delete(
        self, repository: str, branch: str, paths: Iterable[str], *, when: Precondition | None = None
    ) -> None:
        wanted = tuple(dict.fromkeys(paths))
        for path in wanted:
            check_path(path)
        if when is not None:
            (path,) = wanted
            await self._write_row(repository, branch, path, None, 0, when)
            return
        for some in in_records(wanted):
            await self._delete(repository, branch, some)

    async def _delete(self, repository: str, branch: str, paths: tuple[str, ...]) -> None:
        await self.engine.write_to_branch(
            repository, branch, lambda _, known: Delete(self.engine.request(), known.instance, paths)
        )

    async def upload_address(self, repository: str, branch: str, path: str, *, sign: bool = False) -> UploadAddress:
        check_path(path)
        found, known = await self.engine.branch_to_write(repository, branch)
        shelf = self.engine.shelves.of(found)
        address = self.signer.sign(known.instance, path, data_address(found.gce, self.engine.ports.chance))
        key = shelf.folder + address
        url = await shelf.store.sign("PUT", key, SIGNED_S) if sign else ""
        return UploadAddress(f"{shelf.storage}/{address}", key, url, self._now_ns() / 1e9 + SIGNED_S if sign else 0.0)

    async def link(
        self,
        repository: str,
        branch: str,
        path: str,
        address: str,
        *,
        size: int,
        etag: str,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
        mtime: float | None = None,
        when: Precondition | None = None,
    ) -> Object:
        check_path(path)
        if size < 0:
            raise InvalidArgument(f"an object cannot have {size} bytes")
        found, known = await self.engine.branch_to_write(repository, branch)
        shelf = self.engine.shelves.of(found)
        inside = shelf.relative(address)
        if inside is None:
            inside = await self._fetched(shelf, address, found.gce)
        else:
            self.signer.check(known.instance, path, inside)
        epoch = link_epoch_of(inside)
        if epoch < found.link_floor:
            raise Gone(f"the upload to {address[:200]!r} is older than a whole garbage collection: upload again")
        with lost_if_absent(address[:200]):
            seen = (await shelf.store.head(shelf.folder + inside)).size
        if seen != size:
            raise InvalidArgument(
                f"the object at {address[:200]!r} has {seen} bytes, not {size}", next_step="link it with its true size"
            )
        mtime_ns = self._now_ns() if mtime is None else nanoseconds(mtime, "mtime")
        entry = Entry(inside, size, etag.strip('"'), mtime_ns, checked_type(content_type), checked_metadata(metadata))
        return await self._link(repository, branch, path, entry, epoch, when)

    async def _fetched(self, shelf: LakeShelf, address: str, epoch: int) -> str:
        """Copy an object of the lake's store into the namespace: what lies elsewhere may be deleted there (D21)."""
        key = self.engine.shelves.key_of(address)
        if not key:
            raise InvalidArgument(
                f"address {address[:200]!r} is not in this lake's store, {self.engine.shelves.prefix}…"
            )
        own = data_address(epoch, self.engine.ports.chance)
        with lost_if_absent(address[:200]):
            await shelf.data.copy(key, shelf.folder + own)
        return own

    async def copy(
        self,
        repository: str,
        branch: str,
        path: str,
        *,
        source_ref: str,
        source_path: str,
        metadata: Mapping[str, str] | None = None,
        content_type: str | None = None,
        when: Precondition | None = None,
    ) -> Object:
        check_path(path)
        failure: PenstockError | None = None
        for _ in range(AGAIN_MAX):
            view = await self.engine.view(repository, source_ref)
            source = (await _object(view, repository, source_ref, source_path)).entry
            assert source is not None
            entry = Entry(
                source.address,
                source.size,
                source.etag,
                self._now_ns(),
                source.content_type if content_type is None else checked_type(content_type),
                source.metadata if metadata is None else checked_metadata(metadata),
            )
            try:
                return await self._link(repository, branch, path, entry, 0, when, _source_of(view, source_path))
            except NotFound as error:
                if error.details.get("kind") != "source":
                    raise
                failure = error  # the uncommitted entry has gone meanwhile: look again
        assert failure is not None
        raise failure

    async def _link(
        self,
        repository: str,
        branch: str,
        path: str,
        entry: Entry,
        link_epoch: int,
        when: Precondition | None,
        source: FromStaged | FromCommit | None = None,
    ) -> Object:
        shelf = await self._write_row(repository, branch, path, entry, link_epoch, when, source)
        return Object(path, entry, shelf.full_address(entry), shelf.key(entry))

    async def _write_row(
        self,
        repository: str,
        branch: str,
        path: str,
        entry: Entry | None,
        link_epoch: int,
        when: Precondition | None,
        source: FromStaged | FromCommit | None = None,
    ) -> LakeShelf:
        """Write an entry, or a tombstone, if the precondition holds at apply."""
        basis = await self._basis(repository, branch, path) if when is not None else None

        def record(found: Repository, known: Branch) -> Changing:
            row = Row(path, entry, when, basis, source)
            return Put(self.engine.request(), known.instance, link_epoch, (row,))

        _, shelf = await self.engine.write_to_branch(repository, branch, record)
        return shelf

    async def _basis(self, repository: str, branch: str, path: str) -> Basis:
        """Return the committed entry under the path, in the head that this member knows (L5)."""
        found, known = await self.engine.branch_to_write(repository, branch)
        shelf, head = self.engine.shelves.of(found), known.head
        return Basis(head, await shelf.trees.get((await shelf.history.get(head)).tree, path))


def in_records(paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Paths in groups that fit into one record each."""
    group: list[str] = []
    size = 0
    for path in paths:
        size += len(path.encode()) + 5
        if size > DELETE_BYTES_MAX and group:
            yield tuple(group)
            group, size = [], len(path.encode()) + 5
        group.append(path)
    if group:
        yield tuple(group)


def _source_of(view: View, path: str) -> FromStaged | FromCommit:
    """Return the holder of the copied bytes, so that the collector cannot take them first (L15 b)."""
    if view.snapshot is not None and view.is_staged(path):
        return FromStaged(view.snapshot.instance, path)
    return FromCommit(CommitId(view.commit))


async def _object(view: View, repository: str, ref: str, path: str) -> Object:
    entry = await view.entry(path)
    if entry is None:
        folder = path.rpartition("/")[0]
        look = f"penstock lake ls lake://{repository}@{ref}/{folder + '/' if folder else ''}"
        raise NotFound(f"there is no object {path!r} on {ref}", kind="object", next_step=look)
    return view.object(path, entry)


async def _whole(data: memoryview | None) -> AsyncGenerator[memoryview, None]:
    if data is not None:
        yield data


def _size(found: Object) -> int:
    assert found.entry is not None
    return found.entry.size


def _known(found: Object) -> Md5Content | None:
    """Return the digest of an object that this lake wrote. A linked one has its client's ETag (decision 421)."""
    entry = found.entry
    assert entry is not None
    is_ours = len(entry.etag) == 32 and is_own_address(entry.address)
    return Md5Content(entry.etag, repr(found.path), found.key) if is_ours else None


async def _opened(chunks: AsyncGenerator[memoryview, None]) -> AsyncGenerator[memoryview, None]:
    """Read the first bytes now: a lost or damaged object is known before an answer begins."""
    first = await anext(chunks)
    return _resumed(first, chunks)


async def _resumed(first: memoryview, chunks: AsyncGenerator[memoryview, None]) -> AsyncGenerator[memoryview, None]:
    async with aclosing(chunks):
        yield first
        async for chunk in chunks:
            yield chunk
