"""Object stores of a world, in memory: what every store of `plumbing/objects` does, and what each may fail with.

Faults, as `plumbing/objects/port.py` allows them: away and slow; `ObjectStoreFailed` with each `written`; a listing
that lags (the port says that objects which come and go meanwhile may or may not be listed); a damaged object.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from penstock.kernel.errors import (
    AlreadyClosed,
    InvalidArgument,
    NotFound,
    ObjectStoreFailed,
    PenstockError,
    PreconditionFailed,
    Written,
)
from penstock.plumbing.objects.arguments import (
    check_after,
    check_condition,
    check_expires,
    check_get_size,
    check_many,
    check_range,
    check_ranges,
    check_start,
    cut_ranges,
    put_view_of,
    put_views_of,
    view_of,
)
from penstock.plumbing.objects.keys import check_key, check_prefix
from penstock.plumbing.objects.listing import folder_pages
from penstock.plumbing.objects.port import (
    Buffer,
    ETag,
    ObjectMeta,
    ObjectPage,
    ObjectReader,
    ObjectWriter,
    SignMethod,
    StoredObject,
)
from penstock_lab.world.ports.answers import Awaited

if TYPE_CHECKING:
    from penstock_lab.world.process import Life
    from penstock_lab.world.world import World

__all__ = ["Bucket", "BucketTrouble", "SimulatedObjects"]

DELAY_NS: Final = (200_000, 4_000_000)
CHUNK_BYTES: Final = 64 << 10
PAGE_KEYS_MAX: Final = 7


class BucketTrouble:
    """The faults of a store now."""

    def __init__(self) -> None:
        self.heal()

    def heal(self) -> None:
        self.is_away = False
        self.fails = 0.0  # the chance that a call fails, with `written` drawn
        self.delay_ns = DELAY_NS
        self.listing_lag_ns = 0  # objects younger than this are not listed


class Bucket:
    """What a store holds. It outlives its users."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.trouble = BucketTrouble()
        self.rng = world.random(f"bucket {name}")
        self.objects: dict[str, tuple[bytes, ObjectMeta, int]] = {}
        self._versions = 0

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        there = self.objects.get(key)
        if if_absent and there is not None:
            raise PreconditionFailed(f"put {key!r}: there is an object already", written=Written.NO, key=key)
        if if_match is not None and (there is None or there[1].etag != if_match):
            raise PreconditionFailed(f"put {key!r}: the object is another one", written=Written.NO, key=key)
        self._versions += 1
        etag = ETag(f"{self._versions}-{blake2b(data, digest_size=4).hexdigest()}")
        world = self.world
        modified = datetime.fromtimestamp((world.epoch_ns + world.now_ns) // 1000 / 1e6, UTC)
        self.objects[key] = (data, ObjectMeta(key, len(data), etag, modified), world.now_ns)
        return etag

    def get(self, key: str) -> tuple[bytes, ObjectMeta, int]:
        there = self.objects.get(key)
        if there is None:
            raise NotFound(f"no object {key!r}", key=key)
        return there

    def take(self, what: str, do: Callable[[], Any]) -> tuple[Any, PenstockError | None]:
        """Do a call as one step, with the faults of now: return its result or its error."""
        trouble, written = self.trouble, None
        if trouble.is_away:
            return None, ObjectStoreFailed(f"{what}: the store is away", written=Written.NO)
        if self.rng.random() < trouble.fails:
            written = self.rng.choice((Written.NO, Written.UNKNOWN))
        failed = ObjectStoreFailed(f"{what}: the store failed", written=written) if written is not None else None
        if written is Written.NO:
            return None, failed
        try:
            return do(), failed
        except PenstockError as error:
            return None, failed or error

    def listed(self) -> list[ObjectMeta]:
        newest = self.world.now_ns - self.trouble.listing_lag_ns
        return [self.objects[key][1] for key in sorted(self.objects) if self.objects[key][2] <= newest]

    def damage(self, key: str, at: int) -> None:
        data, meta, time = self.objects[key]
        self.objects[key] = (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], meta, time)
        self.world.note("store", "objects", f"damages {key} at {at}")


class SimulatedObjects:
    """An `ObjectStore` of one process."""

    def __init__(self, bucket: Bucket, process: "Life") -> None:
        self.bucket = bucket
        self._process = process
        self._is_closed = False

    async def put(self, key: str, data: Buffer, *, if_absent: bool = False, if_match: ETag | None = None) -> ETag:
        check_key(key)
        content = bytes(put_view_of(data))
        check_condition(if_absent=if_absent, if_match=if_match)
        put = partial(self.bucket.put, key, content, if_absent=if_absent, if_match=if_match)
        etag: ETag = await self._do(f"put {key}", put, content)
        return etag

    async def put_many(self, objects: Mapping[str, Buffer]) -> None:
        for key, view in put_views_of(objects).items():
            await self.put(key, view)

    async def get(self, key: str, start: int = 0, end: int | None = None) -> StoredObject:
        check_key(key)
        check_range(start, end)

        def get() -> StoredObject:
            data, meta, _ = self.bucket.get(key)
            check_start(key, meta.size, start)
            check_get_size(key, (meta.size if end is None else min(end, meta.size)) - start)
            return StoredObject(meta, memoryview(data)[start:end])

        found: StoredObject = await self._do(f"get {key}", get)
        return found

    async def get_many(self, keys: Sequence[str]) -> tuple[StoredObject, ...]:
        check_many(keys)
        return tuple([await self.get(key) for key in keys])

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> tuple[memoryview, ...]:
        check_key(key)
        check_ranges(key, ranges)

        def get() -> tuple[memoryview, ...]:
            data, meta, _ = self.bucket.get(key)
            return tuple(memoryview(data)[start:end] for start, end in cut_ranges(key, meta.size, ranges))

        found: tuple[memoryview, ...] = await self._do(f"get ranges of {key}", get)
        return found

    async def head(self, key: str) -> ObjectMeta:
        check_key(key)
        meta: ObjectMeta = await self._do(f"head {key}", lambda: self.bucket.get(key)[1])
        return meta

    async def delete(self, *keys: str) -> None:
        for key in keys:
            check_key(key)
        await self._do(f"delete {keys[:3]}", lambda: [self.bucket.objects.pop(key, None) for key in keys])

    async def copy(self, source: str, target: str) -> None:
        check_key(source)
        check_key(target)
        await self._do(f"copy {source} to {target}", lambda: self.bucket.put(target, self.bucket.get(source)[0]))

    @asynccontextmanager
    async def writer(self, key: str) -> AsyncIterator[ObjectWriter]:
        check_key(key)
        self._check_open()
        writer = _Writer(self, key)
        yield writer
        if not writer.is_aborted:
            content = b"".join(writer.parts)
            await self._do(f"put {key}", lambda: self.bucket.put(key, content), content)

    @asynccontextmanager
    async def reader(self, key: str, start: int = 0, end: int | None = None) -> AsyncIterator[ObjectReader]:
        check_key(key)
        check_range(start, end)

        def opened() -> _Reader:
            data, meta, _ = self.bucket.get(key)
            check_start(key, meta.size, start)
            return _Reader(self, meta, data[start:end])

        yield await self._do(f"read {key}", opened)

    async def sign(self, method: SignMethod, key: str, expires_s: int) -> str:
        check_key(key)
        check_expires(expires_s)
        raise InvalidArgument("a store in memory signs nothing")

    async def close(self) -> None:
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def list(
        self, prefix: str = "", *, after: str = "", delimiter: Literal["", "/"] = ""
    ) -> AsyncIterator[ObjectPage]:
        check_prefix(prefix)
        check_after(after)
        if delimiter:
            metas = await self._do(f"list {prefix}", self.bucket.listed)
            entries: dict[str, ObjectMeta | None] = {}
            for meta in metas:
                if meta.key.startswith(prefix):
                    name, slash, _ = meta.key[len(prefix) :].partition("/")
                    entries[prefix + name + slash] = None if slash else meta
            for page in folder_pages(entries.items(), after, PAGE_KEYS_MAX):
                yield page
            return
        while True:
            found = await self._do(f"list {prefix} after {after}", self.bucket.listed)
            some = [meta for meta in found if meta.key.startswith(prefix) and meta.key > after][:PAGE_KEYS_MAX]
            if some:
                yield ObjectPage(tuple(some))
            if len(some) < PAGE_KEYS_MAX:
                return
            after = some[-1].key

    def _check_open(self) -> None:
        if self._is_closed:
            raise AlreadyClosed("the store is closed")

    async def _do(self, what: str, do: Callable[[], Any], data: bytes = b"") -> Any:
        """Carry a call to the store and its answer back."""
        self._check_open()
        self._process.note("objects", what, data)
        bucket, answer = self.bucket, Awaited(self._process)

        def arrive() -> None:
            result, error = bucket.take(what, do)
            answer.arrive(result, error, delay_ns=bucket.rng.randint(*bucket.trouble.delay_ns))

        bucket.world.after(bucket.rng.randint(*bucket.trouble.delay_ns), arrive)
        return await answer.future


class _Writer:
    def __init__(self, store: SimulatedObjects, key: str) -> None:
        self.parts: list[bytes] = []
        self.is_aborted = False
        self._store = store
        self._key = key

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    async def write(self, data: Buffer) -> None:
        if self.is_aborted:
            raise AlreadyClosed(f"the writer of {self._key!r} has ended")
        self.parts.append(bytes(view_of(data)))
        await self._store._do(f"write a part of {self._key}", lambda: None)

    async def abort(self) -> None:
        self.is_aborted = True


class _Reader:
    def __init__(self, store: SimulatedObjects, meta: ObjectMeta, data: bytes) -> None:
        self.meta = meta
        self._store = store
        self._data = data

    async def __aiter__(self) -> AsyncIterator[memoryview]:
        for at in range(0, len(self._data), CHUNK_BYTES):
            chunk = self._data[at : at + CHUNK_BYTES]
            yield memoryview(await self._store._do(f"read {self.meta.key} at {at}", partial(bytes, chunk)))
