"""The tools of these tests: Spark runs, the broker answers."""

from pyspark.sql import SparkSession
from tests.spark.conftest import Brokers

from penstock.client.journal_blocking import BlockingJournals
from penstock.journal.spec import JournalSpec


def test_spark_and_a_broker_are_there(spark: SparkSession, brokers: Brokers, journals: BlockingJournals) -> None:
    assert spark.range(10).count() == 10
    journals.create(JournalSpec(name="test-session/one", replication=1))
    assert journals.append("test-session/one", b"1", timeout=60.0).end == 1
    assert brokers.address.count(":") == 1
