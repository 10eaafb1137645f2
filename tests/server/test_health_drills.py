"""Each health check turns bad and good again in a drill on real parts. A check without a drill fails the last test."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.journals.broker.cluster import WAIT_S, running_cluster
from tests.journals.broker.disks import small_disk
from tests.lake.member.test_member_host import SharedQueue, members
from tests.quorum.node import cluster as quorum_cluster
from tests.quorum.node.test_divergence import damage

from penstock.journals.broker.status.health import BROKER_CHECKS, add_broker_checks
from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import FragmentSpec, JournalSpec
from penstock.kernel.errors import DiskFull, PenstockError
from penstock.kernel.ids import NodeId
from penstock.lake.member.queue import QueueBatch
from penstock.lake.member.services.health import LAKE_CHECKS, add_lake_checks
from penstock.plumbing.process.health import CheckReport, Health, HealthState
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.core.machines.builtin import Put, encode_op
from penstock.quorum.node.health import NODE_CHECKS, add_node_checks
from penstock.quorum.records.messages import ChangeOp
from penstock.server.machine.supervised import SupervisedRole

JOURNAL = "shop/orders"
pytestmark = pytest.mark.timeout(120)
DRILLED: set[str] = set()


def drill(*checks: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    DRILLED.update(checks)
    return lambda test: test


async def until(health: Health, check: str, state: HealthState) -> CheckReport:
    async with asyncio.timeout(WAIT_S):
        while True:
            (report,) = (each for each in health.report() if each.check == check)
            if report.state is state:
                return report
            await asyncio.sleep(0.02)


@drill("journal.disk")
async def test_a_disk_without_room(tmp_path: Path) -> None:
    health = Health()
    with small_disk(tmp_path) as disk:
        disk.hold(tmp_path, "b1")
        async with running_cluster(tmp_path, 1, default_store="") as cluster, cluster.client() as journals:
            await cluster.create(JournalSpec(name=JOURNAL, replication=1, fragment=FragmentSpec(stores=())))
            add_broker_checks(health, cluster.brokers["b1"].server)
            disk.fill()
            with pytest.raises(DiskFull):
                await _append_for_ever(journals)
            report = await until(health, "journal.disk", HealthState.FAILED)
            assert report.next_step.startswith("free space on the disk of ")
            disk.free()
            await until(health, "journal.disk", HealthState.OK)


async def _append_for_ever(journals: Journals) -> None:
    for _ in range(100):
        await journals.append(JOURNAL, bytes(1 << 20), timeout=WAIT_S)


@drill("journal.stores")
async def test_a_store_that_takes_nothing(tmp_path: Path) -> None:
    health = Health()
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        (tmp_path / "objects").write_bytes(b"a file in the way of the store's folder")
        await cluster.create(JournalSpec(name=JOURNAL, replication=1, fragment=FragmentSpec(length=1_024)))
        add_broker_checks(health, cluster.brokers["b1"].server)
        for _ in range(3):
            await journals.append(JOURNAL, bytes(1_024), timeout=WAIT_S)
        report = await until(health, "journal.stores", HealthState.DEGRADED)
        assert "the store takes nothing" in report.why
        (tmp_path / "objects").unlink()
        await until(health, "journal.stores", HealthState.OK)


@drill("journal.replicas")
async def test_a_journal_with_too_few_brokers(tmp_path: Path) -> None:
    health = Health()
    async with running_cluster(tmp_path, 2) as cluster:
        await cluster.create(JournalSpec(name=JOURNAL, replication=2))
        first = cluster.primary(JOURNAL)
        other = "b1" if first == "b2" else "b2"
        add_broker_checks(health, cluster.brokers[first].server)
        await until(health, "journal.replicas", HealthState.OK)
        await cluster.stop(other)
        report = await until(health, "journal.replicas", HealthState.DEGRADED)
        assert report.why == f"1 of 2 brokers have {JOURNAL}"
        await cluster.start(other)
        await until(health, "journal.replicas", HealthState.OK)


@drill("journal.heads")
async def test_a_lost_head(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1, default_store="") as cluster:
        await cluster.create(JournalSpec(name=JOURNAL, replication=1))
        async with cluster.client() as journals:
            await journals.append(JOURNAL, b"lost")
        await cluster.stop("b1")
        shutil.rmtree(tmp_path / "b1" / "spools")
        await cluster.start("b1")
        health = Health()
        add_broker_checks(health, cluster.brokers["b1"].server)
        report = await until(health, "journal.heads", HealthState.DEGRADED)
        assert report.next_step == f"penstock journals explain {JOURNAL}"
        async with cluster.client() as journals:
            await _reset(journals)
        await until(health, "journal.heads", HealthState.OK)


async def _reset(journals: Journals) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            try:
                await journals.reset_head(JOURNAL)
            except PenstockError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(0.05)
            else:
                return


@drill("journal.quarantine")
async def test_files_in_quarantine(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.stop("b1")
        leftover = tmp_path / "b1" / "spools" / JOURNAL / "#spool"
        leftover.mkdir(parents=True)
        (leftover / "open-0000000000000000-1").write_bytes(b"without a state")
        for state in (HealthState.DEGRADED, HealthState.OK):
            health = Health()
            add_broker_checks(health, (await cluster.start("b1")).server)
            await until(health, "journal.quarantine", state)
            await cluster.stop("b1")
            shutil.rmtree(tmp_path / "b1" / "quarantine", ignore_errors=True)


@drill("log.leader", "log.replicas")
async def test_nodes_that_stop_and_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    async with quorum_cluster.running_cluster(tmp_path) as cluster:
        async with QuorumLog(list(cluster.addresses.values()), "main") as log:
            await log.append(encode_op(Put("k", b"")))
        last, *others = cluster.nodes
        health = Health()
        add_node_checks(health, cluster.nodes[last])
        await until(health, "log.leader", HealthState.OK)
        for name in others:
            await cluster.stop_node(name)
        report = await until(health, "log.leader", HealthState.FAILED)
        assert report.next_step == "penstock quorum shards"
        for name in others:
            await cluster.start_node(name)
        await until(health, "log.leader", HealthState.OK)
        await cluster.stop_node(last)
        state = tmp_path / last / "shards" / "main" / "state"
        whole = state.read_bytes()
        for content, expected in ((b"x" * len(whole), HealthState.FAILED), (whole, HealthState.OK)):
            state.write_bytes(content)
            health = Health()
            await cluster.start_node(last)
            add_node_checks(health, cluster.nodes[last])
            await until(health, "log.replicas", expected)
            await cluster.stop_node(last)
        await cluster.start_node(last)


@drill("log.states")
async def test_a_state_that_differs(tmp_path: Path) -> None:
    async with (
        quorum_cluster.running_cluster(tmp_path) as cluster,
        QuorumLog(list(cluster.addresses.values()), "main") as log,
    ):
        await log.append(encode_op(Put("k", b"")))
        wrong = next(name for name in cluster.nodes if name != cluster.leader())
        health = Health()
        add_node_checks(health, cluster.nodes[wrong])
        await damage(cluster, log, wrong)
        report = await until(health, "log.states", HealthState.DEGRADED)
        assert report.next_step == f"penstock quorum swap {wrong} {wrong}"
        await cluster.operator.reconfigure("main", ChangeOp.SWAP, NodeId(wrong), NodeId(wrong))
        await until(health, "log.states", HealthState.OK)


class GatedQueue(SharedQueue):
    """A queue that delivers nothing while its gate is shut."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        async for batch in super().read(cursor):
            await self.gate.wait()
            yield batch


@drill("lake.queue")
async def test_a_queue_that_delivers_nothing(tmp_path: Path) -> None:
    queue, health = GatedQueue(), Health()
    (host,) = await members(queue, tmp_path, "m")
    remove = add_lake_checks(health, host)
    await until(health, "lake.queue", HealthState.OK)
    queue.gate.clear()
    report = await until(health, "lake.queue", HealthState.FAILED)
    assert "the queue has not returned a SYNC" in report.why
    queue.gate.set()
    await until(health, "lake.queue", HealthState.OK)
    remove()
    await host.close()


@drill("role")
async def test_a_role_that_does_not_run() -> None:
    role = SupervisedRole("lake", lambda: None)  # type: ignore[arg-type,return-value]  # it is not opened
    health = Health()
    health.add("role", role.name, role.look)
    assert health.report()[0].why == "the lake does not run: it has not started yet"
    role.running = object()  # type: ignore[assignment]
    assert health.state() is HealthState.OK


def test_each_check_has_a_drill() -> None:
    assert {*BROKER_CHECKS, *NODE_CHECKS, *LAKE_CHECKS, "role"} == DRILLED
