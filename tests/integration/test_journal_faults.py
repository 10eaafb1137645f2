"""Real brokers, killed, frozen and restarted under append load: what was acknowledged is there once, byte for byte."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from penstock.base.errors import Indeterminate, PenstockError, Unavailable
from penstock.base.ids import Offset, Revision
from penstock.client.journal import Journals
from penstock.journal.api import Resolution
from penstock.journal.epoch import PipelineEpoch
from penstock.journal.registers import Txn
from penstock.journal.spec import FragmentSpec, JournalSpec
from penstock.runtime.cluster.local import LocalCluster
from penstock.runtime.journal.fragment_store import FragmentStores

pytestmark = pytest.mark.timeout(180)
READY_S = 60.0
JOURNAL = "shop/orders"
SPEC = JournalSpec(name=JOURNAL, replication=3, fragment=FragmentSpec(length=64 << 10, refresh_interval_ms=1_000))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster.create(tmp_path / "cluster", nodes=0, brokers=4, lease_ms=2_000)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


class Load:
    """Writers of unique records, with everything they were told."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.is_over = False
        self.committed: dict[bytes, Offset] = {}
        self.aborted: list[bytes] = []
        self.unknown: list[tuple[bytes, PipelineEpoch, int, int] | tuple[bytes]] = []
        self.written: dict[str, int] = {}  # by writers whose appends are transactions
        self._grew = asyncio.Event()

    async def write(self, journals: Journals, name: str) -> None:
        """Each record once, whatever becomes of it."""
        number = 0
        while not self.is_over:
            number += 1
            record = f"<{name}:{number:06d}:{'x' * (number % 700)}>".encode()
            try:
                self.committed[record] = (await journals.append(JOURNAL, record, timeout=3.0)).begin
                self._grew.set()
            except Indeterminate as error:
                self.unknown.append(_asked(record, error))
            except PenstockError:
                self.aborted.append(record)

    async def write_exactly_once(self, name: str) -> None:
        """Each record again until it is acknowledged, as one transaction."""
        self.written[name] = 0
        async with Journals(self.cluster.addresses("broker")) as journals:
            while not self.is_over:
                number = self.written[name] + 1
                record = f"<{name}:{number:06d}:>".encode()
                try:
                    await journals.append(JOURNAL, record, txn=Txn(name, number), timeout=5.0)
                    self.written[name] = number
                except (Indeterminate, Unavailable):
                    continue

    async def more(self, records: int = 50) -> None:
        """Until so many more were acknowledged: the journal takes appends again."""
        wanted = len(self.committed) + records
        async with asyncio.timeout(READY_S):
            while len(self.committed) < wanted:
                self._grew.clear()
                await self._grew.wait()


def _asked(record: bytes, error: Indeterminate) -> tuple[bytes, PipelineEpoch, int, int] | tuple[bytes]:
    begin, end = error.details.get("begin"), error.details.get("end")
    if begin is None or end is None:
        return (record,)  # the broker was lost before it answered: nobody told an epoch
    revision, n = error.details["epoch"]
    return record, PipelineEpoch(Revision(revision), n), begin, end


async def primary_of(cluster: LocalCluster) -> str:
    async with Journals(cluster.addresses("broker")) as journals, asyncio.timeout(READY_S):
        while True:
            try:
                primary = (await journals.list(f"name={JOURNAL}"))[0].primary
                if primary is not None and cluster.is_running(primary.broker.partition("#")[2]):
                    return primary.broker.partition("#")[2]
            except PenstockError:
                pass
            await asyncio.sleep(0.05)


async def until_ended(cluster: LocalCluster, name: str) -> None:
    async with asyncio.timeout(READY_S):
        while True:
            if not cluster.is_running(name):
                return
            await asyncio.sleep(0.05)


async def kill_the_primary(cluster: LocalCluster, load: Load) -> None:
    victim = await primary_of(cluster)
    cluster.kill(victim)
    await load.more()
    cluster.start(victim)
    await load.more()


async def freeze_the_primary(cluster: LocalCluster, load: Load) -> None:
    """It wakes up as a zombie: its lease is gone, others serve, and it must end without doing harm."""
    victim = await primary_of(cluster)
    cluster.kill(victim, signal.SIGSTOP)
    await load.more()
    cluster.kill(victim, signal.SIGCONT)
    await until_ended(cluster, victim)
    cluster.start(victim)
    await load.more()


async def restart_every_broker(cluster: LocalCluster, load: Load) -> None:
    """Each in order: it is relieved of its journals first."""
    for name in cluster.names("broker"):
        cluster.kill(name, signal.SIGTERM)
        await until_ended(cluster, name)
        cluster.start(name)
        await load.more(10)


Fault = Callable[[LocalCluster, Load], Awaitable[None]]


async def everything(journals: Journals, end: int, address: str | None = None) -> bytes:
    content = b""
    async with asyncio.timeout(READY_S):
        while len(content) < end:
            try:
                async for chunk in journals.read(JOURNAL, len(content), end=end, follow=True, address=address):
                    content += chunk.content
            except (Unavailable, Indeterminate):
                await asyncio.sleep(0.05)  # a broker which came later waits for others to store what it lacks
    return content


async def stored(cluster: LocalCluster) -> bytes:
    """The journal as its fragments in the store have it."""
    async with FragmentStores() as stores:
        content = b""
        for fragment in sorted(
            await stores.list(JOURNAL, [cluster.store_url]), key=lambda each: (each.begin, -each.end)
        ):
            if fragment.end > len(content):
                assert fragment.begin <= len(content), "a hole in the store"
                at = Offset(len(content))
                content += b"".join([bytes(piece) async for piece in stores.read(fragment, at, fragment.end)])
    return content


async def check(load: Load, journals: Journals, content: bytes) -> None:
    """Every record is what its writer was told of it."""
    for record, begin in load.committed.items():
        assert content[begin : begin + len(record)] == record
        assert content.count(record) == 1, record
    for record in load.aborted:
        assert record not in content
    for record, *asked in load.unknown:
        assert content.count(record) <= 1
        if asked:
            resolution = await journals.resolve(JOURNAL, *asked)  # type: ignore[arg-type]
            assert resolution is (Resolution.COMMITTED if record in content else Resolution.ABORTED)
    for name, number in load.written.items():
        found = [content.count(f"<{name}:{each:06d}:>".encode()) for each in range(1, number + 1)]
        assert found == [1] * number


async def test_acknowledged_appends_survive_kill_freeze_and_a_rolling_restart(cluster: LocalCluster) -> None:
    async with Journals(cluster.addresses("broker")) as journals:
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    await journals.create(SPEC)
                    break
                except Unavailable:
                    await asyncio.sleep(0.05)
        load = Load(cluster)
        # They share a client, so that appends of theirs travel together, and go through the core as one.
        writers = [asyncio.create_task(load.write(journals, f"w{number}")) for number in range(8)]
        writers += [asyncio.create_task(load.write_exactly_once(f"t{number}")) for number in range(2)]
        await load.more()
        for fault in (kill_the_primary, freeze_the_primary, restart_every_broker):
            await fault(cluster, load)
        load.is_over = True
        await asyncio.gather(*writers)
        last = await journals.append(JOURNAL, b"<end>", timeout=READY_S)
        content = await everything(journals, last.end)
        assert content.endswith(b"<end>")
        await check(load, journals, content)
        info = (await journals.list(f"name={JOURNAL}"))[0]
        assert len(info.brokers) == 3
        for broker in info.brokers:
            assert await everything(journals, last.end, broker.address) == content
    cluster.stop_all()
    assert await stored(cluster) == content
