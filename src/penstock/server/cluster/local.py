"""A local cluster: real operators, nodes and brokers on one machine, each with its own folder, port and log file.

    <folder>/cluster.json    its processes; written before anything starts, so that a restart finds the same ports
    <folder>/<name>/         a process's data
    <folder>/<name>.log      its log

Processes are started by the owner of the `LocalCluster`, and end with it unless it is asked to leave them running.
"""

import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, Literal

import msgspec

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.keyspace.shell.embedded.lock import LOCK_FILE, WriterLock, is_stopped
from penstock.plumbing.process.ports import ReservedPorts

__all__ = ["ClusterPlan", "LocalCluster", "ProcessPlan", "Role"]

Role = Literal["node", "operator", "broker"]
PLAN: Final = "cluster.json"
STOP_S: Final = 10.0
FREEZE_MS_MAX: Final = 5_000  # waiting for the KeySpace to be idle


class ProcessPlan(msgspec.Struct, frozen=True):
    """One process: its role, where it listens."""

    name: str
    role: Role
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"


class ClusterPlan(msgspec.Struct):
    """All of them, and the process ids of those that run."""

    processes: list[ProcessPlan]
    shard: str
    machine: str = "map"
    snapshot_entries: int = 100_000
    failure_ms: int = 500
    lease_ms: int = 5_000  # of brokers
    keyspace: str = ""  # etcd://…; empty: embedded, in the cluster's folder
    pids: dict[str, int] = {}


class LocalCluster:
    """A cluster in a folder. All calls block briefly; none waits for the cluster to be healthy."""

    def __init__(self, folder: Path, plan: ClusterPlan) -> None:
        self.folder = folder
        self.plan = plan
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        nodes: int,
        spares: int = 0,
        operators: int = 1,
        shard: str = "main",
        machine: str = "map",
        snapshot_entries: int = 100_000,
        failure_ms: int = 500,
        brokers: int = 0,
        lease_ms: int = 5_000,
        keyspace: str = "",
    ) -> "LocalCluster":
        """A new plan, or the one the folder has already."""
        if (folder / PLAN).exists():
            return cls.load(folder)
        if nodes < 0 or brokers < 0 or nodes + brokers < 1 or (nodes and operators < 1):
            raise InvalidArgument("a local cluster has nodes and at least 1 operator, or brokers, or all of them")
        operators = operators if nodes else 0
        if nodes + spares + operators + brokers > 64:
            raise InvalidArgument("a local cluster has at most 64 processes")
        names: list[tuple[str, Role]] = [(f"op{n}", "operator") for n in range(1, operators + 1)]
        names += [(f"n{n}", "node") for n in range(1, nodes + spares + 1)]
        names += [(f"b{n}", "broker") for n in range(1, brokers + 1)]
        ports = ReservedPorts(len(names))
        processes = [ProcessPlan(name, role, port) for (name, role), port in zip(names, ports.numbers, strict=True)]
        folder.mkdir(parents=True, exist_ok=True)
        plan = ClusterPlan(processes, shard, machine, snapshot_entries, failure_ms, lease_ms, keyspace)
        cluster = cls(folder, plan)
        weakref.finalize(cluster, ports.close)  # until then no other process takes them, also while a process is down
        cluster._save()
        return cluster

    @classmethod
    def load(cls, folder: Path) -> "LocalCluster":
        try:
            data = (folder / PLAN).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"there is no cluster in {folder}", next_step="penstock cluster up --nodes 3") from None
        return cls(folder, msgspec.json.decode(data, type=ClusterPlan))

    # Processes and addresses

    def process(self, name: str) -> ProcessPlan:
        for each in self.plan.processes:
            if each.name == name:
                return each
        known = ", ".join(each.name for each in self.plan.processes)
        raise NotFound(f"no process is called {name}; there are: {known}")

    def names(self, role: Role) -> list[str]:
        return [each.name for each in self.plan.processes if each.role == role]

    def addresses(self, role: Role) -> list[str]:
        return [each.address for each in self.plan.processes if each.role == role]

    @property
    def keyspace(self) -> str:
        """The KeySpace of its processes: a folder, or a URL."""
        return self.plan.keyspace or str(self.folder / "keyspace")

    @property
    def store_url(self) -> str:
        """The fragment store of this cluster's journals, unless their specs name other stores."""
        return f"{(self.folder / 'objects').absolute().as_uri()}/"

    def is_running(self, name: str) -> bool:
        running = self._running.get(name)
        if running is not None:
            return running.poll() is None
        pid = self.plan.pids.get(name)
        return pid is not None and _is_ours(pid)

    # Life and death

    def start(self, name: str) -> None:
        """Start a process, unless it runs."""
        if self.is_running(name):
            return
        plan = self.process(name)
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                self._command(plan),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the process that runs the cluster, which then ends it in order
                env={**os.environ, "PENSTOCK_LOG_FORMAT": "json"},
            )
        self.plan.pids[name] = self._running[name].pid
        self._save()

    def start_all(self) -> None:
        for each in self.plan.processes:
            self.start(each.name)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal: SIGKILL ends it at once, SIGSTOP freezes it, SIGCONT resumes it."""
        if not self.is_running(name):
            raise NotFound(f"{name} does not run", next_step="penstock cluster status")
        with self._between_commits() if number == signal.SIGSTOP else nullcontext():
            os.kill(self.plan.pids[name], number)
            if number == signal.SIGSTOP:
                _wait_until_stopped(self.plan.pids[name])
        if number == signal.SIGKILL and name in self._running:
            self._running[name].wait()

    @contextmanager
    def _between_commits(self) -> Iterator[None]:
        """Wait for a moment without a commit to the embedded KeySpace: a process that is frozen in a commit holds its
        lock, and blocks all others.
        """
        lock_file = Path(self.keyspace) / LOCK_FILE
        if not lock_file.exists():
            yield
            return
        lock = WriterLock(lock_file, FREEZE_MS_MAX)
        try:
            lock.acquire()
            yield
        finally:
            lock.close()

    def stop_all(self) -> None:
        """Send SIGTERM to all, operators first, and SIGKILL to processes that do not end in time."""
        for each in self.plan.processes:
            if self.is_running(each.name):
                os.kill(self.plan.pids[each.name], signal.SIGCONT)
                os.kill(self.plan.pids[each.name], signal.SIGTERM)
        for name, running in self._running.items():
            try:
                running.wait(STOP_S)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
            self.plan.pids.pop(name, None)
        self._save()

    def exit_status(self, name: str) -> int | None:
        """Return the exit status of a process that we started; None while it runs, or if another process started it."""
        running = self._running.get(name)
        return running.poll() if running is not None else None

    def log_tail(self, name: str, lines: int = 20) -> str:
        path = self.folder / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""

    def _command(self, plan: ProcessPlan) -> Sequence[str]:
        common = ["--id", plan.name, "--listen", plan.address]
        if plan.role == "node":
            settings = ["--machine", self.plan.machine, "--snapshot-entries", str(self.plan.snapshot_entries)]
            where = ["--folder", str(self.folder / plan.name)]
        elif plan.role == "broker":
            settings = ["--store", self.store_url, "--lease", f"{self.plan.lease_ms}ms"]
            where = ["--folder", str(self.folder / plan.name), "--keyspace", self.keyspace]
        else:
            settings = ["--failure-after", f"{self.plan.failure_ms}ms"]
            where = ["--keyspace", self.keyspace]
            for each in self.plan.processes:
                if each.role == "node":
                    where += ["--node", f"{each.name}={each.address}"]
        return [sys.executable, "-m", "penstock", plan.role, *common, *where, *settings]

    def _save(self) -> None:
        temporary = self.folder / f"{PLAN}.new"
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(self.plan), indent=2))
        temporary.rename(self.folder / PLAN)


def _wait_until_stopped(pid: int) -> None:
    """A signal is taken when the process is next interrupted, so a moment later. Not every system says when."""
    if not Path("/proc/self/stat").exists():
        return
    end = time.monotonic() + FREEZE_MS_MAX / 1_000
    while not is_stopped(pid) and time.monotonic() < end:
        time.sleep(0.001)


def _is_ours(pid: int) -> bool:
    """Is this a Penstock process? A number from an old file may belong to anybody by now."""
    try:
        return b"penstock" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
