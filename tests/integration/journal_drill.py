"""A drill for real brokers: a load that remembers its answers, faults, and the audit of the journal's content.

The audit: every acknowledged append exists once, at its offset; nothing aborted exists; every append of unknown fate
agrees with `resolve`; the same bytes come from every replica, and from the store.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random

import msgspec
from tests.keyspace.shell.etcd.server import EtcdServer

from penstock.journals.client.journal import Journals
from penstock.journals.records.api import Resolution
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.registers import Txn
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import Indeterminate, PenstockError, Unavailable
from penstock.kernel.ids import Offset, Revision
from penstock.server.cluster.local import LocalCluster

WAIT_S = 90.0
LOOK_S = 0.02
LEASE_MS = 2_000
PATIENCE_S = 0.8  # of an append: over before the lease of a frozen broker ends
REPLICAS = 3
_RECORD = re.compile(rb"<[^<>]*>")


class Unknown(msgspec.Struct, frozen=True):
    """An append whose outcome is unknown."""

    record: bytes
    epoch: PipelineEpoch | None  # None: the broker was lost before it said where it would be
    begin: int = 0
    end: int = 0


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds; processes report nothing, so look again and again."""
    async with asyncio.timeout(WAIT_S):
        while True:
            if holds():
                return
            await asyncio.sleep(LOOK_S)


class Drill:
    """Brokers as processes, one journal, and everybody who appends to it."""

    def __init__(self, cluster: LocalCluster, journal: str, seed: int = 0) -> None:
        self.cluster = cluster
        self.journal = journal
        self.random = Random(seed)
        self.is_over = False
        self.committed: dict[bytes, Offset] = {}
        self.aborted: list[bytes] = []
        self.unknown: list[Unknown] = []
        self.written: dict[str, int] = {}  # by writers whose appends are transactions
        self.content = b""  # as the audit has found it
        self.down: set[str] = set()  # whom a fault keeps down
        self.lost_leases = 0  # processes which ended by themselves
        self._grew = asyncio.Event()

    def client(self) -> Journals:
        return Journals(self.cluster.addresses("broker"))

    async def create(self) -> None:
        fragment = FragmentSpec(length=64 << 10, refresh_interval_ms=1_000)
        spec = JournalSpec(name=self.journal, replication=REPLICAS, fragment=fragment)
        async with self.client() as journals, asyncio.timeout(WAIT_S):
            while True:
                try:
                    await journals.create(spec)
                    break
                except (Unavailable, Indeterminate):
                    await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def supervised(self) -> AsyncIterator[None]:
        """Restart processes that end by themselves, as a supervisor does with a broker that has lost its lease."""
        task = asyncio.create_task(self._supervise())
        try:
            yield
        finally:
            assert not task.done(), task.exception()
            task.cancel()
            await asyncio.wait([task])

    async def _supervise(self) -> None:
        while True:
            for name in self.cluster.names("broker"):
                if name not in self.down and not self.cluster.is_running(name):
                    assert self.cluster.exit_status(name) == 1, self.cluster.log_tail(name)
                    self.lost_leases += 1
                    self.cluster.start(name)
            await asyncio.sleep(LOOK_S)

    def come_back(self, name: str) -> None:
        self.cluster.start(name)
        self.down.discard(name)

    # the load

    @asynccontextmanager
    async def load(self, writers: int = 6) -> AsyncIterator[None]:
        """Append all the time: small appends that travel together, streamed ones, and transactions."""
        async with self.client() as journals:
            tasks = [asyncio.create_task(self._write(journals, f"w{number}")) for number in range(writers)]
            tasks += [asyncio.create_task(self._write(journals, "s", _streamed))]
            tasks += [asyncio.create_task(self._write_once(f"t{number}")) for number in range(2)]
            try:
                yield
            finally:
                self.is_over = True
                async with asyncio.timeout(WAIT_S):
                    await asyncio.gather(*tasks)

    async def _write(
        self, journals: Journals, name: str, source: Callable[[bytes], bytes | Iterator[bytes]] = bytes
    ) -> None:
        """Each record once, whatever becomes of it."""
        number = 0
        while not self.is_over:
            number += 1
            size = number % 700 if source is bytes else 1 << 20
            record = f"<{name}:{number:06d}:{'x' * size}>".encode()
            try:
                done = await journals.append(self.journal, source(record), timeout=PATIENCE_S)
                self.committed[record] = done.begin
                self._grew.set()
            except Indeterminate as error:
                self.unknown.append(_unknown(record, error))
            except PenstockError:
                self.aborted.append(record)
            await asyncio.sleep(0.002 if source is bytes else 0.2)  # the machine is shared with five brokers

    async def _write_once(self, name: str) -> None:
        """Each record again until it is acknowledged, as one transaction."""
        self.written[name] = 0
        async with self.client() as journals:
            while not self.is_over:
                number = self.written[name] + 1
                record = f"<{name}:{number:06d}:>".encode()
                try:
                    await journals.append(self.journal, record, txn=Txn(name, number), timeout=5.0)
                    self.written[name] = number
                except (Indeterminate, Unavailable):
                    continue
                await asyncio.sleep(0.002)

    async def more(self, records: int = 30) -> None:
        """Wait for `records` more acknowledgements: the journal takes appends again."""
        wanted = len(self.committed) + records
        async with asyncio.timeout(WAIT_S):
            while len(self.committed) < wanted:
                self._grew.clear()
                await self._grew.wait()

    # roles

    async def brokers(self) -> list[str]:
        """The processes which serve the journal, the primary first; waits until there are enough."""
        async with self.client() as journals, asyncio.timeout(WAIT_S):
            while True:
                try:
                    info = (await journals.list(f"name={self.journal}"))[0]
                    ordered = sorted(info.brokers, key=lambda each: not each.is_primary)
                    names = [each.broker.partition("#")[2] for each in ordered]
                    if info.primary is not None and len(names) == REPLICAS and all(map(self.cluster.is_running, names)):
                        return names
                except (PenstockError, IndexError):
                    pass
                await asyncio.sleep(LOOK_S)

    # the audit

    async def audit(self) -> None:
        """Compare the readable content with the answers."""
        async with self.client() as journals:
            last = await journals.append(self.journal, b"<end>", timeout=WAIT_S)
            content = await self._read(journals, last.end)
            self._check_records(content)
            await self._check_unknown(journals, content)
            for name in await self.brokers():
                address = self.cluster.process(name).address
                assert await self._read(journals, last.end, address) == content, f"{name} differs"
        self.content = content

    async def _read(self, journals: Journals, end: int, address: str | None = None) -> bytes:
        content = bytearray()
        async with asyncio.timeout(WAIT_S):
            while len(content) < end:
                try:
                    async for chunk in journals.read(self.journal, len(content), end=end, follow=True, address=address):
                        assert chunk.offset == len(content), "a hole"
                        content += chunk.content
                except (Unavailable, Indeterminate):
                    # a broker that came later waits for others to store the bytes that it lacks
                    await asyncio.sleep(LOOK_S)
        return bytes(content)

    def _check_records(self, content: bytes) -> None:
        found = {record.group(): record.start() for record in _RECORD.finditer(content)}
        assert sum(map(len, found)) == len(content), "records are cut, or there twice"
        for record, begin in self.committed.items():
            assert found.get(record) == begin, (record[:40], begin, found.get(record))
        for record in self.aborted:
            assert record not in found, record[:40]
        for name, number in self.written.items():
            expected = [f"<{name}:{each:06d}:>".encode() for each in range(1, number + 1)]
            assert [each for each in expected if each not in found] == []

    async def _check_unknown(self, journals: Journals, content: bytes) -> None:
        for each in self.unknown:
            is_there = each.record in content
            if each.epoch is not None:
                resolution = await journals.resolve(self.journal, each.epoch, each.begin, each.end, timeout=WAIT_S)
                assert resolution is (Resolution.COMMITTED if is_there else Resolution.ABORTED), each.record[:40]
                if is_there:
                    assert content[each.begin : each.end] == each.record

    async def audit_stopped(self) -> bytes:
        """Stop all brokers in order: then the store has everything, the same bytes."""
        assert self.content, "audit it first"
        self.cluster.stop_all()
        assert await self._stored() == self.content, "the store differs"
        return self.content

    @property
    def resolved(self) -> int:
        return sum(each.epoch is not None for each in self.unknown)

    async def _stored(self) -> bytes:
        """The journal as its fragments in the store have it."""
        async with FragmentStores() as stores:
            content = bytearray()
            fragments = await stores.list(self.journal, [self.cluster.store_url])
            for fragment in sorted(fragments, key=lambda each: (each.begin, -each.end)):
                if fragment.end > len(content):
                    assert fragment.begin <= len(content), "a hole in the store"
                    at = Offset(len(content))
                    async for piece in stores.read(fragment, at, fragment.end):
                        content += piece
        return bytes(content)


def _streamed(record: bytes) -> Iterator[bytes]:
    for at in range(0, len(record), 64 << 10):
        yield record[at : at + (64 << 10)]


def _unknown(record: bytes, error: Indeterminate) -> Unknown:
    begin, end = error.details.get("begin"), error.details.get("end")
    if begin is None or end is None:
        return Unknown(record, None)
    revision, n = error.details["epoch"]
    return Unknown(record, PipelineEpoch(Revision(revision), n), begin, end)


Fault = Callable[[Drill], Awaitable[None]]


@contextmanager
def brokers_on(kind: str, folder: Path, brokers: int = 5) -> Iterator[LocalCluster]:
    """Run brokers on a KeySpace of this kind, as processes; end them all afterwards."""
    etcd = EtcdServer(folder / "etcd") if kind == "etcd" else None
    keyspace = f"etcd://{etcd.address}" if etcd is not None else ""
    cluster = LocalCluster.create(folder / "cluster", nodes=0, brokers=brokers, lease_ms=LEASE_MS, keyspace=keyspace)
    try:
        if etcd is not None:
            etcd.start()
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()
        if etcd is not None:
            etcd.kill()


async def drill_on(cluster: LocalCluster, journal: str, faults: Iterable[Fault], seed: int = 0) -> Drill:
    """Run faults one after the other under load, with appends after each; then the audit."""
    drill = Drill(cluster, journal, seed)
    await drill.create()
    async with drill.supervised():
        async with drill.load():
            await drill.more()
            for fault in faults:
                await fault(drill)
                await drill.more()
        await drill.audit()
    return drill
