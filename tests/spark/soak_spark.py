"""`make soak-spark`: a real driver is killed, or frozen and let go, at every step of a batch; rows must be there once.

For each point: a driver of its own process runs from one journal into two others, and ends with kill -9 at the point.
Another one goes on from its checkpoint. Then a plain reader of committed messages must find every row once, in both
journals. For the points of the sink a driver is also stopped there (SIGSTOP), the next one runs to the end, and the
stopped one is let go: it must change nothing.
"""

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.spark.conftest import Brokers, builder, end_jvm, run_to_end
from tests.spark.driver import POINTS, start
from tests.spark.histories import make
from tests.spark.slow_driver_kill import end_driver, run_driver
from tests.spark.test_journal_sink import numbers_of, put

import penstock.spark
from penstock.client.journal_blocking import BlockingJournals

ROWS = 120
FROZEN = tuple(point for point in POINTS if point.startswith("sink"))
WAIT_S = 600.0


class Soak:
    """One Spark which goes on where others died, one broker, and what was found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._brokers = Brokers(folder / "brokers")
        self._spark = builder(folder / "spark").getOrCreate()
        penstock.spark.register(self._spark)
        self._journals = BlockingJournals(self._brokers.addresses)
        self._runs = 0

    def close(self) -> None:
        self._journals.close()
        self._spark.stop()
        end_jvm()
        self._brokers.close()

    def kill(self, point: str) -> str:
        """kill -9 there, then another driver goes on."""
        source, target, checkpoint = self._prepare()
        driver = run_driver(self._brokers.address, source, target, checkpoint, point)
        try:
            code = driver.wait(WAIT_S)
        finally:
            end_driver(driver)
        if code != -signal.SIGKILL:
            return f"the driver was not killed there: it ended with {code}"
        before = len(self._seen(target))
        self._go_on(source, target, checkpoint)
        return self._judge(target, f"{before} rows were seen when it died")

    def freeze(self, point: str) -> str:
        """SIGSTOP there, another driver runs to the end, SIGCONT."""
        source, target, checkpoint = self._prepare()
        mark = Path(checkpoint + ".mark")
        driver = run_driver(self._brokers.address, source, target, checkpoint, f"stop:{point}")
        try:
            _until(lambda: mark.exists() or driver.poll() is not None)
            if not mark.exists():
                return f"the driver was not stopped there: it ended with {driver.returncode}"
            self._go_on(source, target, checkpoint)
            seen = self._seen(target)
        except BaseException:
            end_driver(driver)
            raise
        finally:
            if mark.exists():
                for pid in reversed(json.loads(mark.read_text())):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
        try:
            code = driver.wait(WAIT_S)
        finally:
            end_driver(driver)
        if self._seen(target) != seen:
            return "WRONG: the zombie changed what is seen"
        return self._judge(target, f"the zombie ended with {code}")

    def _prepare(self) -> tuple[str, str, str]:
        self._runs += 1
        name = f"soak/{self._runs}"
        source = make(self._journals, f"{name}/in")
        for which in ("even", "odd"):
            make(self._journals, f"{name}/out/{which}")
        put(self._journals, source, range(ROWS))
        return source, f"{name}/out", str(self._folder / f"checkpoint-{self._runs}")

    def _go_on(self, source: str, target: str, checkpoint: str) -> None:
        run_to_end(lambda: start(self._spark, "journal", self._brokers.address, source, target, checkpoint))

    def _seen(self, target: str) -> list[int]:
        return sorted(number for which in ("even", "odd") for number in numbers_of(self._journals, f"{target}/{which}"))

    def _judge(self, target: str, note: str) -> str:
        seen = self._seen(target)
        return f"every row once; {note}" if seen == list(range(ROWS)) else f"WRONG: {len(seen)} rows, {note}"


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--points", nargs="*", default=list(POINTS))
    arguments = parser.parse_args()
    rows: list[tuple[str, str, str, float]] = []
    with tempfile.TemporaryDirectory(prefix="penstock-soak-spark-") as folder:
        soak = Soak(Path(folder))
        try:
            for kind, points in (("kill -9", POINTS), ("frozen, then let go", FROZEN)):
                for point in [each for each in points if each in arguments.points]:
                    began = time.monotonic()
                    found = soak.kill(point) if kind == "kill -9" else soak.freeze(point)
                    rows.append((kind, point, found, time.monotonic() - began))
                    print(f"{kind} at {point}: {found}", flush=True)
                    if arguments.report is not None:
                        arguments.report.write_text(report(rows))
        finally:
            soak.close()
    return 0 if rows and all(row[2].startswith("every row once") for row in rows) else 1


def report(rows: list[tuple[str, str, str, float]]) -> str:
    good = sum(row[2].startswith("every row once") for row in rows)
    lines = [
        "# Faults on Spark drivers",
        "",
        f"Written by `make soak-spark` on {datetime.now(UTC):%Y-%m-%d}.",
        "A query from one journal into two others, exactly once.",
        "A real driver (its JVM and its Python) is killed with kill -9, or frozen with SIGSTOP, at one step of its",
        "second batch; another one goes on from its checkpoint; a plain reader of committed messages then counts",
        f"{ROWS} rows. {good} of {len(rows)} runs ended with every row once.",
        "",
        "| fault | at | outcome | seconds |",
        "|---|---|---|---|",
    ]
    lines += [f"| {kind} | {point} | {found} | {took:.0f} |" for kind, point, found, took in rows]
    lines += ["", f"Python {sys.version.split()[0]}, two cores, other work on them.", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
