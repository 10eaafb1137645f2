"""Fragments in object stores: uploaded once under the name their content gives them, listed, read, deleted.

Design: gazette.md §2.4, §2.5. A name says journal, span, sum and codec, so an existing object has exactly the content
to write: it is never replaced, and a second writer has nothing to do. The sum is checked of the bytes read from the
Spool before the object appears. A read compares each byte before it gives it, also in a part of a Fragment:
`plumbing/objects/summed.py` keeps sums of blocks.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

import msgspec

from penstock.journals.records.fragment import OFFSET_MAX, CompressionCodec, Fragment
from penstock.journals.storage.codecs import Compressor, Decompressor, compressor, decompressor
from penstock.journals.storage.content_check import NamedContent, named_damage
from penstock.kernel.errors import InvalidArgument, NotFound, PreconditionFailed, StorageError
from penstock.kernel.ids import Offset
from penstock.plumbing.objects import ObjectMeta, ObjectStore, open_store
from penstock.plumbing.objects.summed import SummedStore
from penstock.plumbing.process.logs import get_logger

__all__ = ["FragmentContent", "FragmentStores", "object_store_url"]

_CHUNK_BYTES: Final = 1 << 20
_PUT_BYTES_MAX: Final = 8 << 20  # of content; longer ones are streamed
_DELETE_KEYS_MAX: Final = 500  # in one call

log = get_logger()


class FragmentContent(Protocol):
    """The bytes of a final fragment on this machine."""

    path: Path

    def read(self, at: int, size: int) -> bytes:
        """Return the bytes from `at`, counted from the begin of the fragment."""
        ...


class FragmentStores:
    """The object stores which journals name in their specs, each opened once. Safe to share between tasks."""

    def __init__(self, open_: Callable[[str], ObjectStore] | None = None) -> None:
        """`open_` opens a store by its URL. The default reaches this machine's network and disk."""
        self._open = open_ or open_store
        self._stores: dict[str, SummedStore] = {}

    def store(self, url: str) -> ObjectStore:
        """The store of a spec's URL. `InvalidArgument` if there can be none."""
        return self.summed(url).store

    def summed(self, url: str) -> SummedStore:
        """The same store, for objects that have sums."""
        store = self._stores.get(url)
        if store is None:
            store = self._stores[url] = SummedStore(self._open(object_store_url(url)))
        return store

    async def close(self) -> None:
        stores, self._stores = self._stores, {}
        for summed in stores.values():
            await summed.store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Storing

    async def upload(self, fragment: Fragment, file: FragmentContent, url: str) -> Fragment:
        """Store a final Fragment, unless it is stored already; return it with its store and time."""
        assert fragment.length
        store, key = self.store(url), fragment.content_path
        found = await _head(store, key)
        if found is None:
            await (_put if fragment.length <= _PUT_BYTES_MAX else _stream)(self.summed(url), fragment, file)
            found = await store.head(key)
        if fragment.codec is CompressionCodec.NONE and found.size != fragment.length:
            raise StorageError(f"{url}{key} has {found.size} bytes, but its name says {fragment.length}")
        return _stored(fragment, url, found)

    async def delete(self, fragments: Iterable[Fragment]) -> None:
        """Remove objects. A fragment that is gone already is no error."""
        by_store: dict[str, list[str]] = {}
        for fragment in fragments:
            by_store.setdefault(fragment.backing_store, []).append(fragment.content_path)
        for url, keys in by_store.items():
            for first in range(0, len(keys), _DELETE_KEYS_MAX):
                await self.summed(url).delete(*keys[first : first + _DELETE_KEYS_MAX])

    # Finding

    async def list(self, journal: str, urls: Sequence[str], *, nested: Iterable[str] = ()) -> list[Fragment]:
        """Return all Fragments of a journal in all its stores.

        `nested` names journals below this one (`a/b/c` below `a/b`): their objects lie there too, and are not ours.
        """
        others = tuple(f"{name}/" for name in nested)
        found: list[Fragment] = []
        for url in urls:
            strangers = 0
            async for page in self.store(url).list(f"{journal}/"):
                for meta in page.objects:
                    if meta.key.startswith(others):
                        continue
                    try:
                        found.append(_stored(Fragment.parse_path(journal, meta.key), url, meta))
                    except InvalidArgument:
                        strangers += 1
            if strangers:
                log.info("objects which are no fragments", journal=journal, store=url, objects=strangers)
        return found

    async def sign(self, fragment: Fragment, expires_s: int) -> str:
        """A URL to read the object without credentials; empty where the store has none."""
        try:
            return await self.store(fragment.backing_store).sign("GET", fragment.content_path, expires_s)
        except InvalidArgument:
            return ""

    # Reading

    async def read(self, fragment: Fragment, begin: Offset, end: Offset) -> AsyncIterator[memoryview]:
        """The content [begin, end) of a stored Fragment. Each byte was compared before it comes.

        A compressed object is read from its start: there is no way into its middle.
        """
        assert fragment.begin <= begin <= end <= fragment.end
        store, key = self.summed(fragment.backing_store), fragment.content_path
        known = NamedContent(fragment)
        if fragment.codec is CompressionCodec.NONE:
            first, behind = begin - fragment.begin, end - fragment.begin
            chunks = store.read(key, first, behind, size=fragment.length, known=known)
        else:
            chunks = _unpacked(store.read(key, 0, OFFSET_MAX, known=known), fragment, begin, end)
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                yield chunk


def object_store_url(url: str) -> str:
    """A store as specs name it, which is as Gazette does, in the words of our object stores.

    >>> object_store_url("s3://bucket/prefix/?region=eu-central-1"), object_store_url("file:///data/")
    ('s3://bucket/prefix?region=eu-central-1', 'file:///data')
    >>> object_store_url("azure://account/container/prefix/")
    'az://container/prefix?account=account'
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    match parts.scheme:
        case "memory":
            return "memory://"
        case "azure" | "azure-ad":
            names = [parts.netloc, *path.strip("/").split("/")]
            account, container, *prefix = names[1:] if parts.scheme == "azure-ad" else names
            return urlunsplit(("az", container, "/".join(prefix), f"account={account}", ""))
        case _:
            return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _stored(fragment: Fragment, url: str, meta: ObjectMeta) -> Fragment:
    return msgspec.structs.replace(fragment, backing_store=url, mod_time=int(meta.modified.timestamp()))


async def _head(store: ObjectStore, key: str) -> ObjectMeta | None:
    try:
        return await store.head(key)
    except NotFound:
        return None


# Uploading


class _Packing:
    """The content of a Spool's file on its way: read, summed and compressed, in a thread."""

    def __init__(self, fragment: Fragment, file: FragmentContent) -> None:
        self._fragment = fragment
        self._file = file
        self._at = 0
        self._sum = hashlib.sha1(usedforsecurity=False)
        self._stream: Compressor = compressor(fragment.codec)

    @property
    def is_done(self) -> bool:
        return self._at == self._fragment.length

    def next(self) -> bytes:
        """Return some more of the object; at its end, the content must have had the right sum."""
        content = self._file.read(self._at, min(_CHUNK_BYTES, self._fragment.length - self._at))
        self._sum.update(content)
        self._at += len(content)
        packed = self._stream.compress(content)
        if not self.is_done:
            return packed
        if self._sum.digest() != self._fragment.sum:
            raise StorageError(f"{self._file.path} is damaged: its content is not that of the fragment")
        return packed + self._stream.finish()

    def all(self) -> bytes:
        parts: list[bytes] = []
        while not self.is_done:
            parts.append(self.next())
        return b"".join(parts)


async def _put(store: SummedStore, fragment: Fragment, file: FragmentContent) -> None:
    data = await asyncio.to_thread(_Packing(fragment, file).all)
    with contextlib.suppress(PreconditionFailed):  # another broker was faster, with the same content
        await store.put(fragment.content_path, data, if_absent=True, digest=fragment.sum)


async def _stream(store: SummedStore, fragment: Fragment, file: FragmentContent) -> None:
    packing = _Packing(fragment, file)
    async with store.writer(fragment.content_path, digest=fragment.sum) as writer:
        while not packing.is_done:
            packed = await asyncio.to_thread(packing.next)
            if packed:
                await writer.write(packed)


# Reading


async def _unpacked(
    chunks: AsyncGenerator[memoryview, None], fragment: Fragment, begin: Offset, end: Offset
) -> AsyncGenerator[memoryview, None]:
    stream = decompressor(fragment.codec)
    at = fragment.begin  # of the next piece
    with named_damage(fragment):
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                for piece in await asyncio.to_thread(_pieces, stream, chunk, fragment.end - at):
                    wanted = memoryview(piece)[max(0, begin - at) : max(0, end - at)]
                    at = Offset(at + len(piece))
                    if wanted:
                        yield wanted
                if at >= end and end < fragment.end:
                    return
        stream.finish()
        if at != fragment.end:
            raise StorageError("it has less content than its name says")


def _pieces(stream: Decompressor, chunk: memoryview, room: int) -> Sequence[bytes]:
    """Return the decompressed pieces of a chunk, but not more than the Fragment can have."""
    pieces: list[Any] = []
    for piece in stream.decompress(chunk):
        room -= len(piece)
        if room < 0:
            raise StorageError("it has more content than its name says")
        pieces.append(piece)
    return pieces
