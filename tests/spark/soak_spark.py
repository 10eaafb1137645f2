"""`make soak-spark`: a real driver is killed, or frozen and let go, at every step of a batch; rows must be there once.

For each route and each of its points: a driver of its own process runs, and ends with kill -9 at the point. Another one
goes on from its checkpoint. Then a plain reader must find every row once, in all journals or tables of the route. For
the points of the sink a driver is also stopped there (SIGSTOP), the next one runs to the end, and the stopped one is
let go: it must change nothing.
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

from tests.integration.evidence import keep
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers, builder, end_jvm
from tests.spark.killing import strike
from tests.spark.routes import ROUTES, Place
from tests.spark.slow_driver_kill import ROWS, end_driver, last_words, prepared, run_driver

import penstock.spark
from penstock.journals.client.journal_blocking import BlockingJournals

WAIT_S = 600.0
GOOD = "every row once"
KILLED, FROZEN = "kill -9", "frozen, then let go"
Row = tuple[str, str, str, str, float]  # fault, route, point, outcome, seconds


class Soak:
    """One Spark which goes on where others died, one broker, one lake, and what was found."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._brokers = Brokers(folder / "brokers")
        self._lake = LakeProcess(folder / "lake")
        self._lake.start()
        self._spark = builder(folder / "spark").getOrCreate()
        penstock.spark.register(self._spark)
        self._journals = BlockingJournals(self._brokers.addresses)
        self._runs = 0

    def close(self) -> None:
        self._journals.close()
        self._spark.stop()
        end_jvm()
        self._lake.__exit__()
        self._brokers.close()

    def kill(self, route: str, point: str) -> str:
        """kill -9 there, then another driver goes on."""
        place = self._prepare(route)
        driver = run_driver(place, point)
        try:
            code = driver.wait(WAIT_S)
        finally:
            end_driver(driver)
        if code != -signal.SIGKILL:
            return f"the driver was not killed there: it ended with {code}: {last_words(place)}"
        before = len(self._seen(place))
        ROUTES[route].run(self._spark, place)
        return self._judge(place, f"{before} rows were seen when it died")

    def freeze(self, route: str, point: str) -> str:
        """SIGSTOP there, another driver runs to the end, SIGCONT."""
        place = self._prepare(route)
        mark = Path(place.checkpoint + ".mark")
        driver = run_driver(place, f"stop:{point}")
        try:
            _until(lambda: mark.exists() or driver.poll() is not None)
            if not mark.exists():
                return f"the driver was not stopped there: it ended with {driver.returncode}: {last_words(place)}"
            ROUTES[route].run(self._spark, place)
            seen = self._seen(place)
            with contextlib.suppress(ProcessLookupError):
                strike(json.loads(mark.read_text())[::-1], signal.SIGCONT)
            code = driver.wait(WAIT_S)
        finally:
            end_driver(driver)
        if self._seen(place) != seen:
            return "WRONG: the zombie changed what is seen"
        return self._judge(place, f"the zombie ended with {code}")

    def _prepare(self, route: str) -> Place:
        self._runs += 1
        folder = self._folder / str(self._runs)
        folder.mkdir()
        return prepared(route, f"soak/{self._runs}", self._brokers, self._journals, self._lake, folder)

    def _seen(self, place: Place) -> list[int]:
        return ROUTES[place.route].seen(place, self._journals)

    def _judge(self, place: Place, note: str) -> str:
        seen = self._seen(place)
        return f"{GOOD}; {note}" if seen == list(range(ROWS)) else f"WRONG: {len(seen)} rows, {note}"


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def drills(routes: list[str], wanted: list[str]) -> list[tuple[str, str, str]]:
    """Fault, route and point of every drill: all points are killed at, those behind the tasks frozen at."""
    found = []
    for route in routes:
        points = [each for each in ROUTES[route].points if not wanted or each in wanted]
        found += [(KILLED, route, each) for each in points]
        found += [(FROZEN, route, each) for each in points if not each.startswith("source")]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--routes", nargs="*", default=list(ROUTES), choices=list(ROUTES))
    parser.add_argument("--points", nargs="*", default=[])
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="penstock-soak-spark-") as folder:
        soak = Soak(Path(folder))
        try:
            for fault, route, point in drills(arguments.routes, arguments.points):
                began = time.monotonic()
                try:
                    found = soak.kill(route, point) if fault == KILLED else soak.freeze(route, point)
                except Exception as error:  # of the drill itself: what it did not see, it did not see
                    found = f"not seen: {type(error).__name__}: {error}"
                rows.append((fault, route, point, found, time.monotonic() - began))
                print(f"{route}: {fault} at {point}: {found}", flush=True)
                if arguments.report is not None:
                    arguments.report.write_text(report(rows, drills(list(ROUTES), [])))
                    good = sum(row[3].startswith(GOOD) for row in rows)
                    keep(arguments.report, "50-faults-spark", f"{len(rows)} runs", f"{good} runs: every row once")
        finally:
            soak.close()
    return 0 if rows and all(row[3].startswith(GOOD) for row in rows) else 1


def report(rows: list[Row], all_drills: list[tuple[str, str, str]]) -> str:
    good = sum(row[3].startswith(GOOD) for row in rows)
    lines = [
        "# Faults on Spark drivers",
        "",
        f"Written by `make soak-spark` on {datetime.now(UTC):%Y-%m-%d}. A real driver (its JVM and its Python) is",
        "killed with kill -9, or frozen with SIGSTOP, at one step of its second batch; another one goes on from its",
        f"checkpoint; a plain reader, which asks no Spark, then counts {ROWS} rows.",
        f"{good} of {len(rows)} runs ended with every row once.",
        "",
        "The routes: `journal`, one journal into two others; `lake`, a journal into a table of the lake; `together`,",
        "a journal into two tables in one commit; `audited`, a journal into a table by way of a branch, where it is",
        "checked before it is merged.",
        "",
        "| route | fault | at | outcome | seconds |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {route} | {fault} | {point} | {found.splitlines()[0]} | {took:.0f} |"
        for fault, route, point, found, took in rows
    ]
    run = {row[:3] for row in rows}
    left = [f"{route}, {fault} at {point}" for fault, route, point in all_drills if (fault, route, point) not in run]
    if left:
        lines += ["", f"Not run this time: {'; '.join(left)}."]
    lines += [
        "",
        f"Python {sys.version.split()[0]}, {os.cpu_count()} cores.",
        "",
        "Speculative attempts, tasks which fail behind their last row, and batches which are replayed have tests of",
        "their own, run by the same command: `slow_speculation.py`, `slow_lake_sink.py` and `slow_together.py` in",
        "`tests/spark`.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
