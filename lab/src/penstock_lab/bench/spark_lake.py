"""What a table of the lake costs against a plain folder of the very same Parquet files, read by the same Spark.

The lake resolves a ref to files and hands their places to Spark's own reader; nothing else should be paid for. Both
sides are measured from the call which makes the DataFrame to the last row of an aggregate over every column.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.spark.tables.lake_access import LakeAccess, table_url
from penstock.spark.tables.lake_tree import files_of
from penstock.spark.tables.table import read_table
from penstock_lab.bench.report import Options, RowRecorder, interleave

__all__ = ["lake_vs_parquet"]

BAR: Final = 0.95
WARM_RUNS: Final = 6  # until Java has compiled its code
OURS: Final = "lake table"
PEER: Final = "spark.read.parquet"
KEY: Final = "AKIABENCHMARKSPARK"
SECRET: Final = "a secret of the benchmark"
URL: Final = "lake://bench@main/rows"
_SERVES: Final = re.compile(r"serves REST and S3 on (http://\S+),")


def lake_vs_parquet(recorder: RowRecorder, options: Options, spark: Any, folder: Path) -> None:
    """Rows per second of both sides, and the bar between them."""
    rows = 20_000 if options.quick else 4_000_000
    with _lake(folder) as lake:
        lake.ask("POST", "/repositories", {"name": "bench", "storage_namespace": "local://bench"})
        recorder.progress(f"writing {rows:,} rows into the lake")
        frame = spark.range(0, rows, 1, 8).selectExpr(
            "id", "concat('sku', id % 1000) AS sku", "cast(id % 97 AS int) AS quantity", "id * 0.01 AS price"
        )
        began = time.perf_counter()
        frame.write.format("lake").mode("append").options(**lake.options).save(URL)
        recorder.row("write", OURS, rows / (time.perf_counter() - began), "rows/s", rows=rows)
        plain = _same_files(lake, folder / "plain")
        recorder.progress("reading both sides")
        cases: dict[str, Callable[[], float]] = {
            OURS: lambda: _seconds(lambda: read_table(spark, URL, options=lake.options)),
            PEER: lambda: _seconds(lambda: spark.read.parquet(f"file://{plain}")),
        }
        for case in [*cases.values()] * (1 if options.quick else WARM_RUNS):
            case()
        seconds = interleave(cases, 1 if options.quick else max(9, options.repeats))
    for side, took in seconds.items():
        recorder.row("read and aggregate", side, rows / took, "rows/s", rows=rows)
    recorder.bar("lake_vs_parquet", seconds[PEER] / seconds[OURS], at_least=BAR)


def _seconds(make: Any) -> float:
    began = time.perf_counter()
    make().selectExpr("sum(id)", "count(distinct sku)", "sum(quantity)", "sum(price)").collect()
    return time.perf_counter() - began


def _same_files(lake: LakeAccess, folder: Path) -> Path:
    """The lake's files again in a folder of their own: links, so that the bytes and the cache are the same."""
    folder.mkdir()
    for each in files_of(lake, table_url(URL)).files:
        os.link(unquote(urlsplit(each.url).path), folder / each.path.rpartition("/")[2])
    return folder


@contextmanager
def _lake(folder: Path) -> Iterator[LakeAccess]:
    """A lake in a process of its own."""
    environment = {
        **os.environ,
        "PENSTOCK_DATA_FOLDER": str(folder / "lake"),
        "PENSTOCK_LAKE_ACCESS_KEY_ID": KEY,
        "PENSTOCK_LAKE_SECRET_ACCESS_KEY": SECRET,
        "PENSTOCK_LOG_LEVEL": "warning",
    }
    command = [sys.executable, "-m", "penstock", "lake", "serve", "--alone", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = ""
            while (found := _SERVES.search(said.replace("\n", " "))) is None:
                line = process.stderr.readline()
                assert line, f"the lake did not start: {said}"
                said += line
            yield LakeAccess(found[1], KEY, SECRET)
        finally:
            process.terminate()
