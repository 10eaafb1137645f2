"""A hundred journals into a table: a trigger with a row of each is one task, one commit and one file.

`make soak-spark` runs this. It prints how long such a trigger takes.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.lakes import log, make_repository, options_of
from tests.spark.pipelines.test_pipeline_run import lake_server

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.records.spec import JournalSpec
from penstock.messages.framing.json_lines import JsonLines
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import Pipeline, journal, lake, read_table
from penstock.spark.tables.lake_access import access_from, table_url
from penstock.spark.tables.lake_tree import files_of

__all__ = ["lake_server"]
pytestmark = pytest.mark.timeout(900)
JOURNALS, ROUNDS = 100, 6


def test_a_trigger_with_a_row_of_each_of_a_hundred_journals_is_one_file(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, lake_server: LakeProcess, tmp_path: Path
) -> None:
    main = make_repository(lake_server, "hundred")
    names = [f"hundred/j{at:03d}" for at in range(JOURNALS)]
    for name in names:
        journals.create(JournalSpec(name=name, replication=1))
    publisher = Publisher(producer_id(3), 1_700_000_000_000_000_000)
    pipeline = Pipeline("hundred", checkpoints=tmp_path / "checkpoints")
    pipeline.flow(source=journal("hundred/", schema="n long"), sink=lake(f"{main}/rows"), name="rows")(lambda raw: raw)
    pipeline.connect({"brokers": brokers.address}, options_of(lake_server))
    took = []
    with pipeline.run(spark, interval="100ms", wait=False) as run:
        for number in range(ROUNDS):
            for name in names:
                journals.append(name, publisher.committed(name, JsonLines(), [{"n": number}]), timeout=60.0)
            query = run._work.queries["rows"]
            while sum(each["numInputRows"] or 0 for each in query.recentProgress) < (number + 1) * JOURNALS:
                assert not run.wait(0.1)
            took.append(max(each["durationMs"]["triggerExecution"] for each in query.recentProgress[-2:]))
    found = read_table(spark, f"{main}/rows", options=options_of(lake_server)).groupBy("n").count().collect()
    assert {row["n"]: row["count"] for row in found} == dict.fromkeys(range(ROUNDS), JOURNALS)
    files = files_of(access_from(options_of(lake_server)), table_url(f"{main}/rows")).files
    commits = [each for each in log(lake_server, "hundred") if each["metadata"].get("penstock.rows", "0") != "0"]
    assert len(files) == len(commits)  # one file for each commit
    print(f"triggers of {JOURNALS} journals, a row or more of each: {took} ms")
