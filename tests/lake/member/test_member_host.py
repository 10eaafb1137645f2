"""A member's shell: who gives up is cancelled, who cannot go on says so, what fails outside is told to who waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from penstock.kernel.effects import Effect
from penstock.kernel.errors import (
    Compacted,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    MergeConflict,
    ObjectStoreFailed,
    ShuttingDown,
    Unavailable,
)
from penstock.lake.core.staging.entry import Entry
from penstock.lake.core.staging.proposing.member import Member
from penstock.lake.core.staging.proposing.port import (
    Build,
    BuildMove,
    Built,
    Envelope,
    LookedUp,
    LookUp,
    Move,
    Rebuild,
    Write,
)
from penstock.lake.core.staging.records import (
    Cancel,
    CommitId,
    CreateRepository,
    Delete,
    Instance,
    Put,
    Request,
    Row,
    StagingToken,
    Version,
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.core.staging.tables import RULES
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.member_host import MemberHost
from penstock.lake.member.queue import RECORD_BYTES_MAX, START, QueueBatch
from penstock.plumbing.objects import open_store
from penstock.plumbing.process.defects import DEFECTS


class LocalQueue:
    """A queue in memory, for one member: it can be held back, and it can forget."""

    checkpoint_span = 4_000

    def __init__(self) -> None:
        self.flows = asyncio.Event()
        self.flows.set()
        self.failure: Exception | None = None
        self._put: asyncio.Queue[Envelope] = asyncio.Queue()
        self.seen: list[Envelope] = []

    def put(self, envelope: Envelope) -> None:
        self._put.put_nowait(envelope)

    async def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        while True:
            envelope = await self._put.get()
            await self.flows.wait()
            if self.failure is not None:
                raise self.failure
            cursor += 1
            self.seen.append(envelope)
            yield QueueBatch(cursor, cursor, (envelope,))

    async def close(self) -> None:
        pass


class NoBuilder:
    """Builds nothing: every build ends in the same refusal."""

    async def build(self, effect: Build | Rebuild | BuildMove) -> Built:
        raise MergeConflict("both changed it", paths=["p"])

    async def look_up(self, effect: LookUp) -> LookedUp:
        raise AssertionError


def repository() -> CreateRepository:
    return CreateRepository(
        Request("r0", 0), "shop", Instance("i"), "local://shop", "main", Instance("b"), StagingToken("t"), CommitId("c")
    )


async def started(queue: LocalQueue, folder: Path) -> MemberHost:
    store = open_store(f"file://{folder}/objects")
    return await MemberHost.start(queue, Checkpoints(store, "c/"), NoBuilder(), name="m")


async def test_what_is_applied_is_answered(tmp_path: Path) -> None:
    queue = LocalQueue()
    host = await started(queue, tmp_path)
    assert (await host.request(Write(repository()))).status is Status.OK
    assert (await host.request(Write(repository()))).status is Status.OK  # the same request: the same result (L2)
    assert list(host.machine.branches) == ["b"]
    await host.close()
    again = await started(LocalQueue(), tmp_path)  # from the last checkpoint alone
    assert list(again.machine.branches) == ["b"]
    await again.close()


async def test_a_build_which_fails_is_told_as_it_failed(tmp_path: Path) -> None:
    host = await started(LocalQueue(), tmp_path)
    await host.request(Write(repository()))
    with pytest.raises(MergeConflict, match="both changed it"):
        await host.request(Move(Request("r1", host.machine.now), Instance("b")))
    assert host.machine.requests.get("r1") is not None  # cancelled for good before anybody was told
    await host.close()


async def test_who_gives_up_has_it_cancelled(tmp_path: Path) -> None:
    queue = LocalQueue()
    host = await started(queue, tmp_path)
    await host.request(Write(repository()))
    queue.flows.clear()
    waiting = asyncio.create_task(host.request(Write(Delete(Request("r2", host.machine.now), Instance("b"), ("p",)))))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    queue.flows.set()
    await host.sync()
    assert any(isinstance(each.record, Cancel) for each in queue.seen)
    assert host.machine.requests.get("r2") is not None  # it was made or it was cancelled: nobody has to guess
    await host.close()


async def test_who_waits_to_the_end_is_told_what_came_of_giving_up(tmp_path: Path) -> None:
    queue = LocalQueue()
    host = await started(queue, tmp_path)
    queue.flows.clear()
    waiting = asyncio.create_task(host.request(Write(repository()), to_the_end=True))
    await asyncio.sleep(0)
    waiting.cancel()  # its record is on the queue before the CANCEL
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.flows.set()
    assert (await waiting).status is Status.OK
    await host.close()


async def test_a_queue_which_has_forgotten_ends_the_member(tmp_path: Path) -> None:
    queue = LocalQueue()
    host = await started(queue, tmp_path)
    queue.failure = Compacted("trimmed away")
    with pytest.raises(ShuttingDown, match="trimmed away"):
        await host.sync()
    assert "trimmed away" in await host.ended()
    with pytest.raises(Unavailable, match="has stopped"):
        await host.sync()
    await host.close()


class BrokenBuilder(NoBuilder):
    """Falls over whatever it is to build."""

    async def build(self, effect: Build | Rebuild | BuildMove) -> Built:
        raise ZeroDivisionError("a defect of the tests")


def put(id_: str, entry: Entry) -> Put:
    return Put(Request(id_, 0), Instance("b"), 1, (Row("p", entry),))


def defects() -> float:
    return float(DEFECTS.labels("lake member")._value.get())


@pytest.mark.parametrize("size", [2**64, -(2**63) - 1, 10**40])
async def test_a_record_that_has_no_bytes_is_refused_at_the_door(tmp_path: Path, size: int) -> None:
    host = await started(LocalQueue(), tmp_path)
    await host.request(Write(repository()))
    with pytest.raises(InvalidArgument, match="cannot be recorded"):
        await host.request(Write(put("r1", Entry("data/00000001/x", size))))
    with pytest.raises(LimitExceeded, match="at most"):
        await host.request(Write(put("r2", Entry("data/00000001/x", metadata="x" * RECORD_BYTES_MAX))))
    assert (await host.request(Write(put("r3", Entry("data/00000001/x", 1))))).status is Status.OK
    await host.close()


async def test_a_defect_ends_its_request_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queue = LocalQueue()
    store = open_store(f"file://{tmp_path}/objects")
    host = await MemberHost.start(queue, Checkpoints(store, "c/"), BrokenBuilder(), name="m")
    await host.request(Write(repository()))
    before = defects()
    with pytest.raises(InternalError, match="ZeroDivisionError"):
        await host.request(Move(Request("r1", host.machine.now), Instance("b")))

    def broken(self: Member, *_: object) -> list[Effect]:
        raise ValueError("a defect of the tests")

    for name in ("send", "_on_result", "_serve"):
        with monkeypatch.context() as patch:
            patch.setattr(Member, name, broken)
            if name == "_serve":
                with pytest.raises(InternalError, match="ValueError"):
                    await host.sync()
            else:
                with pytest.raises(InternalError, match="ValueError"):
                    await host.request(Write(put(f"r-{name}", Entry("data/00000001/x", 1))))
    assert defects() == before + 4
    assert (await host.request(Write(put("r9", Entry("data/00000001/x", 1))))).status is Status.OK
    assert not host.failed
    await host.close()


async def test_an_error_in_a_committed_record_ends_the_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = await started(LocalQueue(), tmp_path)

    def broken(*_: object) -> Result:
        raise ValueError("the state machine fell over it")

    monkeypatch.setattr(type(host.machine), "apply", broken)
    with pytest.raises(ShuttingDown, match="fell over it"):
        await host.request(Write(repository()))
    assert "fell over it" in host.failed
    await host.close()


class SharedQueue:
    """One order for several members, in memory: a batch for each record."""

    checkpoint_span = 10

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self._grown = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)
        task = asyncio.get_running_loop().create_task(self._tell())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self) -> None:
        async with self._grown:
            self._grown.notify_all()

    async def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        while True:
            async with self._grown:
                while len(self.envelopes) <= cursor:
                    await self._grown.wait()
            cursor += 1
            yield QueueBatch(cursor, cursor, (self.envelopes[cursor - 1],))

    async def close(self) -> None:
        pass


async def members(queue: SharedQueue, folder: Path, *names: str, dispute_s: float = 0.05) -> list[MemberHost]:
    store = open_store(f"file://{folder}/objects")
    return [
        await MemberHost.start(queue, Checkpoints(store, "c/"), NoBuilder(), name=name, dispute_s=dispute_s)
        for name in names
    ]


async def play(hosts: list[MemberHost], syncs: int) -> None:
    for _ in range(syncs):
        await asyncio.gather(*(host.sync() for host in hosts), return_exceptions=True)


async def test_a_member_that_differs_from_most_stops(tmp_path: Path) -> None:
    queue = SharedQueue()
    # counted when all three have reported, on a busy machine too
    bad, good, other = hosts = await members(queue, tmp_path, "bad", "good", "other", dispute_s=1.0)
    await bad.request(Write(repository()))
    bad.machine.retire("local://nowhere", 1)  # what a defect would do
    async with asyncio.timeout(20):
        while not bad.failed:
            await play(hosts, 1)
        assert "most members have another state" in await bad.ended()
    await play([good, other], 12)
    assert (good.failed, other.failed) == ("", "")
    wrong = bad.machine.state_hash()
    for host in hosts:
        await host.close()
    (again,) = await members(queue, tmp_path, "bad")
    assert again.machine.state_hash() != wrong
    await play([again], 1)
    assert again.machine.repository_named("shop") is not None
    await again.close()


async def test_of_two_that_differ_nobody_is_right(tmp_path: Path) -> None:
    queue = SharedQueue()
    hosts = await members(queue, tmp_path, "first", "second")
    hosts[0].machine.retire("local://nowhere", 1)
    async with asyncio.timeout(20):
        while not all(host.failed for host in hosts):
            await play(hosts, 1)
    assert all("no state has more than half" in host.failed for host in hosts)
    for host in hosts:
        await host.close()


class FailingStore(Checkpoints):
    """A store that takes nothing for a while."""

    failures = 2

    async def save(self, key: str, encode: Callable[[], bytes]) -> None:
        if self.failures:
            self.failures -= 1
            raise ObjectStoreFailed("503, after all retries")
        await super().save(key, encode)


async def test_a_checkpoint_that_could_not_be_saved_is_taken_at_the_next_place(tmp_path: Path) -> None:
    checkpoints = FailingStore(open_store(f"file://{tmp_path}/objects"), "c/")
    host = await MemberHost.start(SharedQueue(), checkpoints, NoBuilder(), name="m")
    async with asyncio.timeout(20):
        while (await checkpoints.newest())[0] == START:
            await host.sync()
    assert host.failed == ""
    assert host.figures.checkpoints_failed == 2
    await host.close()


async def test_rules_of_a_newer_release_stop_a_member(tmp_path: Path) -> None:
    queue = SharedQueue()
    (host,) = await members(queue, tmp_path, "old")
    assert host.machine.version == RULES, "a start raises the rules"
    queue.put(Envelope(None, Version(Request("v", 0), RULES + 1)))
    async with asyncio.timeout(20):
        assert f"rules {RULES + 1}" in await host.ended()
    await host.close()
