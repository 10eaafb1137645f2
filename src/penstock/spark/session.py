"""A Spark for pipelines which were started without one: on this machine by default, or any master, or Spark Connect."""

import importlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from penstock.kernel.errors import ConfigError
from penstock.spark import register
from penstock.spark.session_log import captured, reason_in

__all__ = ["ARROW_OPTIONS", "CODE_CACHE", "session_settings", "spark_session"]

# Rows are made of columns without asking for each value whether it lies within its buffer: batches were checked before.
ARROW_OPTIONS: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# With the first compiler only, Java reserves room for 48 MB of code: too little for a Spark with hundreds of queries.
CODE_CACHE: Final = "-XX:ReservedCodeCacheSize=240m"
# What makes Spark quick and quiet on one machine.
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {CODE_CACHE} {ARROW_OPTIONS}",
}
# 200 tasks for each shuffle, a cluster's default, cost a small flow a minute a batch. Spark's bar covers our lines.
CLUSTER: Final = {"spark.sql.shuffle.partitions": "8", "spark.ui.showConsoleProgress": "false"}
EVERYWHERE: Final = {"spark.sql.session.timeZone": "UTC"}
STARTED: Final = {  # what a Spark takes when it starts, and not from a session behind Spark Connect
    "spark.log.level": "ERROR",
    "spark.python.daemon.module": "penstock.spark.daemon",  # so that workers find their modules loaded
    "spark.python.authenticate.socketTimeout": "300s",  # 15 s are too few for workers which start on a busy machine
}
END_S: Final = 30


@contextmanager
def spark_session(
    name: str,
    *,
    master: str = "",
    remote: str = "",
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[SparkSession]:
    """A session with the formats of Penstock. An active session of this process is used, and left as it was.

    With `log`, the Java process of a new session writes there, and nothing to the terminal.
    """
    there = SparkSession.getActiveSession() if not master and not remote else None
    if there is not None:
        register(there)
        yield there
        return
    spark = _started(name, master, remote, settings or {}, None if remote else log)
    try:
        yield spark
    finally:
        _end(spark)


def _started(name: str, master: str, remote: str, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    """Tasks of a local one may fail three times, as on a cluster."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if remote:
        _check_connect()
    builder = SparkSession.Builder().appName(name)
    here = f"local[{os.cpu_count() or 2},4]"
    builder = builder.remote(remote) if remote else builder.master(master or here)
    is_local = not remote and not master
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for key, value in session_settings(master, remote, settings, is_logged=log is not None).items():
        builder = builder.config(key, value)
    into: AbstractContextManager[None] = nullcontext() if log is None else captured(log)
    if log is not None:
        _quieten()
    try:
        with into:
            spark = builder.getOrCreate()
    except PySparkException as error:
        if log is None:
            raise
        why = reason_in(log) or str(error)
        raise ConfigError(f"Spark did not start: {why}", next_step=f"read {log}") from error
    register(spark)
    return spark


def session_settings(master: str, remote: str, settings: Mapping[str, str], *, is_logged: bool) -> dict[str, str]:
    """Return the settings of a new session. Those that the user gave count more than ours."""
    if remote:
        return {**EVERYWHERE, **settings}
    place = CLUSTER if master else LOCAL
    level = {"spark.log.level": "WARN"} if is_logged else {}
    return {**place, **STARTED, **level, **EVERYWHERE, **settings}


def _quieten() -> None:
    """Have PySpark's Python loggers say nothing of errors that it raises as well: their traces would be read first."""
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _check_connect() -> None:
    """PySpark's own check ends the process, with a word about doctests and status 0."""
    try:
        for name in ("grpc", "grpc_status", "google.protobuf", "google.rpc"):
            importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"Spark Connect needs packages which are not here: {error}", next_step="pip install 'penstock[connect]'"
        ) from error


def _end(spark: SparkSession) -> None:
    """Stop it, and its JVM if it is ours: `stop` alone leaves that running."""
    spark.stop()
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    process.stdin.close()  # which is how the JVM learns that it is over
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
