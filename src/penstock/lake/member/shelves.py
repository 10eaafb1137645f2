"""Where each repository's objects are: its trees, its commits, its data, below one storage namespace.

A storage namespace is what lakeFS's clients name at creation, `local://shop` or `s3://bucket/prefix/shop`: a folder of
the one store this lake has. Data lies at `<folder>/data/<link epoch>/<name>`, so that the garbage collector
reads an object's epoch from its key (lake.md L15).
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from penstock.kernel.errors import DataMissing, InvalidArgument, NotFound
from penstock.lake.core.staging.branch import Repository
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.namespaces import is_canonical
from penstock.lake.member.committed import TreeOptions, Trees
from penstock.lake.member.history import History
from penstock.plumbing.objects import ObjectStore
from penstock.plumbing.objects.keys import check_key
from penstock.plumbing.objects.port import StoredObject
from penstock.plumbing.objects.summed import SummedStore
from penstock.plumbing.ports.ports import Ports, system_ports

__all__ = ["LakeShelf", "Shelves", "lost_if_absent", "namespace_prefix"]

RESERVED: Final = ("_penstock", "scratch")


def namespace_prefix(store_url: str) -> str:
    """Return the beginning of all storage namespaces in a store.

    >>> namespace_prefix("file:///data/objects"), namespace_prefix("s3://shop/lake?region=eu-central-1")
    ('local://', 's3://shop/lake/')
    """
    url = store_url.partition("?")[0]
    if url.startswith("file:"):
        return "local://"
    return "mem://" if url.startswith("memory:") else url.rstrip("/") + "/"


def key_below(address: str, prefix: str) -> str:
    """The key of an address in the store whose namespaces begin so; empty if there is none, or it is reserved."""
    key = address[len(prefix) :] if address.startswith(prefix) else ""
    return "" if key.partition("/")[0] in RESERVED else key


class _NamedObjects:
    """A store whose objects are named by others: a missing one is lost, not absent (D9)."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: str, start: int = 0, end: int | None = None) -> StoredObject:
        with lost_if_absent():
            return await self._store.get(key, start, end)

    async def get_many(self, keys: Sequence[str]) -> tuple[StoredObject, ...]:
        with lost_if_absent():
            return await self._store.get_many(keys)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        with lost_if_absent():
            return await self._store.get_ranges(key, ranges)


@contextmanager
def lost_if_absent(what: str = "") -> Iterator[None]:
    """Raise `DataMissing` where the store has no object: something names it, so its bytes are lost."""
    try:
        yield
    except NotFound as error:
        named = f"the bytes of {what} are missing" if what else "the store lost data of the lake"
        raise DataMissing(
            f"{named}: {error.message}", next_step="restore the object into the store, under this name"
        ) from None


class LakeShelf:
    """One repository's place in the store."""

    def __init__(
        self, data: SummedStore, prefix: str, storage: str, folder: str, options: TreeOptions, ports: Ports
    ) -> None:
        store = data.store
        self.store = store
        self.data = data  # the same store, for the bytes of objects
        self.ports = ports
        self.prefix = prefix
        self.storage = storage.rstrip("/")
        self.folder = folder  # ends in "/"
        self.trees = Trees(cast("ObjectStore", _NamedObjects(store)), folder, options)
        self.history = History(store, folder)

    def full_address(self, entry: Entry) -> str:
        """Return where an entry's bytes are, in the form for foreign clients."""
        return entry.address if "://" in entry.address else f"{self.storage}/{entry.address}"

    def relative(self, address: str) -> str | None:
        """An address below this namespace as entries hold it; None if it lies elsewhere."""
        inside = self.storage + "/"
        return address[len(inside) :] if address.startswith(inside) else None

    def key(self, entry: Entry) -> str:
        """The store's key of an entry's bytes; empty if they are not in the lake's store."""
        return self.folder + entry.address if "://" not in entry.address else key_below(entry.address, self.prefix)


class Shelves:
    """The shelves of all repositories, made when first asked for."""

    def __init__(
        self, store: ObjectStore, store_url: str, options: TreeOptions | None = None, *, ports: Ports | None = None
    ) -> None:
        self.store = store
        self.ports = ports or system_ports()
        self.data = SummedStore(store)
        self.prefix = namespace_prefix(store_url)
        self._options = options or TreeOptions()
        self._shelves: dict[str, LakeShelf] = {}

    def folder_of(self, storage: str) -> str:
        """The folder a storage namespace stands for; `InvalidArgument` if it is no namespace of this store."""
        if not storage.startswith(self.prefix):
            raise InvalidArgument(f"storage namespace {storage[:200]!r} must begin with {self.prefix}")
        folder = storage[len(self.prefix) :].strip("/")
        if not folder or folder.partition("/")[0] in RESERVED:
            raise InvalidArgument(f"storage namespace {storage[:200]!r} is no folder of its own below {self.prefix}")
        return check_key(folder) + "/"

    def canonical(self, storage: str) -> str:
        """The one spelling of a new repository's namespace; `InvalidArgument` if it cannot be one."""
        self.folder_of(storage)
        spelled = storage.rstrip("/")
        if not is_canonical(spelled):
            raise InvalidArgument(
                f"storage namespace {storage[:200]!r}: expected {self.prefix}FOLDER, no part of it empty, . or ..",
                next_step=f"name a folder of the store, like {self.prefix}shop",
            )
        return spelled

    def of(self, repository: Repository) -> LakeShelf:
        shelf = self._shelves.get(repository.instance)
        if shelf is None:
            folder = self.folder_of(repository.storage)
            shelf = self._shelves[repository.instance] = LakeShelf(
                self.data, self.prefix, repository.storage, folder, self._options, self.ports
            )
        return shelf

    def key_of(self, address: str) -> str:
        """The store's key of a full address; empty if it is not in the store, or not for everybody."""
        return key_below(address, self.prefix)

    async def close(self) -> None:
        await asyncio.gather(*(shelf.trees.files.close() for shelf in self._shelves.values()))
