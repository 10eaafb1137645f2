"""A member's shell: who gives up is cancelled, who cannot go on says so, what fails outside is told to who waits."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.kernel.effects import Effect
from penstock.kernel.errors import (
    Compacted,
    InternalError,
    InvalidArgument,
    LimitExceeded,
    MergeConflict,
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
)
from penstock.lake.core.staging.results import Result, Status
from penstock.lake.member.checkpoints import Checkpoints
from penstock.lake.member.member_host import MemberHost
from penstock.lake.member.queue import RECORD_BYTES_MAX, QueueBatch
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
