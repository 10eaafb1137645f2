"""The tools of these tests: Spark runs, the broker answers. And who has no Spark Connect is told."""

import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Brokers

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import ConfigError, InvalidArgument, NotFound
from penstock.spark.pipelines.staging import _by_checkpoint
from penstock.spark.session import session_settings, spark_session

NO_SPARK: Any = None  # is not asked


def test_spark_and_a_broker_are_there(spark: SparkSession, brokers: Brokers, journals: BlockingJournals) -> None:
    assert spark.range(10).count() == 10
    journals.create(JournalSpec(name="test-session/one", replication=1))
    assert journals.append("test-session/one", b"1", timeout=60.0).end == 1
    assert brokers.address.count(":") == 1


def test_who_lacks_a_package_of_spark_connect_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc_status", None)
    with pytest.raises(ConfigError, match="grpc_status") as told, spark_session("any", remote="sc://127.0.0.1:9"):
        pass
    assert told.value.next_step == "pip install 'penstock[connect]'"


def test_a_cluster_has_settings_for_small_flows_and_the_user_s_count_more() -> None:
    cluster = session_settings("spark://host:7077", "", {"spark.executor.memory": "4g"}, is_logged=True)
    assert (cluster["spark.sql.shuffle.partitions"], cluster["spark.ui.showConsoleProgress"]) == ("8", "false")
    assert (cluster["spark.executor.memory"], cluster["spark.log.level"]) == ("4g", "WARN")
    assert "spark.driver.host" not in cluster
    own = session_settings("spark://host:7077", "", {"spark.sql.shuffle.partitions": "64"}, is_logged=False)
    assert (own["spark.sql.shuffle.partitions"], own["spark.log.level"]) == ("64", "ERROR")
    assert session_settings("", "sc://host", {}, is_logged=False) == {"spark.sql.session.timeZone": "UTC"}
    assert session_settings("", "", {}, is_logged=True)["spark.driver.host"] == "127.0.0.1"


def test_behind_spark_connect_a_batch_must_be_named() -> None:
    for batch, checkpoint in ((None, "somewhere"), (3, "")):
        with pytest.raises(InvalidArgument, match="needs the number of its batch"):
            _by_checkpoint(NO_SPARK, batch, checkpoint)
    with pytest.raises(NotFound, match="is no checkpoint"):
        _by_checkpoint(NO_SPARK, 3, "nowhere")
