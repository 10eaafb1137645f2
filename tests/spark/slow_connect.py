"""Spark Connect: pipelines and reads of a client which has no JVM, at a real server of its own. Every row once, too."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pyspark
import pytest
from tests.cli.ups import UpProcess
from tests.docs.guides import shell
from tests.lake.rest.servers import KEY, SECRET

from penstock.plumbing.process.ports import ReservedPorts

pytestmark = pytest.mark.timeout(900)
START_S = 120.0
PIPELINE = """
from penstock.spark import Pipeline, journal, lake

pipeline = Pipeline("revenue")
ORDERS = journal("shop/orders", schema="sku string, quantity int, price decimal(9,2)")


@pipeline.flow(source=ORDERS, sink=lake("lake://shop@main/orders", checks={"quantities are positive": "quantity > 0"}))
def orders(raw):
    return raw.where("quantity > 0")


@pipeline.flow(source=ORDERS, sink=journal("shop/large"))
def large(raw):
    return raw.where("quantity > 5")


@pipeline.flow(
    source={"raw": ORDERS, "names": lake.table("lake://shop@main/names")},
    sink={"known": lake("lake://shop@main/known"), "skus": lake("lake://shop@main/skus")},
)
def split(raw, names):
    return {"known": raw.join(names, "sku"), "skus": raw.select("sku").dropDuplicates(["sku"])}
"""
READS = """
import json, os, sys
from pyspark.sql import SparkSession
import penstock.spark
from penstock.spark import read_changes, read_journal, read_table

spark = SparkSession.Builder().remote(sys.argv[1]).getOrCreate()
penstock.spark.register(spark)
orders = read_journal(spark, "shop/orders", schema="sku string, quantity int", brokers=sys.argv[2])
large = read_journal(spark, "shop/large", schema="sku string, quantity int", brokers=sys.argv[2])
table = read_table(spark, "lake://shop@main/orders")
changes = read_changes(spark, "lake://shop@main/orders", since=sys.argv[3])
print(json.dumps({
    "journal": sorted(map(tuple, orders.collect())),
    "large": sorted(map(tuple, large.collect())),
    "table": sorted((row["sku"], row["quantity"]) for row in table.collect()),
    "changes": changes.count(),
    "known": sorted((row["sku"], row["name"]) for row in read_table(spark, "lake://shop@main/known").collect()),
    "skus": sorted(row["sku"] for row in read_table(spark, "lake://shop@main/skus").collect()),
}))
spark.stop()
"""
NAMES = """
import sys
from pyspark.sql import SparkSession
import penstock.spark
spark = SparkSession.Builder().remote(sys.argv[1]).getOrCreate()
penstock.spark.register(spark)
names = spark.createDataFrame([("cup", "A cup"), ("kettle", "A kettle")], "sku string, name string")
place = dict(zip(("lake", "access_key_id", "secret_access_key"), sys.argv[2:]))  # the server's own environment has none
names.write.format("lake").mode("append").options(**place).save("lake://shop@main/names")
spark.stop()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark which is reached by Connect alone; the address of it."""
    folder = tmp_path_factory.mktemp("connect")
    with ReservedPorts(1) as ports:
        yield from _serve(folder, ports.numbers[0])


def _serve(folder: Path, port: int) -> Iterator[str]:
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.python.authenticate.socketTimeout": "300s",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    flags = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"),
        *(*flags, "spark-internal"),
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            grpc.channel_ready_future(channel).result(START_S)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def python(code: str, folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(command: str, folder: Path) -> str:
    done = shell(command, folder)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def append(folder: Path, *orders: tuple[str, int]) -> None:
    for sku, quantity in orders:
        order = json.dumps({"sku": sku, "quantity": quantity, "price": "6.95"})
        run(f"echo '{order}' | penstock journals append shop/orders", folder)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UpProcess]:
    """A server with journals of orders and a repository, and the pipeline's file in the folder."""
    (tmp_path / "revenue.py").write_text(PIPELINE)
    specs = "".join(f"  - {{name: shop/{name}, replication: 1}}\n" for name in ("orders", "large"))
    (tmp_path / "shop.yaml").write_text(f"journals:\n{specs}")
    monkeypatch.setenv("PENSTOCK_LAKE_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("PENSTOCK_LAKE_SECRET_ACCESS_KEY", SECRET)
    with UpProcess(tmp_path / "penstock-data") as up:
        monkeypatch.setenv("PENSTOCK_LAKE_LISTEN", up.running.lake.removeprefix("http://"))
        run("penstock journals apply shop.yaml", tmp_path)
        run("penstock lake repo create shop", tmp_path)
        yield up


def test_a_pipeline_runs_at_the_server_and_goes_on_where_it_was(server: str, shop: UpProcess, tmp_path: Path) -> None:
    python(NAMES, tmp_path, server, shop.running.lake, KEY, SECRET)
    append(tmp_path, ("cup", 6), ("kettle", 2), ("cup", 0))
    run(f"penstock pipeline run revenue.py --once --remote {server}", tmp_path)
    first = json.loads(run("penstock lake log lake://shop@main --output json", tmp_path))[0]["id"]
    append(tmp_path, ("spoon", 7))
    run(f"penstock pipeline run revenue.py --once --remote {server}", tmp_path)
    assert json.loads(python(READS, tmp_path, server, shop.running.broker, first)) == {
        "journal": [["cup", 0], ["cup", 6], ["kettle", 2], ["spoon", 7]],
        "large": [["cup", 6], ["spoon", 7]],
        "table": [["cup", 6], ["kettle", 2], ["spoon", 7]],
        "changes": 1,
        "known": [["cup", "A cup"], ["cup", "A cup"], ["kettle", "A kettle"]],
        "skus": ["cup", "kettle", "spoon"],
    }
    status = json.loads(run("penstock pipeline status revenue.py --output json", tmp_path))
    assert [(each["flow"], each["lag_bytes"], each["problem"]) for each in status] == [
        ("orders", 0, ""),
        ("large", 0, ""),
        ("split", 0, ""),
    ]


def test_batch_jobs_run_there_too(server: str, shop: UpProcess, tmp_path: Path) -> None:
    append(tmp_path, ("cup", 6), ("kettle", 2), ("spoon", 7))
    run(f"penstock pipeline backfill revenue.py --flow large --remote {server}", tmp_path)
    append(tmp_path, ("fork", 8))
    run(f"penstock pipeline run revenue.py --flow large --once --remote {server}", tmp_path)
    large = run("penstock journals read shop/large", tmp_path)
    assert [json.loads(line)["sku"] for line in large.splitlines() if "sku" in line] == ["cup", "spoon", "fork"]
    compact = f"penstock pipeline compact shop/orders lake://shop@main/history --output json --remote {server}"
    assert [json.loads(run(compact, tmp_path))["rows"] for _ in range(2)] == [4, 0]
    (tmp_path / "listing.csv").write_text("path,address,size,etag,mtime_ns\na,s3://archive/a,1,x,1\n")
    command = f"penstock pipeline import {tmp_path}/listing.csv lake://shop@main/raw/ --remote {server}"
    run(command, tmp_path)
    assert "raw/a" in run("penstock lake ls lake://shop@main --recursive", tmp_path)
    garbage = f"penstock pipeline garbage lake://shop@main --output json --remote {server}"
    assert json.loads(run(garbage, tmp_path)) == {"objects": 0, "bytes": 0, "largest": []}
