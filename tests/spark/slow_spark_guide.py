"""The guide to journals with Spark: its blocks run as printed, in order, against a real server and a real Spark."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET

from penstock.cli.main import run
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import JournalSpec
from penstock.spark import diff_entries, find_garbage, read_entries, read_table

pytestmark = pytest.mark.timeout(900)
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"
ORDERS = [(1, "kettle", "39.90"), (2, "piano", "1999.00"), (3, "cup", "6.95"), (4, "kettle", "39.90")]
BLOCKS = ["session", "read", "columns", "stream", "compact", "import"]


def blocks(brokers: str, folder: Path) -> dict[str, str]:
    """The page's own code, with the addresses and folders of this test."""
    found = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    placed = [each.replace("127.0.0.1:7070", brokers).replace("/data/", f"{folder}/") for each in found]
    return dict(zip(BLOCKS, placed, strict=True))


def imported(spark: SparkSession) -> int:
    return read_entries(spark, "lake://shop@main").where("path LIKE 'raw/%'").count()


def test_every_block_of_the_page_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    with UpProcess(tmp_path / "penstock-data") as server:
        brokers = server.running.broker
        code = blocks(brokers, tmp_path)
        with BlockingJournals([brokers]) as journals:
            for name in ("shop/orders", "shop/large-orders"):
                journals.create(JournalSpec(name=name, replication=1))
            lines = [json.dumps({"id": id_, "product": what, "price": price}) + "\n" for id_, what, price in ORDERS]
            journals.append("shop/orders", "".join(lines).encode())
        made = shell("penstock lake repo create shop", tmp_path)
        assert made.returncode == 0, made.stderr
        scope: dict[str, Any] = {}

        exec(code["session"], scope)
        exec(code["read"], scope)
        assert "79.80" in capsys.readouterr().out
        exec(code["columns"], scope)
        assert re.search(r"kettle\|\s+2\|", capsys.readouterr().out)

        exec(code["stream"], scope)
        scope["query"].processAllAvailable()
        scope["query"].stop()
        large = spark.read.format("journal").option("brokers", brokers).schema("id long, product string")
        assert [(row["id"], row["product"]) for row in large.load("shop/large-orders").collect()] == [(2, "piano")]

        exec(code["compact"], scope)
        assert read_table(spark, "lake://shop@main/history").count() == len(ORDERS)
        assert run(["pipeline", "compact", "shop/orders", "lake://shop@main/history"]) == 0  # there is nothing new
        assert read_table(spark, "lake://shop@main/history").count() == len(ORDERS)

        columns = ("concat('part-', id) AS path", "concat('s3://archive/', id) AS address", "id AS size")
        scope["listing"] = spark.range(50).selectExpr(*columns, "string(id) AS etag", "id AS mtime_ns")
        exec(code["import"], scope)
        assert imported(spark) == 50
        scope["listing"].limit(7).write.option("header", "true").csv(str(tmp_path / "listing"))
        command = ["pipeline", "import", str(tmp_path / "listing"), "lake://shop@main/raw/"]
        assert run(command) == 2  # a folder's name does not say what is in it
        assert run([*command, "--format", "csv", "-m", "fewer"]) == 0
        assert imported(spark) == 7
        assert run([*command, "--format", "parquet"]) == 2
        assert diff_entries(spark, "lake://shop@main~1", "lake://shop@main").count() == 43
        assert find_garbage(spark, "lake://shop@main").collect() == []  # everything is referred to
        capsys.readouterr()
        assert run(["pipeline", "garbage", "lake://shop@main", "--output", "json"]) == 0
        assert json.loads(capsys.readouterr().out) == {"objects": 0, "bytes": 0, "largest": []}
