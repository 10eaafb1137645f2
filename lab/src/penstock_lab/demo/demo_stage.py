"""The demo's stage: a cluster of real processes, a lake, and a Spark driver; each of them can be killed and comes back.

<folder>/cluster/          operator, quorum nodes, brokers, each with its log file
<folder>/objects/          the lake's objects
<folder>/lake.log          what the lake says
<folder>/pipeline.log      what Spark's driver says
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.cli.quorum.cluster import wait_for_brokers, wait_until_ready
from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import JournalSpec
from penstock.quorum.client.operator import Operators
from penstock.server.cluster.local import LocalCluster
from penstock.spark.tables.lake_access import LakeAccess

__all__ = ["JOURNAL", "PIPELINE", "Stage"]

JOURNAL: Final = "shop/orders"
PIPELINE: Final = Path(__file__).with_name("demo_pipeline.py")
END_S: Final = 60.0
READY_S: Final = 300.0  # nine processes start at once, maybe on a machine which has other things to do


class Stage:
    """Everything which runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = LocalCluster.create(folder / "cluster", nodes=3, brokers=3, machine="log")
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            self._lake_port = held.getsockname()[1]
        self.lake = LakeAccess(f"http://127.0.0.1:{self._lake_port}", "AKIADEMO", secrets.token_hex(16))
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def brokers(self) -> list[str]:
        return self.cluster.addresses("broker")

    async def start(self) -> None:
        """Everything but Spark."""
        self.cluster.start_all()
        await wait_until_ready(self.cluster, 3, READY_S)
        await wait_for_brokers(self.cluster, READY_S)
        async with Journals(self.brokers) as journals:
            await journals.create(JournalSpec(name=JOURNAL, replication=3))
        self.start_lake()

    def start_lake(self) -> None:
        where = ["--listen", f"127.0.0.1:{self._lake_port}", "--cluster", str(self.cluster.folder), "--name", "demo"]
        self._start("lake", ["lake", "serve", *where])

    def start_pipeline(self) -> None:
        """Spark's driver, in a group of its own: its children die with it."""
        brokers = [part for address in self.brokers for part in ("--broker", address)]
        checkpoints = ["--checkpoints", str(self.folder / "checkpoints")]
        self._start("pipeline", ["pipeline", "run", str(PIPELINE), *brokers, "--lake", self.lake.url, *checkpoints])

    def _start(self, name: str, arguments: list[str]) -> None:
        environment = {
            **os.environ,
            "PENSTOCK_DATA_FOLDER": str(self.folder / name),
            "PENSTOCK_OBJECTSTORE_URL": (self.folder / "objects").absolute().as_uri(),
            "PENSTOCK_LAKE_ACCESS_KEY_ID": self.lake.key,
            "PENSTOCK_LAKE_SECRET_ACCESS_KEY": self.lake.secret,
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "penstock", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    # the processes by name

    async def leader(self) -> str:
        """The node which leads the lake's queue."""
        async with Operators(self.cluster.addresses("operator")) as operators:
            metadata = (await operators.status()).shards[self.cluster.plan.shard][0]
        if metadata is None or metadata.leader is None:
            return self.cluster.names("node")[0]
        return metadata.leader.node

    async def primary(self) -> str:
        """The broker which takes the appends of the orders."""
        async with Journals(self.brokers) as journals:
            for info in await journals.list(f"name={JOURNAL}"):
                if info.primary is not None:
                    return info.primary.broker.rpartition("#")[2]  # without its zone
        return self.cluster.names("broker")[0]

    # ends

    def ended(self) -> list[str]:
        """Return the processes that should run, and do not."""
        ours = [name for name, process in self._processes.items() if process.poll() is not None]
        return ours + [each.name for each in self.cluster.plan.processes if not self.cluster.is_running(each.name)]

    def start_again(self, name: str) -> None:
        starts = {"lake": self.start_lake, "pipeline": self.start_pipeline}
        starts.get(name, lambda: self.cluster.start(name))()

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """kill -9, with all it has started."""
        process = self._processes[name]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def end(self, name: str) -> None:
        """Stop it as Ctrl-C would."""
        process = self._processes.get(name)
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a JVM which did not follow

    def stop(self) -> None:
        for name in ("pipeline", "lake"):
            self.end(name)
        self.cluster.stop_all()

    def last_words(self, name: str, lines: int = 15) -> str:
        if name not in self._processes:
            return self.cluster.log_tail(name, lines)
        path = self.folder / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""
