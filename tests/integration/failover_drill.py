"""Three brokers, R = 3, one of them killed or frozen under load: no caller gets an error, and none waits for long.

    python -m tests.integration.failover_drill --faults 50 --report docs/reports/faults-failover.md

Writers append with transactions, one also by an append service. The audit: every acknowledged record is in the
journal once.
"""

import argparse
import asyncio
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
from tests.integration.journal_drill import LOOK_S, WAIT_S, until

from penstock.journals.client.append_service import AppendService
from penstock.journals.client.journal import Journals
from penstock.journals.records.protocol import JournalInfo
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import Indeterminate, PenstockError, Unavailable
from penstock.server.cluster.local import LocalCluster

BROKERS = 3
LEASE_MS = 5_000
FROZEN_S = (1.5, 7.0)  # within the lease, and beyond it
_RECORD = re.compile(rb"<[^<>]*>")


class Pause(msgspec.Struct, frozen=True):
    """How long the slowest append took around one fault."""

    fault: str
    seconds: float


class Failover:
    """A cluster of three, one journal, and its writers."""

    def __init__(self, cluster: LocalCluster, journal: str) -> None:
        self.cluster = cluster
        self.journal = journal
        self.acknowledged: list[bytes] = []
        self.errors: list[str] = []
        self.slowest_s = 0.0  # of the appends since the last fault
        self.is_over = False
        self._begun: dict[str, float] = {}  # writer → when its present append began
        self._grew = asyncio.Event()

    def client(self) -> Journals:
        return Journals(self.cluster.addresses("broker"))

    async def create(self) -> None:
        fragment = FragmentSpec(length=256 << 10)
        spec = JournalSpec(name=self.journal, replication=BROKERS, least=2, fragment=fragment)
        async with self.client() as journals, asyncio.timeout(WAIT_S):
            while True:
                try:
                    if await journals.count_brokers() == BROKERS:
                        await journals.create(spec)
                        break
                except (Unavailable, Indeterminate):
                    pass
                await asyncio.sleep(LOOK_S)
            await journals.append(self.journal, b"", timeout=WAIT_S)

    # load

    @asynccontextmanager
    async def load(self, writers: int = 3) -> AsyncIterator[None]:
        async with self.client() as journals, AppendService(journals) as service:
            tasks = [asyncio.create_task(self._write(f"w{number}")) for number in range(writers)]
            tasks.append(asyncio.create_task(self._put(service)))
            try:
                yield
            finally:
                self.is_over = True
                async with asyncio.timeout(WAIT_S):
                    await asyncio.gather(*tasks)

    async def _write(self, name: str) -> None:
        async with self.client() as journals:
            number = 0
            while not self.is_over:
                number += 1
                record = f"<{name}:{number}:{'x' * (number % 200)}>".encode()
                with self._timed(name, record):
                    await journals.append(self.journal, record, txn=Txn(name, number), timeout=WAIT_S)
                await asyncio.sleep(0.005)  # the machine is shared with the brokers

    async def _put(self, service: AppendService) -> None:
        number = 0
        while not self.is_over:
            number += 1
            record = f"<service:{number}:>".encode()
            with self._timed("service", record):
                await service.append(self.journal, record)
            await asyncio.sleep(0.005)

    @contextmanager
    def _timed(self, writer: str, record: bytes) -> Iterator[None]:
        begun = self._begun[writer] = time.monotonic()
        try:
            yield
        except PenstockError as error:
            self.errors.append(f"{writer}: {type(error).__name__}: {error}")
        else:
            self.acknowledged.append(record)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
            self._grew.set()

    async def all_moved_on(self) -> None:
        """Wait until every writer has begun, and ended, an append after now."""
        now = time.monotonic()
        async with asyncio.timeout(WAIT_S):
            while min(self._begun.values(), default=0.0) < now:
                self._grew.clear()
                await self._grew.wait()

    # faults

    async def kill(self, name: str) -> float:
        """kill -9, and another life later. Return the slowest append while it was away and came back."""
        self.slowest_s = 0.0
        self.cluster.kill(name)
        await self.all_moved_on()
        self.cluster.start(name)
        await self.whole()
        return self.slowest_s

    async def freeze(self, name: str, for_s: float) -> float:
        """SIGSTOP, and SIGCONT later; a broker that has lost its lease meanwhile ends, and is started again."""
        self.slowest_s = 0.0
        self.cluster.kill(name, signal.SIGSTOP)
        thaw_at = time.monotonic() + for_s
        await self.all_moved_on()
        await asyncio.sleep(max(0.0, thaw_at - time.monotonic()))
        self.cluster.kill(name, signal.SIGCONT)
        await self.whole()
        return self.slowest_s

    async def info(self) -> JournalInfo | None:
        async with self.client() as journals:
            try:
                return (await journals.list(f"name={self.journal}", timeout=1.0))[0]
            except (PenstockError, IndexError):
                return None

    async def brokers(self, *, revives: bool = False) -> list[str]:
        """Return the processes that serve the journal, its primary first. Start those that have ended, as told."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for name in self.cluster.names("broker") if revives else ():
                    if not self.cluster.is_running(name):
                        self.cluster.start(name)
                info = await self.info()
                if info is not None and info.primary is not None and len(info.brokers) == BROKERS:
                    ordered = sorted(info.brokers, key=lambda each: not each.is_primary)
                    return [each.broker.partition("#")[2] for each in ordered]
                await asyncio.sleep(LOOK_S)

    async def whole(self) -> None:
        """Wait until all three serve again, and an append has been acknowledged by all of them."""
        async with asyncio.timeout(WAIT_S):
            while True:
                await self.brokers(revives=True)
                await self.all_moved_on()
                info = await self.info()
                if info is not None and len(info.brokers) == BROKERS:
                    return

    # audit

    async def audit(self) -> int:
        """Compare the readable content with the acknowledged records; return the number of records."""
        assert self.errors == [], self.errors[:3]
        async with self.client() as journals:
            last = await journals.append(self.journal, b"<end>", timeout=WAIT_S)
            content = bytearray()
            async with asyncio.timeout(WAIT_S):
                while len(content) < last.end:
                    try:
                        async for chunk in journals.read(self.journal, len(content), end=last.end, follow=True):
                            content += chunk.content
                    except (Unavailable, Indeterminate):
                        await asyncio.sleep(LOOK_S)
        found = Counter(_RECORD.findall(content))
        assert sum(map(len, found)) == len(content), "records are cut, or there twice"
        missing = [record for record in self.acknowledged if record not in found]
        assert missing == [], missing[:3]
        return len(self.acknowledged)


@contextmanager
def three_brokers(folder: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster.create(folder / "cluster", nodes=0, brokers=BROKERS, lease_ms=LEASE_MS)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


async def two_lost(failover: Failover) -> str:
    """Kill two of three; return what an append is then told. Both come back."""
    victims = (await failover.brokers())[:2]
    for name in victims:
        failover.cluster.kill(name)
    async with Journals(
        [failover.cluster.process(name).address for name in failover.cluster.names("broker")]
    ) as client:
        try:
            await client.append(failover.journal, b"<two lost>", txn=Txn("two-lost", 1), timeout=3 * LEASE_MS / 1_000)
            told = ""
        except PenstockError as error:
            told = str(error)
    for name in victims:
        failover.cluster.start(name)
    await until(lambda: all(map(failover.cluster.is_running, victims)))
    return told


async def drill(cluster: LocalCluster, faults: int) -> tuple[list[Pause], int, str]:
    """Kill and freeze the primary and replicas, `faults` times each. Return pauses, records and the refusal."""
    failover = Failover(cluster, "shop/orders")
    await failover.create()
    pauses: list[Pause] = []
    async with failover.load():
        await failover.all_moved_on()
        for number in range(faults):
            for turn, (place, role) in enumerate(((0, "primary"), (1 + number // 2 % 2, "replica"))):
                if (number + turn) % 2:
                    name, seconds = f"{role} killed (kill -9)", await failover.kill((await failover.brokers())[place])
                else:
                    for_s = FROZEN_S[number % 8 >= 6]
                    name = f"{role} frozen (SIGSTOP) for {for_s:g} s"
                    seconds = await failover.freeze((await failover.brokers())[place], for_s)
                pauses.append(Pause(name, seconds))
                print(f"{len(pauses)}: {name}: {seconds:.2f} s, {len(failover.acknowledged)} records", flush=True)
    records = await failover.audit()
    return pauses, records, await two_lost(failover)


def report(pauses: list[Pause], records: int, told: str) -> str:
    names = sorted({pause.fault for pause in pauses})
    lines = [
        "# One of three brokers lost\n",
        "<!-- Written by `make soak-failover`. -->\n",
        "Three brokers as real processes on one machine, R = 3, `least` = 2,",
        f"leases of {LEASE_MS / 1_000:g} s, and the",
        "embedded KeySpace in a folder of its own. Three writers append with transactions, a fourth by an append",
        f"service, all the time. {records:,} records were acknowledged; each is in the journal once, and no writer got",
        "an error.\n",
        "| fault | times | slowest append, median | slowest append of all |",
        "|---|---:|---:|---:|",
    ]
    for name in names:
        seconds = sorted(pause.seconds for pause in pauses if pause.fault == name)
        lines.append(f"| {name} | {len(seconds)} | {seconds[len(seconds) // 2]:.2f} s | {seconds[-1]:.2f} s |")
    lines += ["", "The error of an append while two of the three are killed:", "", f"    {told}", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, three_brokers(Path(folder)) as cluster:
        try:
            text = report(*asyncio.run(drill(cluster, options.faults)))
        except BaseException:
            for name in cluster.names("broker"):
                print(f"--- {name}\n{cluster.log_tail(name, 60)}", flush=True)
            raise
    print(text)
    if options.report is not None:
        options.report.write_text(text)


if __name__ == "__main__":
    main()
