"""The witness of a node's log, on a disk that loses power."""

import asyncio
from typing import Any

import pytest
from tests.lab.world.inside import all_inside, new_process
from tests.lab.world.inside import process as process

from penstock.kernel.ids import Lsn
from penstock.plumbing.process.tasks import Tasks
from penstock.quorum.node.storage import NodeStorage
from penstock.quorum.records.entry import ClientId, Txn
from penstock_lab.world.process import FOLDER, Life


def fail(error: BaseException) -> None:
    raise error


async def done(start: Any) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    start(lambda error: future.set_result(None) if error is None else future.set_exception(error))
    await future


async def opened(life: Life) -> NodeStorage:
    return await NodeStorage.open(FOLDER, life.ports, Tasks(fail))


@pytest.mark.parametrize("seed", range(12))
def test_a_truncated_log_is_not_refused_after_a_loss_of_power(seed: int) -> None:
    """The kernel wrote the witness of a longer log back; the one before the truncation was in the cache only."""
    life = new_process(seed)

    async def work() -> None:
        storage = await opened(life)
        for number in range(1, 21):
            entry = Txn(1, ClientId("c"), number, b"ops")  # type: ignore[arg-type]
            await done(lambda ended, n=number, e=entry: storage.append(Lsn(n), (e,), ended))
        life.machine.files.file(FOLDER / "log.witness").sync()
        life.machine.files.folder(FOLDER).sync()
        await done(lambda ended: storage.truncate(Lsn(10), ended))

    async def again() -> int:
        storage = await opened(later)
        return len((await storage.load_entries())[1])

    life.loop.run_until_complete(work())
    life.machine.lose_power()
    life.machine.process = later = Life(life.machine, lambda _: None)
    assert later.loop.run_until_complete(again()) == 10
    life.world.end()


all_inside(globals())
