"""Speculation, on a real cluster of two hosts: of two attempts which both wrote everything, one is seen.

`make soak-spark` runs these: Spark never speculates in local mode.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyspark
import pytest
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.histories import TIMEOUT_S
from tests.spark.lakes import log
from tests.spark.routes import ROUTES, Place
from tests.spark.slow_driver_kill import ROOT, ROWS, prepared, with_tests

from penstock.journals.client.journal_blocking import BlockingJournals

pytestmark = pytest.mark.timeout(900)
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HOSTS = ("127.0.0.2", "127.0.0.3")


class Standalone:
    """Spark's own small cluster: a master, and a worker with one core on each of two hosts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "127.0.0.1", "--port", str(port))
        self._wait_for_master(port)
        for host in HOSTS:
            more = ("--cores", "1", "--memory", "600m", "--work-dir", str(folder / host), self.master)
            self._start("worker", host, *more)

    def _start(self, role: str, host: str, *arguments: str) -> None:
        name = f"org.apache.spark.deploy.{role}.{role.title()}"
        command = [str(SPARK_CLASS), name, "--host", host, "--webui-port", "0", *arguments]
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self._folder / f"{role}-{host}.log").open("ab") as said:
            self._processes.append(
                subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True)
            )

    def _wait_for_master(self, port: int) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1.0).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "no master came up"
                time.sleep(0.1)

    def close(self) -> None:
        for each in reversed(self._processes):
            os.killpg(each.pid, signal.SIGTERM)
        for each in self._processes:
            try:
                each.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(each.pid, signal.SIGKILL)
                each.wait()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    try:
        yield cluster
    finally:
        cluster.close()


def run_slowly(standalone: Standalone, place: Place, folder: Path) -> set[str]:
    """Run the driver to its end; who wrote, and who woke behind the commit."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.spark.speculation", standalone.master]
    environment = with_tests(os.environ)
    done = subprocess.run(
        [*command, msgspec.json.encode(place).decode(), str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {each.name for each in folder.iterdir() if each.name.startswith(("wrote", "woke"))}


@pytest.mark.parametrize("route", ["journal", "lake", "together"])
def test_of_two_attempts_which_wrote_one_is_seen(
    route: str,
    standalone: Standalone,
    brokers: Brokers,
    journals: BlockingJournals,
    lake: LakeProcess,
    tmp_path: Path,
) -> None:
    place = prepared(route, f"speculation/{route}", brokers, journals, lake, tmp_path)
    happened = run_slowly(standalone, place, tmp_path / "happened")
    assert {"wrote-0-0", "wrote-0-1", "woke-0-0"} <= happened  # both wrote, and the first one ended after all
    assert ROUTES[route].seen(place, journals) == list(range(ROWS))
    if route == "journal":
        written = b"".join(
            bytes(chunk.content) for which in ("even", "odd") for chunk in journals.read(f"{place.target}/{which}")
        )
        assert written.count(b'"n":') > ROWS  # what lost is there, and nobody sees it
    else:
        assert len(log(lake, f"speculation-{route}")) == 1
