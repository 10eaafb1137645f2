"""The same flow from a program, from spark-submit and from a cell of a notebook: the same rows, none twice.

`make soak-spark` runs this.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET

from penstock.spark.tables.table import read_table

pytestmark = pytest.mark.timeout(900)
FILE = """
from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("ways")
pipeline.flow(source=journal("shop/orders", schema="id long"), sink=lake("lake://shop@main/orders"), name="orders")(
    lambda raw: raw
)
"""
PROGRAM = FILE + '\nif __name__ == "__main__":\n    pipeline.main()\n'
CELL = FILE + '\nrun = pipeline.run(spark, until="now")\n'
SUBMIT = [str(Path(pyspark.__path__[0]) / "bin/spark-submit"), "--master", "local[2]"]


def test_each_way_continues_where_the_one_before_ended(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    (tmp_path / "shop.yaml").write_text("journals:\n  - {name: shop/orders, replication: 1}\n")
    (tmp_path / "ways.py").write_text(PROGRAM)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment.pop("PYSPARK_GATEWAY_PORT", None)
    with UpProcess(tmp_path / "penstock-data"):
        for line in ("penstock journals apply shop.yaml", "penstock lake repo create shop"):
            assert shell(line, tmp_path).returncode == 0
        ways: list[Any] = [
            [sys.executable, "ways.py", "--until-now"],
            [*SUBMIT, "ways.py", "--until-now"],
            [sys.executable, "-m", "penstock", "pipeline", "run", "ways.py", "--until-now"],
        ]
        for number, command in enumerate(ways):
            assert (
                shell(f"""echo '{{"id": {number}}}' | penstock journals append shop/orders""", tmp_path).returncode == 0
            )
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stderr
        assert shell("""echo '{"id": 3}' | penstock journals append shop/orders""", tmp_path).returncode == 0
        scope: dict[str, Any] = {"spark": spark}
        exec(CELL, scope)
        assert [each.flow for each in scope["run"].progress()] == ["orders"]
        rows = read_table(spark, "lake://shop@main/orders").collect()
        assert sorted(row["id"] for row in rows) == [0, 1, 2, 3]
        (tmp_path / "ways.py").write_text(PROGRAM.replace("lambda raw: raw", "lambda raw: raw.nosuch"))
        command = [*SUBMIT, "ways.py", "--until-now"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 2, done.stderr
        assert "ways.py, line 6" in done.stderr
