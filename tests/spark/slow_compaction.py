"""Compaction of a journal into a table, with a real Spark: the rows which a plain reader sees, each once."""

import pytest
from pyspark.sql import SparkSession
from tests.lake.rest.servers import LakeProcess
from tests.spark.conftest import Brokers
from tests.spark.histories import NOON, History, json_value, make, read_plainly
from tests.spark.journals.test_journal_source import LINES, write
from tests.spark.lakes import log, make_repository, options_of

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.kernel.errors import PreconditionFailed
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id
from penstock.spark import compact, read_table
from penstock.spark.pipelines import compaction
from penstock.spark.pipelines.ends import JournalEnd, LakeSink

pytestmark = pytest.mark.timeout(600)


def test_every_run_adds_what_was_committed_since_the_last(
    spark: SparkSession,
    brokers: Brokers,
    journals: BlockingJournals,
    lake: LakeProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = make(journals, "compacted/orders")
    source = JournalEnd(name, "n long, text string", {"brokers": brokers.address, "splitBytes": "2048"})
    sink = LakeSink(make_repository(lake, "compacted") + "/history", options=options_of(lake))

    def plainly() -> list[tuple[int, str]]:
        return sorted((value["n"], value["text"]) for _, value in read_plainly(journals, name, LINES))

    def in_table() -> list[tuple[int, str]]:
        return sorted((row["n"], row["text"]) for row in read_table(spark, sink.url, options=sink.options).collect())

    write(journals, name, History(31, LINES, json_value).appends(80))
    publisher = Publisher(producer_id(77), NOON)
    write(journals, name, [publisher.uncommitted(name, LINES, [{"n": -1, "text": "pending"}])])
    first = compact(spark, source, sink)
    assert in_table() == plainly()
    assert (first.rows, len(log(lake, "compacted"))) == (len(plainly()), 1)

    assert compact(spark, source, sink).commit == ""  # nothing new
    write(journals, name, list(publisher.ack_intents().values()))
    assert compact(spark, source, sink).rows == 1  # what was pending belongs to the run in which it is committed
    assert in_table() == plainly()
    assert (-1, "pending") in in_table()

    # Another run commits between this one's look and its commit.
    write(journals, name, [b'{"n":1000,"text":"new"}\n'])
    stale = compaction._last

    def late(*given: object) -> object:
        found = stale(*given)  # type: ignore[arg-type]
        monkeypatch.setattr(compaction, "_last", stale)
        assert compact(spark, source, sink).rows == 1
        write(journals, name, [b'{"n":1001,"text":"newer"}\n'])
        return found

    monkeypatch.setattr(compaction, "_last", late)
    with pytest.raises(PreconditionFailed, match="has committed meanwhile"):
        compact(spark, source, sink)
    assert compact(spark, source, sink).rows == 1
    assert in_table() == plainly()
    assert len(log(lake, "compacted")) == 4
