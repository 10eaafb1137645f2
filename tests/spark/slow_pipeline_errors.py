"""What a terminal shows when a pipeline fails: our words, and nothing of Java. `make soak-spark` runs this."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET

pytestmark = pytest.mark.timeout(900)
HEAD = """from pyspark.sql import functions as F

from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("shop")


def picky(sku):
    raise ValueError(f"cannot work with {sku}")


@pipeline.flow(source=journal("shop/orders", schema="sku string"), sink=lake("lake://shop@main/orders"))
def orders(raw):
"""
PROGRAM = [sys.executable, "-m", "penstock", "pipeline", "run", "shop.py", "--once"]
FAILURES = {
    'return raw.withColumn("worked", F.udf(picky, "string")("sku"))': (
        "flow orders, batch 0 failed: shop.py, line 9, in picky: ValueError: cannot work with kettle"
    ),
    'return raw.selectExpr("nosuch")': "shop.py, line 14, in orders: AnalysisException: [UNRESOLVED_COLUMN",
    'return raw.selectExpr("cast(raise_error(sku) AS string) AS worked")': "kettle",
    "return raw.where(nosuch)": "shop.py, line 14, in orders: NameError: name 'nosuch' is not defined",
}


def ran(folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    variables = {**os.environ, **environment}
    return subprocess.run(PROGRAM, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)


def assert_is_quiet(done: "subprocess.CompletedProcess[str]") -> None:
    said = done.stdout + done.stderr
    for noise in ("\tat ", "Traceback", "WARN", "ERROR", "log4j", "defect", "java.lang", "org.apache.spark"):
        assert noise not in said, said


def test_no_trace_of_java_is_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    with UpProcess(tmp_path / "penstock-data"):
        (tmp_path / "shop.yaml").write_text("journals:\n  - {name: shop/orders, replication: 1}\n")
        for line in (
            "penstock journals apply shop.yaml",
            """echo '{"sku": "kettle"}' | penstock journals append shop/orders""",
            "penstock lake repo create shop",
        ):
            assert shell(line, tmp_path).returncode == 0
        for body, told in FAILURES.items():
            (tmp_path / "shop.py").write_text(f"{HEAD}    {body}\n")
            done = ran(tmp_path)
            assert told in done.stderr, done.stderr
            assert done.returncode == (1 if "raise_error" in body else 2)
            assert_is_quiet(done)
            assert "spark.log" in done.stderr
        assert "ValueError: cannot work with kettle" in (tmp_path / "penstock-data/spark.log").read_text()
        (tmp_path / "shop.py").write_text(f"{HEAD}    return raw\n")
        done = ran(tmp_path)
        assert done.returncode == 0
        assert_is_quiet(done)
        done = ran(tmp_path, JAVA_HOME=str(tmp_path / "nowhere"))
        assert done.returncode == 2
        assert "Spark did not start" in done.stderr
        assert_is_quiet(done)
