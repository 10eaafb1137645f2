"""The guide to a first pipeline: its commands run as printed, in order, against a real server and a real Spark."""

import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET

from penstock.cli.main import run
from penstock.spark.tables.table import read_table

pytestmark = pytest.mark.timeout(900)
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "pipeline.md"


def fenced(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run_line(line: str, folder: Path) -> None:
    """One command as in a shell; pipelines in this process, so that they share its Spark."""
    if not line.startswith("penstock pipeline"):
        done = shell(line, folder)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return
    command, _, or_true = line.partition(" || ")
    status = run(shlex.split(command)[1:])
    assert status == (1 if or_true else 0), line  # where the page says so, it is refused


def test_every_command_of_the_page_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = [line for block in fenced("sh") for line in block.splitlines()]
    assert lines[0] == "penstock up"
    assert sum("penstock pipeline" in line for line in lines) >= 8
    monkeypatch.chdir(tmp_path)
    (tmp_path / "revenue.py").write_text("\n".join(fenced("python")))
    with UpProcess(tmp_path / "penstock-data") as server:
        monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
        for line in lines[1:]:
            run_line(line, tmp_path)
        options = {"lake": server.running.lake, "access_key_id": KEY, "secret_access_key": SECRET}
        found = read_table(spark, "lake://shop@main/revenue", options=options).collect()
        assert {row["sku"]: str(row["sum(amount)"]) for row in found} == {"kettle": "119.70", "cup": "41.70"}
        rows = read_table(spark, "lake://shop@main/orders", options=options).collect()
        assert sorted(str(row["amount"]) for row in rows) == ["39.90", "41.70", "79.80"]
    said = capfd.readouterr()
    assert "the checkpoint was reset, or two queries share the sink" in said.err
    assert "penstock pipeline adopt revenue.revenue" in said.err
