"""A soak of the sink `lake`: drivers are killed, frozen and doubled at random; every row must be in the lake once.

    python -m tests.spark.soak_lake --minutes 10 --report docs/reports/faults-spark-lake.md

Real processes throughout: a Spark driver of its own for each life of the query. Its checkpoint is kept as Spark keeps
it by itself, with renames which never overwrite: two drivers at once would spoil one which is kept as the tests do.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
from tests.integration.evidence import keep
from tests.lake.rest.servers import LakeProcess
from tests.spark.lakes import Orders, access_of, make_repository, options_of

from penstock.spark.tables.lake_access import table_url
from penstock.spark.tables.lake_tree import files_of

URL = "lake://soak@main/orders"
FINISH_S = 900.0  # for the last driver, which nobody disturbs
DRIVER = """
import sys
from tests.spark.conftest import builder
from tests.spark.lakes import Orders
from pathlib import Path
import penstock.spark
folder, url, key, secret = Path(sys.argv[1]), *sys.argv[2:]
manager = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
building = builder(folder / "spark").config("spark.log.level", "ERROR")
spark = building.config("spark.sql.streaming.checkpointFileManagerClass", manager).getOrCreate()
penstock.spark.register(spark)
frame = spark.readStream.schema(Orders.SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
options = {"lake": url, "access_key_id": key, "secret_access_key": secret, "sink": "soak"}
query = frame.writeStream.format("lake").options(**options).option("checkpointLocation", str(folder / "checkpoint"))
query.start("lake://soak@main/orders").awaitTermination()
"""


class Soak:
    """One run."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.orders = Orders(folder / "in")
        self.lake = LakeProcess(folder / "lake")
        self.random = random.Random(seed)
        self.happened: Counter[str] = Counter()
        self.written = 0
        self.said = folder / "drivers.log"
        self.last_words = ""
        self._drivers: list[subprocess.Popen[bytes]] = []

    def run(self, seconds: float) -> list[int]:
        end = time.monotonic() + seconds
        with self.lake:
            make_repository(self.lake, "soak")
            self._start()
            while time.monotonic() < end:
                self._add()
                time.sleep(self.random.uniform(0.5, 8.0))  # what a driver is doing just then is anybody's guess
                self._strike()
            self._finish()
            return self._found()

    def _add(self) -> None:
        count = self.random.randrange(1, 50)
        self.orders.add(*range(self.written, self.written + count))
        self.written += count

    def _start(self) -> None:
        options = options_of(self.lake)
        arguments = [str(self.folder), options["lake"], options["access_key_id"], options["secret_access_key"]]
        with self.said.open("ab") as said:
            self._drivers.append(
                subprocess.Popen(
                    [sys.executable, "-c", DRIVER, *arguments], start_new_session=True, stdout=said, stderr=said
                )
            )

    def _strike(self) -> None:
        what = self.random.choice(("kill the driver", "two drivers", "a zombie", "nothing", "nothing"))
        self.happened[what] += 1
        match what:
            case "kill the driver":
                self._kill_all()
                self._start()
            case "two drivers":
                self._start()
            case "a zombie":
                frozen = self._drivers[-1]
                _signal(frozen, signal.SIGSTOP)
                self._start()
                self._add()
                time.sleep(self.random.uniform(5.0, 20.0))
                _signal(frozen, signal.SIGCONT)
            case _:
                if all(each.poll() is not None for each in self._drivers):
                    self._start()  # Spark ends the one which lost

    def _finish(self) -> None:
        self._kill_all()
        self._start()
        deadline = time.monotonic() + FINISH_S
        while time.monotonic() < deadline and len(set(self._found())) < self.written:
            if self._drivers[-1].poll() is not None:
                self._start()
            time.sleep(1.0)
        self._kill_all()
        self.last_words = self.said.read_text(errors="replace")[-4000:]

    def _kill_all(self) -> None:
        for each in self._drivers:
            _signal(each, signal.SIGKILL)
            each.wait()
        self._drivers.clear()

    def _found(self) -> list[int]:
        files = files_of(access_of(self.lake), table_url(URL)).files
        tables = [pq.read_table(Path(unquote(urlsplit(each.url).path)), columns=["id"]) for each in files]
        return [id_ for table in tables for id_ in table["id"].to_pylist()]


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        soak = Soak(Path(folder), given.seed)
        found = soak.run(60 * given.minutes)
    lost, doubled = len(set(range(soak.written)) - set(found)), len(found) - len(set(found))
    lines = [
        "# Faults on Spark's drivers, with the lake as sink",
        "",
        f"{given.minutes:g} minutes, seed {given.seed}. Every row of a stream must be in the lake once.",
        "",
        "| figure | count |",
        "|---|---|",
        f"| rows written to the source | {soak.written:,} |",
        f"| rows not there {FINISH_S:.0f} s after the last fault | {lost:,} |",
        f"| rows twice | {doubled:,} |",
        *(f"| {what} | {count:,} |" for what, count in sorted(soak.happened.items())),
    ]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if given.report is not None:
        given.report.write_text(text)
        faults = soak.happened.total() - soak.happened["nothing"]
        found_all = "every row once" if not lost and not doubled else f"{lost:,} rows lost, {doubled:,} twice"
        keep(given.report, "51-faults-spark-lake", f"{soak.written:,} rows, {faults} faults", found_all)
    if lost or doubled:
        sys.stderr.write(soak.last_words)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
