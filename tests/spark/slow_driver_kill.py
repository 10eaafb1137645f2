"""kill -9 of a real driver, at one step of each route; the next one goes on from its checkpoint.

`make soak-spark` runs it, and `soak_spark.py` with every other step: each costs a JVM of its own.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.histories import make
from tests.spark.journals.test_journal_sink import put
from tests.spark.lakes import make_repository, options_of
from tests.spark.routes import ROUTES, Place

from penstock.journals.client.journal_blocking import BlockingJournals

ROOT = Path(__file__).parents[2]
ROWS = 120


def with_tests(environment: Mapping[str, str]) -> dict[str, str]:
    """For processes which need this package of tests."""
    return {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])}


def run_driver(place: Place, point: str) -> "subprocess.Popen[bytes]":
    """A driver, whose words are in a file beside its checkpoint."""
    command = [sys.executable, "-m", "tests.spark.driver", msgspec.json.encode(place).decode(), point]
    with Path(place.checkpoint + ".log").open("ab") as said:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=with_tests(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def end_driver(driver: "subprocess.Popen[bytes]") -> None:
    """Whatever is left of it, its JVM too."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def last_words(place: Place) -> str:
    return Path(place.checkpoint + ".log").read_text(errors="replace")[-2000:]


def prepared(
    route: str, name: str, brokers: Brokers, journals: BlockingJournals, lake: LakeProcess, folder: Path
) -> Place:
    """A source with all its rows, and what they go to."""
    source = make(journals, f"{name}/in")
    is_lake = route != "journal"
    target = make_repository(lake, name.replace("/", "-")) if is_lake else f"{name}/out"
    options = options_of(lake) if is_lake else {}
    place = Place(route, brokers.address, source, target, str(folder / f"checkpoint-{route}"), options)
    ROUTES[route].prepare(place, journals)
    put(journals, source, range(ROWS))
    return place


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("route", "point"),
    [
        ("journal", "sink: after the record"),
        ("lake", "sink: after the request"),
        ("together", "sink: tables staged"),
        ("audited", "merge: before the request"),
        ("stateful", "sink: tables staged"),
        ("stateful", "sink: after the request"),
    ],
)
def test_a_driver_which_is_killed_loses_and_repeats_nothing(
    route: str,
    point: str,
    spark: SparkSession,
    brokers: Brokers,
    journals: BlockingJournals,
    lake: LakeProcess,
    tmp_path: Path,
) -> None:
    place = prepared(route, f"kill/{route}", brokers, journals, lake, tmp_path)
    driver = run_driver(place, point)
    try:
        assert driver.wait() == -signal.SIGKILL, last_words(place)
    finally:
        end_driver(driver)
    assert 0 < len(ROUTES[route].seen(place, journals)) < ROWS  # the batch before is there
    ROUTES[route].run(spark, place)
    assert ROUTES[route].seen(place, journals) == list(range(ROWS))


@pytest.mark.timeout(3600)
def test_a_driver_which_is_killed_at_random_moments_equals_the_batch_answer(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake: LakeProcess, tmp_path: Path
) -> None:
    """KILLS=100 for the long run. A driver is killed between the first batch of its life and its end."""
    place = prepared("stateful", "kill/random", brokers, journals, lake, tmp_path)
    commits = Path(place.checkpoint) / "rows" / "commits"
    rng, kills = random.Random(21), int(os.environ.get("KILLS", "4"))
    for life in range(kills):
        put(journals, place.source, range((life + 1) * ROWS, (life + 2) * ROWS))
        before, driver = committed(commits), run_driver(place, "")
        try:
            while committed(commits) == before and driver.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    driver.wait(0.02)
            with contextlib.suppress(subprocess.TimeoutExpired):
                driver.wait(rng.random() * 2)
        finally:
            end_driver(driver)
        seen = ROUTES["stateful"].seen(place, journals)
        assert seen == sorted(set(seen)), last_words(place)
    ROUTES["stateful"].run(spark, place)
    assert ROUTES["stateful"].seen(place, journals) == list(range((kills + 1) * ROWS))


def committed(folder: Path) -> int:
    """The batches that Spark knows as done."""
    return len(list(folder.glob("[0-9]*")))
