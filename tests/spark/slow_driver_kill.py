"""kill -9 of a real driver behind its commit point, before anything was seen: the next run publishes what it recorded.

`make soak-spark` runs it, and `soak_spark.py` with every other step: each costs a JVM of its own.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Brokers, run_to_end
from tests.spark.driver import start
from tests.spark.histories import make
from tests.spark.test_journal_sink import numbers_of, put

from penstock.client.journal_blocking import BlockingJournals

ROOT = Path(__file__).parents[2]


def run_driver(*arguments: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.spark.driver", *arguments]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


def end_driver(driver: "subprocess.Popen[bytes]") -> None:
    """Whatever is left of it, its JVM too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


@pytest.mark.timeout(600)
def test_a_driver_which_is_killed_behind_its_commit_point_loses_and_repeats_nothing(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    source, target = make(journals, "kill/in"), "kill/out"
    targets = [make(journals, f"{target}/{which}") for which in ("even", "odd")]
    put(journals, source, range(100))
    checkpoint = str(tmp_path / "checkpoint")
    driver = run_driver(brokers.address, source, target, checkpoint, "sink: after the record")
    try:
        assert driver.wait() == -9
    finally:
        end_driver(driver)
    seen = sorted(number for name in targets for number in numbers_of(journals, name))
    assert 0 < len(seen) < 100  # the batch before
    run_to_end(lambda: start(spark, "journal", brokers.address, source, target, checkpoint))
    assert sorted(number for name in targets for number in numbers_of(journals, name)) == list(range(100))
