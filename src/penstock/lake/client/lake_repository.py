"""A repository of the lake from Python, for asyncio: refs to read, branches to write, transactions.

    shop = AsyncLake(find_lake()).repository("shop")
    main = shop.branch("main")
    await main.put("prices.csv", Path("prices.csv"))
    await main.commit("new prices")
    async with main.transaction("all of it, or nothing") as changes:
        await changes.put("a", b"...")

`client.lake_blocking` has the same without `await`, as a dict of files. A **transaction** is a branch of its own, which
lists do not show: when its block ends it becomes one commit of the branch, and when the block fails nothing happened.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, Self, cast
from urllib.parse import quote

import msgspec

from penstock.kernel.errors import InvalidArgument, NoChanges, NotFound, PenstockError
from penstock.lake.client.lake import LakeUrl
from penstock.lake.client.lake_api import LakeApi
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_tables import TableReads
from penstock.lake.records.service import Change, ChangeKind, Commit, Strategy
from penstock.plumbing.files.tables import ArrowTable, encode_table, is_table
from penstock.plumbing.http.client import Body
from penstock.plumbing.ports.ports import Ports

__all__ = ["AsyncBranch", "AsyncLake", "AsyncRef", "AsyncRepository", "AsyncTransaction", "Content", "LakeFile"]

Content = bytes | bytearray | memoryview | Path | BinaryIO | AsyncIterable[bytes] | ArrowTable
CHUNK_BYTES: Final = 1 << 20
DELETES_MAX: Final = 1000


class LakeFile(msgspec.Struct, frozen=True):
    """An object's metadata; or a folder, whose path ends in / and which has no size."""

    path: str
    size: int = 0
    etag: str = ""
    modified_at: float = 0.0  # seconds since 1970
    content_type: str = ""
    metadata: dict[str, str] = {}
    address: str = ""  # where its bytes are

    @property
    def is_folder(self) -> bool:
        return self.path.endswith("/") and not self.etag


class AsyncLake:
    """One lake's server: all its repositories."""

    def __init__(self, place: LakePlace, ports: Ports | None = None) -> None:
        self.api = LakeApi(place, ports)

    def __repr__(self) -> str:
        return f"Lake({self.api.place.url})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self.api.close()

    def repository(self, name: str) -> "AsyncRepository":
        """Return a repository of the lake. Nothing is asked before one of its methods is called."""
        return AsyncRepository(self.api, name)

    async def repositories(self) -> list[str]:
        """Return the names of all repositories."""
        return [each["id"] async for each in self.api.pages("/repositories")]


class AsyncRepository:
    """One repository. Nothing is asked before a method is called."""

    def __init__(self, api: LakeApi, name: str) -> None:
        self.api = api
        self.name = name
        self._path = LakeUrl(name).api

    def __repr__(self) -> str:
        return f"Repository(lake://{self.name})"

    async def create(self, *, storage: str = "", default_branch: str = "main", exists_ok: bool = False) -> None:
        """Make it, with an empty default branch."""
        body = {"name": self.name, "storage_namespace": storage, "default_branch": default_branch}
        if exists_ok and await self.exists():
            return
        await self.api.call("POST", "/repositories", body)

    async def exists(self) -> bool:
        """Return whether the repository exists."""
        try:
            await self.api.call("GET", self._path)
        except NotFound:
            return False
        return True

    async def delete(self) -> None:
        """Delete the repository, its branches and tags. Its objects stay in the store."""
        await self.api.call("DELETE", self._path)

    def ref(self, name: str) -> "AsyncRef":
        """Anything that names a commit: a branch, a tag, an id, main~2. To read only."""
        return AsyncRef(self, name)

    def branch(self, name: str) -> "AsyncBranch":
        """Return a branch. Whether it exists is not asked."""
        return AsyncBranch(self, name)

    async def create_branch(self, name: str, source: str, *, is_hidden: bool = False) -> "AsyncBranch":
        """Make a branch that begins at a ref."""
        body = {"name": name, "source": source, "hidden": is_hidden}
        await self.api.call("POST", f"{self._path}/branches", body)
        return AsyncBranch(self, name)

    async def branches(self) -> list[str]:
        """Return the names of all branches."""
        return [each["id"] async for each in self.api.pages(f"{self._path}/branches")]

    async def tag(self, name: str, ref: str) -> "AsyncRef":
        """Make a tag."""
        await self.api.call("POST", f"{self._path}/tags", {"id": name, "ref": ref})
        return AsyncRef(self, name)

    async def delete_tag(self, name: str) -> None:
        """Delete a tag. Its commit stays."""
        await self.api.call("DELETE", f"{self._path}/tags/{quote(name, safe='')}")

    async def tags(self) -> dict[str, str]:
        """Return all tags with their commit ids."""
        return {each["id"]: each["commit_id"] async for each in self.api.pages(f"{self._path}/tags")}

    async def merge(
        self, source: str, into: str, message: str = "", *, strategy: Strategy = "", squash: bool = False
    ) -> Commit:
        """Merge a ref into a branch. `MergeConflict` names the paths, and nothing has happened."""
        api = f"{LakeUrl(self.name, source).ref_api}/merge/{quote(into, safe='')}"
        body = {"message": message, "strategy": strategy, "squash_merge": squash}
        merged = await self.api.call("POST", api, body)
        return await self.ref(merged["reference"]).head()


class AsyncRef(TableReads):
    """A tree to read: what a ref shows."""

    def __init__(self, repository: AsyncRepository, name: str) -> None:
        self.repository = repository
        self.name = name
        self._api = repository.api
        self._url = LakeUrl(repository.name, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__.removeprefix('Async')}(lake://{self.repository.name}@{self.name})"

    @property
    def url(self) -> str:
        """The ref as a lake URL, like lake://shop@main."""
        return f"lake://{self.repository.name}@{self.name}"

    def _place(self) -> LakePlace:
        return self._api.place

    async def head(self) -> Commit:
        """The commit it names."""
        found = await self._api.call("GET", f"{self._url.api}/commits/{quote(self.name, safe='')}")
        return commit_from(found)

    async def stat(self, path: str) -> LakeFile:
        """Return an object's metadata, without its bytes."""
        return file_from(await self._api.call("GET", f"{self._url.ref_api}/objects/stat", path=path))

    async def exists(self, path: str) -> bool:
        """Return whether a path has an object."""
        try:
            await self.stat(path)
        except NotFound:
            return False
        return True

    async def read(self, path: str, start: int = 0, end: int | None = None) -> bytes:
        """An object's bytes, or [start, end) of them."""
        if end is not None and start >= end >= 0:
            return b""
        return b"".join([chunk async for chunk in self.chunks(path, start, end)])

    async def chunks(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """The same, as it comes. It is one version of the object throughout."""
        headers = {}
        if start or end is not None:
            headers["range"] = f"bytes={start}-{'' if end is None else end - 1}" if start >= 0 else f"bytes={start}"
        async with self._api.ask("GET", f"{self._url.ref_api}/objects", b"", headers, {"path": path}) as answer:
            async for chunk in answer.chunks():
                yield chunk

    async def list(self, prefix: str = "", *, delimiter: str = "", limit: int | None = None) -> AsyncIterator[LakeFile]:
        """Objects below a prefix, sorted by path; with a delimiter, folders as one line each."""
        api = f"{self._url.ref_api}/objects/ls"
        async for each in self._api.pages(api, limit=limit, prefix=prefix, delimiter=delimiter):
            yield file_from(each)

    async def log(self, *, path: str = "", limit: int | None = None) -> AsyncIterator[Commit]:
        """Yield its history, newest first; with a path, the commits that changed it."""
        query = {"prefixes" if path.endswith("/") else "objects": path} if path else {}
        async for each in self._api.pages(f"{self._url.ref_api}/commits", limit=limit, **query):
            yield commit_from(each)

    async def diff(self, other: str, *, prefix: str = "") -> AsyncIterator[Change]:
        """Yield the changes of another ref since the merge base."""
        api = f"{self._url.ref_api}/diff/{quote(other, safe='')}"
        async for each in self._api.pages(api, prefix=prefix):
            yield Change(each["path"], ChangeKind(each["type"]))


class AsyncBranch(AsyncRef):
    """A tree to write: changes are uncommitted until a commit makes them part of the history."""

    async def put(self, path: str, content: Content, *, content_type: str = "", if_absent: bool = False) -> LakeFile:
        """Put an object, whole or not at all. Tables (pandas, Polars, Arrow) become files of the name's format."""
        if is_table(content):
            content = await asyncio.to_thread(encode_table, content, path)
        headers = {"content-type": content_type or "application/octet-stream"}
        if if_absent:
            headers["if-none-match"] = "*"
        api = f"{self._url.branch_api}/objects"
        async with self._api.ask("POST", api, _body(content), headers, {"path": path}) as answer:
            return file_from(msgspec.json.decode(await answer.read()))

    async def remove(self, paths: Iterable[str]) -> None:
        """Delete objects. Paths which have none are no error."""
        given = list(paths)
        for first in range(0, len(given), DELETES_MAX):
            body = {"paths": given[first : first + DELETES_MAX]}
            answer = await self._api.call("POST", f"{self._url.branch_api}/objects/delete", body)
            if answer["errors"]:
                raise InvalidArgument(f"{answer['errors'][0]['path']!r}: {answer['errors'][0]['message']}")

    async def copy(self, source: str, path: str, *, ref: str = "") -> LakeFile:
        """The same bytes under another path, without copying them; also from another ref of the repository."""
        body = {"src_path": source, "src_ref": ref or self.name}
        return file_from(await self._api.call("POST", f"{self._url.branch_api}/objects/copy", body, dest_path=path))

    async def commit(
        self, message: str, *, metadata: Mapping[str, str] | None = None, allow_empty: bool = False
    ) -> Commit:
        """Commit the uncommitted changes. Writers can continue during the commit."""
        body = {"message": message, "metadata": dict(metadata or {}), "allow_empty": allow_empty}
        return commit_from(await self._api.call("POST", f"{self._url.branch_api}/commits", body))

    async def uncommitted(self, *, prefix: str = "") -> AsyncIterator[Change]:
        """Yield the uncommitted changes."""
        async for each in self._api.pages(f"{self._url.branch_api}/diff", prefix=prefix):
            yield Change(each["path"], ChangeKind(each["type"]))

    async def reset(self, path: str = "") -> None:
        """Discard uncommitted changes: all of them, those below a prefix (ending in /), or of one object."""
        kind = "common_prefix" if path.endswith("/") else "object"
        await self._api.call("PUT", self._url.branch_api, {"type": kind, "path": path} if path else {"type": "reset"})

    async def revert(self, ref: str, *, parent: int = 0) -> Commit:
        """Undo what a commit did, by a new commit."""
        await self._api.call("POST", f"{self._url.branch_api}/revert", {"ref": ref, "parent_number": parent})
        return await self.head()

    async def delete(self) -> None:
        """Delete the branch and its uncommitted changes."""
        await self._api.call("DELETE", self._url.branch_api)

    @asynccontextmanager
    async def transaction(
        self, message: str, *, metadata: Mapping[str, str] | None = None
    ) -> AsyncIterator["AsyncTransaction"]:
        """Changes which become one commit when the block ends; if it raises, nothing has happened."""
        name = f"tx-{self._api.ports.chance.token(8).hex()}"
        await self.repository.create_branch(name, self.name, is_hidden=True)
        changes = AsyncTransaction(self.repository, name)
        try:
            yield changes
            with suppress(NoChanges):
                await changes.commit(message, metadata=metadata)
                changes.committed = await self.repository.merge(name, self.name, message, squash=True)
        finally:
            with suppress(PenstockError):  # a hidden branch that stays does no harm
                await changes.delete()


class AsyncTransaction(AsyncBranch):
    """The branch of a transaction. `committed` is its commit, once the block has ended; None if nothing changed."""

    committed: Commit | None = None


def _body(content: Content) -> Body:
    if isinstance(content, str):
        raise TypeError("content is bytes, a Path, an open file or a table: for text, use text.encode()")
    if isinstance(content, bytes | bytearray | memoryview | AsyncIterable):
        return content
    if not isinstance(content, Path) and not hasattr(content, "read"):
        raise TypeError(f"content is bytes, a Path, an open file or a table, not {type(content).__name__}")
    return _file_chunks(cast("Path | BinaryIO", content))


async def _file_chunks(content: Path | BinaryIO) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(content.open, "rb") if isinstance(content, Path) else content
    try:
        while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield chunk
    finally:
        if isinstance(content, Path):
            file.close()


def file_from(found: Mapping[str, Any]) -> LakeFile:
    return LakeFile(
        found["path"],
        found.get("size_bytes", 0),
        found.get("checksum", ""),
        float(found.get("mtime", 0)),
        found.get("content_type", ""),
        found.get("metadata") or {},
        found.get("physical_address", ""),
    )


def commit_from(found: Mapping[str, Any]) -> Commit:
    return Commit(
        found["id"],
        tuple(found["parents"]),
        found["message"],
        found["committer"],
        float(found["creation_date"]),
        found["metadata"],
        found["meta_range_id"],
        found["generation"],
    )
