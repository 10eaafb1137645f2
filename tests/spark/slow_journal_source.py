"""Sources in trouble, with a real Spark: lost states, lost bytes, bad messages. `make soak-spark` runs these."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.spark.conftest import Brokers
from tests.spark.histories import NOON, History, json_value, make
from tests.spark.journals.test_journal_source import LINES, reading, rows_of, stream, write

from penstock.journals.client.journal import Change
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.messages.publisher import Publisher
from penstock.messages.uuid import producer_id

pytestmark = pytest.mark.timeout(600)


def test_wrong_options_are_refused_with_what_would_be_right(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    make(journals, "source/options")
    wrong: dict[str, dict[str, str]] = {
        "no option 'isolaton'": {"isolaton": "committed"},
        "expected committed or uncommitted": {"journal": "source/options", "isolation": "serializable"},
        "in one way": {"journal": "a", "prefix": "b"},
        "no journal fits": {"prefix": "no/such/"},
        "has messages yet": {"journal": "source/options"},
    }
    for message, options in wrong.items():
        with pytest.raises(Exception, match=message):
            reading(spark, brokers, **options).load().count()


# Streams


def test_a_replayed_batch_is_the_same_also_if_states_were_lost(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    name = make(journals, "source/replay")
    write(journals, name, History(12, LINES, json_value).appends(60))
    first = stream(spark, brokers, tmp_path, name, maxBytesPerTrigger=2500)
    last = max(int(each.name) for each in (tmp_path / "checkpoint/commits").iterdir() if each.name.isdecimal())
    for state in (brokers.folder / "objects/.seq" / name).iterdir():
        state.unlink()
    for each in (tmp_path / "checkpoint/commits").glob(f"*{last}*"):
        each.unlink()
    assert stream(spark, brokers, tmp_path, name, maxBytesPerTrigger=2500) == [first[-1]]


def test_a_stream_from_the_latest_sees_only_what_commits_later(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    name = make(journals, "source/latest")
    publisher = Publisher(producer_id(2), NOON)
    write(journals, name, [publisher.committed(name, LINES, [{"n": 1}])])
    write(journals, name, [publisher.uncommitted(name, LINES, [{"n": 2}])])
    assert stream(spark, brokers, tmp_path, name, startingOffsets="latest") == [[]]
    write(journals, name, list(publisher.ack_intents().values()))
    assert stream(spark, brokers, tmp_path, name, startingOffsets="latest") == [[(2, name)]]


def test_a_journal_which_was_made_again_is_data_loss(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals, tmp_path: Path
) -> None:
    name = make(journals, "source/loss")
    write(journals, name, [b'{"n":1}\n{"n":2}\n'])
    assert stream(spark, brokers, tmp_path, name) == [[(1, name), (2, name)]]
    journals.apply([Change(delete=name)])
    make(journals, name)
    write(journals, name, [b'{"n":3}\n'])
    with pytest.raises(StreamingQueryException, match="source/loss are gone"):
        stream(spark, brokers, tmp_path, name)
    assert stream(spark, brokers, tmp_path, name, failOnDataLoss="false") == [[(3, name)]]


def test_bad_messages_fail_with_their_offset_or_are_skipped(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "source/bad")
    write(journals, name, [b'{"n":1}\n', b"not json\n", b'{"n":2}\n', b'{"n":"text"}\n'])
    with pytest.raises(Exception, match="source/bad at 8"):
        reading(spark, brokers).schema("n long").load(name).count()
    assert rows_of(reading(spark, brokers, onBad="skip").schema("n long").load(name)) == [(1,), (2,)]


def test_uncommitted_reads_everything_but_acknowledgements(
    spark: SparkSession, brokers: Brokers, journals: BlockingJournals
) -> None:
    name = make(journals, "source/uncommitted")
    publisher = Publisher(producer_id(6), NOON)
    first = publisher.uncommitted(name, LINES, [{"n": 1}, {"n": 2}])
    write(journals, name, [first, first, *publisher.ack_intents().values()])
    write(journals, name, [publisher.uncommitted(name, LINES, [{"n": 3}])])
    for isolation, numbers in {"uncommitted": [1, 1, 2, 2, 3], "committed": [1, 2]}.items():
        found = reading(spark, brokers, isolation=isolation, splitBytes=1024).schema("n int, _uuid string").load(name)
        assert [row[0] for row in rows_of(found)] == numbers
        assert found.where("_uuid is null").count() == 0
