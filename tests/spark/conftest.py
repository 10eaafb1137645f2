"""One small Spark and one broker for all tests of this folder: whoever asks first waits for them.

One worker runs this whole folder (`tests/conftest.py`), so that there is one of each.
Journals are shared: name yours after your test.
"""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.journals.broker.cluster import WAIT_S, running_cluster
from tests.lake.rest.servers import LakeProcess
from tests.postgres import postgres

import penstock.spark
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.spark.session import ARROW_OPTIONS, CODE_CACHE
from penstock.spark.versions import HAS_READ_LIMITS, SPARK

__all__ = ["postgres"]
SLOW_STARTS_MAX = 30  # nothing was done by then: a query whose source was too slow to start is started again
CHECKPOINTS = "org.apache.spark.sql.execution.streaming" + (".checkpointing" if SPARK > (4, 0) else "")
# What makes a small Spark quick: the first compiler only, a simple collector, no web pages, log files renamed plainly.
SETTINGS = {
    "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {CODE_CACHE} -XX:+UseSerialGC {ARROW_OPTIONS}",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.python.daemon.module": "penstock.spark.daemon",  # as `spark_session` has it
    "spark.python.authenticate.socketTimeout": "300s",  # workers start slowly on a busy machine
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass": f"{CHECKPOINTS}.FileSystemBasedCheckpointFileManager",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def builder(folder: Path, master: str = "local[2,4]") -> SparkSession.Builder:
    """A session as the tests have it; four attempts for each task, so that retries happen."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    found = SparkSession.Builder().master(master).appName("penstock-tests")
    found = found.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    found = found.config("spark.local.dir", str(folder / "local"))
    for key, value in SETTINGS.items():
        found = found.config(key, value)
    return found


def end_jvm() -> None:
    """`stop` leaves the JVM there for a next session: nobody needs one."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        process.stdin.close()  # which is how the JVM learns that it is over
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_to_end(writer: DataStreamWriter, target: str | None = None) -> StreamingQuery:
    """Run a query until everything is read, in as many batches as its source's limit makes.

    Spark gives a source ten seconds to start, whatever the machine is busy with.
    """
    chosen = writer.trigger(availableNow=True) if HAS_READ_LIMITS else writer
    for _ in range(SLOW_STARTS_MAX):
        query = chosen.start(target)
        try:
            if not HAS_READ_LIMITS:
                query.processAllAvailable()
                query.stop()
            query.awaitTermination()
            return query
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
    raise AssertionError(f"Spark could not start a Python process within ten seconds, {SLOW_STARTS_MAX} times")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark of all tests, with the formats of Penstock."""
    session = builder(tmp_path_factory.mktemp("spark")).getOrCreate()
    penstock.spark.register(session)
    try:
        yield session
    finally:
        session.stop()
        end_jvm()


class Brokers:
    """A broker in a thread of its own, since Spark's Python workers come from other processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.addresses: list[str] = []
        self._is_up = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="brokers of the tests", daemon=True)
        self._thread.start()
        assert self._is_up.wait(WAIT_S), "no broker came up"
        if self._failure is not None:
            raise self._failure

    @property
    def address(self) -> str:
        return ",".join(self.addresses)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._is_up.set()

    async def _serve(self) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        # A machine which stands still for a minute has not lost its broker.
        async with running_cluster(self.folder, 1, lease_ms=600_000) as cluster:
            self.addresses = cluster.addresses
            self._is_up.set()
            await self._is_over.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join(WAIT_S)


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """The broker of all tests."""
    running = Brokers(tmp_path_factory.mktemp("brokers"))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def journals(brokers: Brokers) -> Iterator[BlockingJournals]:
    """A client of it."""
    with BlockingJournals(brokers.addresses) as client:
        yield client


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeProcess]:
    """The lake of all tests: a process of its own. Name repositories after your test."""
    with LakeProcess(tmp_path_factory.mktemp("lake")) as process:
        yield process
