"""The lake as a file system of fsspec: `lake://repository@ref/path`, for pandas, Polars, PyArrow, Dask and DuckDB.

    pandas.read_parquet("lake://shop@main/orders.parquet")
    fsspec.open("lake://shop@main/prices.csv", "wb")

fsspec finds it by its entry point. Options: `endpoint` (the server's URL), `access_key_id`, `secret_access_key`.
Options that are left out are found as on the command line. Folders are prefixes: they exist while an object lies below
them. A written file appears when it is closed, whole or not at all; files of an fsspec transaction
(`with fs.transaction:`) when the block ends. Written files are uncommitted: `Branch.commit` commits them.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any, Final, cast

from penstock.kernel.errors import NotFound, PreconditionFailed
from penstock.kernel.extras import extra
from penstock.lake.client.lake import LakeUrl, parse_lake_url
from penstock.lake.client.lake_blocking import Branch, Lake, Ref
from penstock.lake.client.lake_place import LakePlace, find_lake
from penstock.lake.client.lake_repository import LakeFile

with extra("tables", "a lake:// file system"):
    from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

__all__ = ["LakeFileSystem"]

BLOCK_BYTES: Final = 5 << 20
IN_MEMORY_BYTES: Final = 32 << 20  # of a file being written; the rest goes to a temporary file


class LakeFileSystem(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A lake's server, as a file system. Paths are `repository@ref/path`."""

    protocol = "lake"
    root_marker = ""

    def __init__(
        self,
        endpoint: str | None = None,
        access_key_id: str | None = None,
        secret_access_key: str | None = None,
        *,
        place: LakePlace | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._lake = Lake(place or find_lake(endpoint, access_key_id, secret_access_key))
        weakref.finalize(self, _close_soon, self._lake)

    # looking

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List the objects and folders directly below a path; or the object itself."""
        target = self._url(path)
        prefix = f"{target.path.rstrip('/')}/" if target.path.strip("/") else ""
        with _os_errors(path):
            found = [self._info(target, each) for each in self._ref(target).list(prefix, delimiter="/")]
            if not found and target.path:
                found = [self._info(target, self._ref(target).stat(target.path))]
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        target = self._url(path)
        with _os_errors(path):
            if target.path.strip("/"):
                try:
                    return self._info(target, self._ref(target).stat(target.path))
                except NotFound as error:
                    if error.details.get("kind", "object") != "object":
                        raise
                below = f"{target.path.rstrip('/')}/"
                if not list(self._ref(target).list(below, limit=1)):
                    raise NotFound(f"there is nothing under {path}", kind="object")
            else:
                self._ref(target).head()
        return {"name": self._strip_protocol(path), "size": 0, "type": "directory"}

    def find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **options: Any
    ) -> Any:
        """Everything below a path, by one list instead of one for each folder."""
        if maxdepth is not None or withdirs:
            return super().find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **options)
        target = self._url(path)
        prefix = f"{target.path.rstrip('/')}/" if target.path.strip("/") else ""
        with _os_errors(path):
            found = [self._info(target, each) for each in self._ref(target).list(prefix)]
            if not found and target.path and self.isfile(path):
                found = [self.info(path)]
        return {each["name"]: each for each in found} if detail else [each["name"] for each in found]

    def checksum(self, path: str) -> str:
        return cast("str", self.info(path).get("etag", ""))

    ukey = checksum

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], UTC)

    # reading

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        target = self._url(path)
        first, last = start or 0, end
        if first < 0 or (last is not None and last < 0):
            size = self.info(path)["size"]  # from the end
            first = first if first >= 0 else max(0, first + size)
            last = last if last is None or last >= 0 else last + size
        with _os_errors(path):
            return self._ref(target).read(target.path, first, last)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> "LakeFileHandle":
        if mode not in ("rb", "wb", "xb"):
            raise NotImplementedError(f"mode {mode}: objects are read, or written whole (rb, wb, xb)")
        return LakeFileHandle(
            self,
            path,
            mode,
            block_size or BLOCK_BYTES,
            autocommit=autocommit,
            cache_options=cache_options,
            **options,
        )

    # writing

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self._put(path, value, if_absent=mode == "create")

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **_: Any) -> None:
        if not Path(lpath).is_dir():  # folders need not be made
            self._put(rpath, Path(lpath), if_absent=mode == "create")

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Within a repository no byte is copied."""
        source, target = self._url(path1), self._url(path2)
        if self.isdir(path1):
            return
        if source.repository != target.repository:
            self._put(path2, self.cat_file(path1))
            return
        with _os_errors(path1):
            self._branch(target).copy(source.path, target.path, ref=source.ref)

    def mv_file(self, path1: str, path2: str, **_: Any) -> None:
        self.cp_file(path1, path2)
        self.rm_file(path1)

    def rm_file(self, path: str) -> None:
        self._remove(path, [self._url(path).path])

    _rm = rm_file

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        paths = path if isinstance(path, list) else [path]
        for each in paths:
            target = self._url(each)
            if self.isfile(each):
                self._remove(each, [target.path])
            elif not recursive:
                raise IsADirectoryError(each)
            else:
                self._remove(each, [self._url(name).path for name in self.find(each, maxdepth=maxdepth)])

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Folders need not be made."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Folders need not be made."""

    def rmdir(self, path: str) -> None:
        if self.exists(path) and self.ls(path):
            raise OSError(f"{path} is not empty")

    def _put(self, path: str, content: Any, *, if_absent: bool = False) -> None:
        target = self._url(path)
        with _os_errors(path):
            self._branch(target).put(target.path, content, if_absent=if_absent)

    def _remove(self, path: str, paths: list[str]) -> None:
        with _os_errors(path):
            self._branch(self._url(path)).remove(paths)

    # names

    def _url(self, path: str) -> LakeUrl:
        return parse_lake_url(f"lake://{self._strip_protocol(path)}")

    def _ref(self, url: LakeUrl) -> Ref:
        return self._lake.repository(url.repository).ref(url.ref)

    def _branch(self, url: LakeUrl) -> Branch:
        return self._lake.repository(url.repository).branch(url.ref)

    @staticmethod
    def _info(url: LakeUrl, found: LakeFile) -> dict[str, Any]:
        name = f"{url.repository}@{url.ref}/{found.path}"
        if found.is_folder:
            return {"name": name.rstrip("/"), "size": 0, "type": "directory"}
        return {
            "name": name,
            "size": found.size,
            "type": "file",
            "etag": found.etag,
            "mtime": found.modified_at,
            "content_type": found.content_type,
            "metadata": found.metadata,
        }


class LakeFileHandle(AbstractBufferedFile):  # type: ignore[misc]  # fsspec has no types
    """A file opened for reading (by ranges) or for writing (gathered, and put as one object)."""

    fs: LakeFileSystem

    def __init__(self, fs: LakeFileSystem, path: str, mode: str, block_size: int, **options: Any) -> None:
        self._gathered: SpooledTemporaryFile[bytes] | None = None
        super().__init__(fs, path, mode, block_size, **options)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.fs.cat_file(self.path, start, end)

    def _initiate_upload(self) -> None:
        self._gathered = SpooledTemporaryFile(IN_MEMORY_BYTES)  # noqa: SIM115  # closed when it was put

    def _upload_chunk(self, final: bool = False) -> bool:
        assert self._gathered is not None
        self.buffer.seek(0)
        self._gathered.write(self.buffer.read())
        if final and self.autocommit:
            self.commit()
        return True

    def commit(self) -> None:
        """Put the gathered bytes."""
        if self._gathered is not None:
            self._gathered.seek(0)
            try:
                self.fs._put(self.path, self._gathered, if_absent="x" in self.mode)
            finally:
                self.discard()

    def discard(self) -> None:
        """Drop the gathered bytes."""
        if self._gathered is not None:
            self._gathered.close()
            self._gathered = None


def _close_soon(lake: Lake) -> None:
    """Close the connections of a file system that is gone, from any thread: fsspec never closes one."""
    lake.close_soon()


@contextmanager
def _os_errors(path: str) -> Iterator[None]:
    """Turn Penstock errors into those of Python's file functions."""
    try:
        yield
    except NotFound as error:
        raise FileNotFoundError(f"{path}: {error.message}") from error
    except PreconditionFailed as error:
        raise FileExistsError(f"{path}: {error.message}") from error
