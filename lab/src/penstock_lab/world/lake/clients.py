"""The clients of the lake's world: the shipped REST client, and signed S3 requests.

A client process runs writers of some kinds. Each asks a member at random, and notes the request and the answer. A read
is judged at once, by the ledger.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from typing import TYPE_CHECKING, Any, Final

from penstock.kernel.errors import (
    DataDamaged,
    DataMissing,
    MergeConflict,
    NotFound,
    PenstockError,
    PreconditionFailed,
    Written,
)
from penstock.lake.client.lake_place import LakePlace
from penstock.lake.client.lake_repository import AsyncLake, AsyncRepository
from penstock_lab.world.lake.ledger import ABSENT, LakeLedger, LakeWrite, ToldCommit
from penstock_lab.world.lake.s3 import S3Answer, S3Client
from penstock_lab.world.process import Life

if TYPE_CHECKING:
    from penstock_lab.world.lake.site import LakeSite

__all__ = ["KEY", "SECRET", "LakeVisitor", "lake_program"]

KEY: Final = "AKIAWORLD"
SECRET: Final = "a secret of the world"
ONCE: Final = 6  # paths that several clients try to create
LOST: Final = (DataMissing, DataDamaged)


class LakeVisitor:
    """One client process: its connections to every member, and its notes."""

    def __init__(self, site: "LakeSite", life: Life) -> None:
        self.site = site
        self.life = life
        self.ledger: LakeLedger = site.ledger
        self.rng: Random = life.rng
        self._lakes: dict[str, AsyncLake] = {}
        self._s3s: dict[str, S3Client] = {}

    def repository(self, name: str) -> AsyncRepository:
        """Return a repository through some member."""
        url = self.rng.choice(self.site.urls)
        if url not in self._lakes:
            self._lakes[url] = AsyncLake(LakePlace(url, KEY, SECRET), self.life.ports)
        return self._lakes[url].repository(name)

    @property
    def s3(self) -> S3Client:
        url = self.rng.choice(self.site.urls)
        if url not in self._s3s:
            self._s3s[url] = S3Client(url, KEY, SECRET, self.life.clock)
        return self._s3s[url]

    @property
    def now_ns(self) -> int:
        return self.life.world.now_ns

    @asynccontextmanager
    async def patience(self) -> AsyncIterator[None]:
        async with asyncio.timeout(self.rng.choice(self.site.settings.timeouts_s)):
            yield

    @contextmanager
    def told(self, write: LakeWrite) -> Iterator[None]:
        """Note the answer to a change."""
        try:
            yield
            self._settle(write, "acknowledged")
        except PenstockError as error:
            self.lost(error, f"a change of {write.path}")
            self._settle(write, "refused" if error.written is Written.NO else "unknown", str(error))
        except TimeoutError:
            self._settle(write, "unknown", "time-out")

    def _settle(self, write: LakeWrite, fate: str, why: str = "") -> None:
        write.fate, write.ended_ns = fate, self.now_ns
        self.life.note("client", f"{fate} {write.number}")
        self.life.world.tell(self.life.name, f"client   {fate} {write.number}, {write.branch}/{write.path} {why}")

    def told_s3(self, write: LakeWrite, answer: S3Answer) -> None:
        """Note the gateway's answer. A 4xx means that the change was not made."""
        fate = "acknowledged" if answer.is_ok else "refused" if 400 <= answer.status < 500 else "unknown"
        if b"DataMissing" in answer.body or b"DataDamaged" in answer.body:
            self.life.world.fail(f"E5: S3 lost bytes: {answer.body!r}")
        self._settle(write, fate, f"{answer.status} {answer.body[:200]!r}")

    def lost(self, error: BaseException, what: str) -> None:
        """Fail the world if bytes of the lake are gone."""
        if isinstance(error, LOST) and not self.site.is_damaged:
            self.life.world.fail(f"E5: {what}: {error}")

    async def judge_read(self, repository: str, branch: str, path: str) -> None:
        """Read a path of a branch, by REST or S3, and compare the bytes with the ledger."""
        began_ns, found = self.now_ns, ABSENT
        is_s3 = self.rng.random() < 0.3
        try:
            async with self.patience():
                if is_s3:
                    answer = await self.s3.ask("GET", repository, f"{branch}/{path}")
                    if not answer.is_ok and answer.status != 404:
                        return
                    content = answer.body if answer.is_ok else None
                else:
                    content = await self.repository(repository).branch(branch).read(path)
        except NotFound as error:
            if error.details.get("kind") not in ("object", None):
                self._judge_missing(repository, branch, error)
                return
            content = None
        except (PenstockError, TimeoutError) as error:
            self.lost(error, f"a read of {branch}/{path}")
            return
        if content is not None:
            from hashlib import md5

            found = md5(content, usedforsecurity=False).hexdigest()
        self.ledger.reads += 1
        allowed = self.ledger.allowed(repository, branch, path, began_ns, self.now_ns)
        if found not in allowed:
            by = "S3" if is_s3 else "REST"
            self.life.world.fail(
                f"E6: {by} shows {content!r:.80} at {repository}/{branch}/{path}; {self.expected(allowed)}"
            )

    def _judge_missing(self, repository: str, branch: str, error: PenstockError) -> None:
        if branch in self.ledger.names[repository]:
            self.life.world.fail(f"E6: branch {branch} was made, and a read says: {error}")

    def expected(self, allowed: set[str]) -> str:
        shown = [f"{self.ledger.by_sum[each].content!r:.60}" if each else "nothing" for each in sorted(allowed)]
        return f"expected {' or '.join(shown)}"

    async def commit(self, repository: str, branch: str, message: str) -> str:
        """Commit, and note it; return the id."""
        began_ns = self.now_ns
        async with self.patience():
            made = await self.repository(repository).branch(branch).commit(message)
        self._told_commit(repository, branch, made.id, began_ns)
        return made.id

    def _told_commit(self, repository: str, branch: str, id_: str, began_ns: int, merged: str = "") -> None:
        self.life.note("client", f"told of commit {id_}")
        self.life.world.tell(self.life.name, f"client   commit {id_} of {branch}")
        self.ledger.commits.append(ToldCommit(repository, branch, id_, began_ns, self.now_ns, merged))

    async def merge(self, repository: str, source: str, into: str) -> None:
        began_ns = self.now_ns
        async with self.patience():
            made = await self.repository(repository).merge(source, into)
        self._told_commit(repository, into, made.id, began_ns, source)

    async def close(self) -> None:
        for lake in self._lakes.values():
            await lake.close()
        for s3 in self._s3s.values():
            await s3.close()


def lake_program(site: "LakeSite", number: int) -> Callable[[Life], Any]:
    """Return the program of a client."""

    async def main(life: Life) -> None:
        visitor = LakeVisitor(site, life)
        work = [_writes, _s3_writes, _names, _once, _merges, _collects]
        tasks = [
            asyncio.create_task(
                work[(number + each) % len(work)](visitor, f"w{number}-{each}-{life.life}"),
                name=f"writer {number}-{each}",
            )
            for each in range(site.settings.writers)
        ]
        await asyncio.gather(*tasks)

    return main


async def _pause(visitor: LakeVisitor) -> None:
    await asyncio.sleep(visitor.rng.uniform(0, 2 * visitor.site.settings.pause_s))


class _Paths:
    """The paths of one writer in one branch. One whose fate is unknown is left alone."""

    def __init__(self, visitor: LakeVisitor, name: str) -> None:
        self._visitor = visitor
        self._name = name
        self._count = 0
        self.live: list[str] = []

    def next(self) -> str:
        rng = self._visitor.rng
        if self.live and rng.random() < 0.5:
            return rng.choice(self.live)
        self._count += 1
        return f"{self._name}/{self._count:03d}"

    def settled(self, write: LakeWrite) -> None:
        known = write.fate in ("acknowledged", "refused")
        if known and write.path not in self.live:
            self.live.append(write.path)
        elif not known and write.path in self.live:
            self.live.remove(write.path)


async def _writes(visitor: LakeVisitor, name: str) -> None:
    """Put, delete, read and commit by REST."""
    site, rng = visitor.site, visitor.rng
    repository, branch = site.place(rng)
    paths = _Paths(visitor, name)
    while not site.is_written:
        path = paths.next()
        is_delete = path in paths.live and rng.random() < 0.2
        size = None if is_delete else rng.randint(*site.settings.sizes)
        write = visitor.ledger.write(repository, branch, path, size, visitor.now_ns)
        target = visitor.repository(repository).branch(branch)
        with visitor.told(write):
            async with visitor.patience():
                if write.content is None:
                    await target.remove([path])
                else:
                    await target.put(path, write.content)
        paths.settled(write)
        await _pause(visitor)
        if paths.live and rng.random() < 0.4:
            await visitor.judge_read(repository, branch, rng.choice(paths.live))
        if rng.random() < 0.15:
            with _ignored(visitor):
                await visitor.commit(repository, branch, f"by {name}")


async def _s3_writes(visitor: LakeVisitor, name: str) -> None:
    """Put, delete and read by S3, also in parts."""
    site, rng = visitor.site, visitor.rng
    repository, branch = site.place(rng)
    paths = _Paths(visitor, f"s3-{name}")
    while not site.is_written:
        path = paths.next()
        is_delete = path in paths.live and rng.random() < 0.2
        size = None if is_delete else rng.randint(*site.settings.sizes)
        if size is not None and rng.random() < 0.2:
            await _in_parts(visitor, repository, branch, f"{path}-parts", size)
            continue
        write = visitor.ledger.write(repository, branch, path, size, visitor.now_ns)
        with visitor.told(write):
            async with visitor.patience():
                method, content = ("DELETE", b"") if write.content is None else ("PUT", write.content)
                answer = await visitor.s3.ask(method, repository, f"{branch}/{path}", content)
        if write.fate == "acknowledged":
            visitor.told_s3(write, answer)
        paths.settled(write)
        await _pause(visitor)
        if paths.live and rng.random() < 0.4:
            await visitor.judge_read(repository, branch, rng.choice(paths.live))


async def _in_parts(visitor: LakeVisitor, repository: str, branch: str, path: str, size: int) -> None:
    """Upload an object in one part: as the last part, it may be small."""
    key = f"{branch}/{path}"
    write = visitor.ledger.write(repository, branch, path, size, visitor.now_ns)
    assert write.content is not None
    with visitor.told(write):
        async with visitor.patience():
            answer = await visitor.s3.ask("POST", repository, key, query={"uploads": ""})
            if not answer.is_ok:
                raise PreconditionFailed(f"no upload: {answer.status}")
            id_ = answer.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
            query = {"partNumber": "1", "uploadId": id_}
            answer = await visitor.s3.ask("PUT", repository, key, write.content, query=query)
            if not answer.is_ok:
                raise PreconditionFailed(f"no part: {answer.status}")
            etag = answer.headers["etag"]
            part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
            body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>"
            answer = await visitor.s3.ask("POST", repository, key, body.encode(), query={"uploadId": id_})
    if write.fate == "acknowledged":
        if b"<Error>" in answer.body:
            answer.status = 500
        visitor.told_s3(write, answer)


@contextmanager
def _ignored(visitor: LakeVisitor) -> Iterator[None]:
    """Ignore an error of a call whose outcome the ledger does not need."""
    try:
        yield
    except (PenstockError, TimeoutError) as error:
        visitor.lost(error, "a call")
        visitor.life.world.tell(visitor.life.name, f"client   {error!r}")
        if isinstance(error, MergeConflict):
            visitor.life.world.fail(f"E6: a conflict in paths that one branch alone changes: {error}")


async def _names(visitor: LakeVisitor, name: str) -> None:
    """Make branches and tags, which every list shows from then on, whichever member is asked."""
    site, rng = visitor.site, visitor.rng
    repository, count = site.repositories[0], 0
    while not site.is_written:
        count += 1
        made = f"n-{name}-{count}"
        with _ignored(visitor):
            async with visitor.patience():
                if rng.random() < 0.5:
                    await visitor.repository(repository).create_branch(made, "main")
                else:
                    await visitor.repository(repository).tag(made, "main")
            visitor.ledger.names[repository].add(made)
        with _ignored(visitor):
            expected = set(visitor.ledger.names[repository])
            async with visitor.patience():
                asked = visitor.repository(repository)
                shown = {*await asked.branches(), *await asked.tags()}
            if not expected <= shown:
                missing = sorted(expected - shown)
                visitor.life.world.fail(f"E6: a list leaves out {missing[0]}, which was acknowledged before")
        await _pause(visitor)
        await _pause(visitor)


async def _once(visitor: LakeVisitor, name: str) -> None:
    """Create objects only where there is none, together with others."""
    site, rng = visitor.site, visitor.rng
    repository = site.repositories[0]
    while not site.is_written:
        path = f"once/{rng.randint(1, ONCE)}"
        write = visitor.ledger.write(repository, "main", path, 80, visitor.now_ns, is_once=True)
        assert write.content is not None
        if rng.random() < 0.5:
            with visitor.told(write):
                async with visitor.patience():
                    await visitor.repository(repository).branch("main").put(path, write.content, if_absent=True)
        else:
            with visitor.told(write):
                async with visitor.patience():
                    answer = await visitor.s3.ask("PUT", repository, f"main/{path}", write.content, if_none_match="*")
            if write.fate == "acknowledged":
                visitor.told_s3(write, answer)
        await _pause(visitor)
        await _pause(visitor)


async def _merges(visitor: LakeVisitor, name: str) -> None:
    """Merge working branches into main."""
    site, rng = visitor.site, visitor.rng
    while not site.is_written:
        await _pause(visitor)
        repository, branch = site.place(rng)
        with _ignored(visitor):
            if branch == "main":
                await visitor.commit(repository, "main", f"by {name}")
            else:
                await visitor.commit(repository, branch, f"by {name}")
                await visitor.merge(repository, branch, "main")


async def _collects(visitor: LakeVisitor, name: str) -> None:
    """Collect garbage without a grace, so that the fences alone protect objects in use."""
    site, rng = visitor.site, visitor.rng
    while not site.is_written:
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        repository = rng.choice(site.repositories)
        with _ignored(visitor):
            async with visitor.patience():
                asked = visitor.repository(repository)
                api = f"/repositories/{repository}/gc"
                work = await asked.api.call("POST", api, {"grace_seconds": 0})
                for _ in range(50):
                    found = await asked.api.call("GET", f"{api}/{work['id']}")
                    if found["completed"]:
                        break
                    await asyncio.sleep(0.1)
