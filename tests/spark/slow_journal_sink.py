"""Sinks in trouble, with a real Spark: reset, rewound and stale checkpoints. `make soak-spark` runs these."""

import shutil

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.conftest import Brokers
from tests.spark.histories import TIMEOUT_S
from tests.spark.journals.test_journal_sink import Flow, flow, numbers_of, put

from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.spark.journals.ranges import shared_access
from penstock.spark.journals.transactions import Transactions
from penstock.spark.options import TRANSACTIONS, Connection

__all__ = ["flow"]
pytestmark = pytest.mark.timeout(600)


def test_a_reset_checkpoint_is_refused_until_the_sink_is_adopted(
    flow: Flow, brokers: Brokers, journals: BlockingJournals
) -> None:
    flow.run(sink="named")
    last = flow.batches()[-1]
    shutil.rmtree(flow.checkpoint)
    with pytest.raises(StreamingQueryException, match="belongs to query"):
        flow.run(sink="named")
    assert numbers_of(journals, flow.target) == list(range(100))
    access = shared_access(Connection(tuple(brokers.addresses), None, TIMEOUT_S))
    adopted = access.run(Transactions(access.journals, TRANSACTIONS).adopt("named"))
    assert (adopted.batch, last) == (last, 1)
    flow.run(sink="named")  # who adopts without the old checkpoint wants everything again
    assert numbers_of(journals, flow.target) == sorted([*range(100), *range(100)])


def test_a_rewound_checkpoint_is_refused(flow: Flow, journals: BlockingJournals) -> None:
    flow.run()
    last = flow.forget_last_commit()
    for each in (flow.checkpoint / "offsets").glob(f"*{last}*"):
        each.unlink()  # the batch is planned anew, with more in it
    put(journals, flow.source, range(100, 140))
    with pytest.raises(StreamingQueryException, match="planned again"):
        flow.run()
    assert numbers_of(journals, flow.target) == list(range(100))


def test_a_zombie_which_commits_a_batch_again_changes_nothing(
    flow: Flow, brokers: Brokers, journals: BlockingJournals
) -> None:
    """What a driver which was stopped and let go does, in Spark's own order: write, then commit, of an old batch."""
    flow.run(sink="zombie")
    first = flow.batches()[0]
    for number in flow.batches()[1:]:
        for folder in ("commits", "offsets"):
            for each in (flow.checkpoint / folder).glob(f"*{number}*"):
                each.unlink()
    for each in (flow.checkpoint / "commits").glob(f"*{first}*"):
        each.unlink()
    with pytest.raises(StreamingQueryException, match="stale driver"):
        flow.run(sink="zombie")
    assert numbers_of(journals, flow.target) == list(range(100))
