"""Pipelines with a real Spark, real journals and a real lake: audited, together, backfilled; failing in plain words."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.lakes import log, make_repository, options_of

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import InvalidArgument, PreconditionFailed, Refused
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import Pipeline, journal, lake
from penstock.spark.pipelines.running.pipeline_backfill import backfill
from penstock.spark.pipelines.running.pipeline_status import status_of
from penstock.spark.tables.table import read_table

pytestmark = pytest.mark.timeout(600)
SCHEMA = "id long, sku string, amount decimal(9,2)"


@pytest.fixture
def lake_server(request: pytest.FixtureRequest) -> LakeProcess:
    """The lake of all tests, under a name which leaves `lake` to the pipelines."""
    found = request.getfixturevalue("lake")
    assert isinstance(found, LakeProcess)
    return found


class Shop:
    """A journal of orders, a repository, and a pipeline between them."""

    def __init__(
        self, name: str, spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake: LakeProcess, at: Path
    ) -> None:
        self.name, self.spark, self.lake, self._journals = name, spark, lake, journals
        self.main = make_repository(lake, name)
        self.pipeline = Pipeline("shop", checkpoints=at / "checkpoints")
        self._connections = ({"brokers": brokers.address}, options_of(lake))
        journals.create(JournalSpec(name=f"{name}/orders", replication=1))
        self._publisher = Publisher(producer_id(7), 1_700_000_000_000_000_000)
        self._next = 0

    @property
    def orders(self) -> Any:
        return journal(f"{self.name}/orders", schema=SCHEMA)

    def publish(self, *amounts: str) -> None:
        rows = [{"id": self._next + at, "sku": "cup", "amount": amount} for at, amount in enumerate(amounts)]
        self._next += len(rows)
        self.publish_rows(rows)

    def publish_rows(self, rows: list[dict[str, Any]]) -> None:
        frames = self._publisher.committed(f"{self.name}/orders", JsonLines(), rows)
        self._journals.append(f"{self.name}/orders", frames, timeout=60.0)

    def run(self) -> None:
        self.pipeline.connect(*self._connections)
        self.pipeline.run(self.spark, until="now")

    def amounts(self, table: str, ref: str = "main") -> list[str]:
        frame = read_table(self.spark, f"lake://{self.name}@{ref}/{table}", options=options_of(self.lake))
        return sorted(str(row["amount"]) for row in frame.collect())


def test_a_batch_is_merged_only_if_it_passes_its_checks(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("audited", spark, brokers, journals, lake_server, tmp_path)
    broken = [True]

    @shop.pipeline.flow(
        source=shop.orders, sink=lake(f"{shop.main}/orders", checks={"amounts are positive": "amount > 0"})
    )
    def orders(raw: DataFrame) -> DataFrame:
        return raw if broken[0] else raw.where("amount > 0")

    shop.publish("1.10", "2.20")
    shop.run()
    assert shop.amounts("orders") == ["1.10", "2.20"]
    head = log(lake_server, "audited")[0]
    assert head["metadata"]["penstock.audit"] == "passed"

    shop.publish("3.30", "-4.40")
    with pytest.raises(Refused) as failed:
        shop.run()
    said = failed.value.message
    assert "pipeline shop, flow orders, batch 1 failed" in said
    assert "amounts are positive" in said
    assert "-4.40" in said  # the row which broke it
    assert log(lake_server, "audited")[0]["id"] == head["id"]  # nothing of it is published
    assert shop.amounts("orders", "shop-orders-audit-failed-1") == ["-4.40", "1.10", "2.20", "3.30"]  # but kept

    broken[0] = False  # the code is mended, and the same batch comes again
    shop.run()
    assert shop.amounts("orders") == ["1.10", "2.20", "3.30"]
    (status,) = (status_of(shop.pipeline, each) for each in shop.pipeline.chosen())
    assert (status["committed"], status["sink_batch"], status["lag_bytes"], status["problem"]) == (1, 1, 0, "")


def test_code_which_fails_is_told_with_its_rows(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("failing", spark, brokers, journals, lake_server, tmp_path)

    def picky(amount):  # type: ignore[no-untyped-def]
        raise ValueError(f"cannot work with {amount}")

    @shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/orders"))
    def orders(raw: DataFrame) -> DataFrame:
        return raw.withColumn("worked", F.udf(picky, "string")("amount"))

    shop.publish("13.37")
    with pytest.raises(InvalidArgument) as failed:
        shop.run()
    said = failed.value.message
    assert "pipeline shop, flow orders, batch 0 failed: test_pipeline_run.py, line " in said
    assert ", in picky: ValueError: cannot work with 13.37" in said
    assert "'sku': 'cup'" in said
    assert "continues with batch 0" in failed.value.next_step


def test_history_as_a_batch_and_the_stream_from_there(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("history", spark, brokers, journals, lake_server, tmp_path)
    shop.pipeline.flow(source=shop.orders, sink=lake(f"{shop.main}/orders"), name="orders")(lambda raw: raw)
    shop.publish("1.00", "2.00")
    shop.pipeline.connect({"brokers": brokers.address}, options_of(lake_server))
    (flow,) = shop.pipeline.chosen()
    ends = backfill(spark, shop.pipeline, flow)
    shop.publish("3.00")
    assert shop.amounts("orders") == ["1.00", "2.00"]
    later = backfill(spark, shop.pipeline, flow)  # run again, it writes newer rows
    assert later["history/orders"] > ends["history/orders"]
    shop.run()
    assert shop.amounts("orders") == ["1.00", "2.00", "3.00"]
    with pytest.raises(PreconditionFailed, match="has begun"):
        backfill(spark, shop.pipeline, flow)


def test_a_backfill_into_a_journal_keeps_the_order_of_commits(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    shop = Shop("ordered", spark, brokers, journals, lake_server, tmp_path)
    journals.create(JournalSpec(name="ordered/copy", replication=1))
    shop.pipeline.flow(source=shop.orders, sink=journal("ordered/copy"), name="copy")(lambda raw: raw)
    first = Publisher(producer_id(8), 1_700_000_000_000_000_000)
    late = {"id": 100, "sku": "cup", "amount": "1.00"}
    journals.append("ordered/orders", first.uncommitted("ordered/orders", JsonLines(), [late]), timeout=60.0)
    shop.publish("2.00", "3.00")
    journals.append("ordered/orders", first.ack_intents()["ordered/orders"], timeout=60.0)
    shop.pipeline.connect({"brokers": brokers.address}, options_of(lake_server))
    (flow,) = shop.pipeline.chosen()
    backfill(spark, shop.pipeline, flow)
    copy = spark.read.format("journal").schema(SCHEMA).option("brokers", brokers.address).load("ordered/copy")
    assert [row["id"] for row in copy.collect()] == [0, 1, 100]  # committed last, though it was written first
