"""A local cluster: a process is frozen between two commits to the KeySpace, never in one."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.kernel.errors import NotFound, Overloaded
from penstock.keyspace.shell.embedded.lock import LOCK_FILE, WriterLock, is_stopped
from penstock.server.cluster import local
from penstock.server.cluster.local import LocalCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster.create(tmp_path / "cluster", nodes=0, brokers=1)
    cluster.start_all()
    try:
        yield cluster
    finally:
        cluster.stop_all()


@pytest.fixture
def lock(cluster: LocalCluster) -> Iterator[WriterLock]:
    """As another process of the cluster has it while it commits."""
    keyspace = Path(cluster.keyspace)
    keyspace.mkdir(exist_ok=True)
    lock = WriterLock(keyspace / LOCK_FILE, 60_000)
    yield lock
    lock.close()


def test_who_may_be_in_a_commit_is_not_frozen(
    cluster: LocalCluster, lock: WriterLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "FREEZE_MS_MAX", 50)
    lock.acquire()
    with pytest.raises(Overloaded, match="writer lock"):
        cluster.kill("b1", signal.SIGSTOP)
    assert not is_stopped(cluster.plan.pids["b1"])


def test_the_keyspace_of_a_frozen_process_is_free(cluster: LocalCluster, lock: WriterLock) -> None:
    cluster.kill("b1", signal.SIGSTOP)
    assert is_stopped(cluster.plan.pids["b1"])
    lock.acquire()
    lock.release()
    cluster.kill("b1", signal.SIGCONT)
    assert not is_stopped(cluster.plan.pids["b1"])


def test_who_does_not_run_cannot_be_frozen(tmp_path: Path) -> None:
    idle = LocalCluster.create(tmp_path / "idle", nodes=0, brokers=1)
    with pytest.raises(NotFound, match="b1 does not run"):
        idle.kill("b1", signal.SIGSTOP)
