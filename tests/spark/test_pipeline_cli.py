"""`penstock pipeline finish` and `adopt`, on a real broker: what drivers which died for good have left."""

import pytest
from tests.spark.conftest import Brokers
from tests.spark.histories import TIMEOUT_S, make

from penstock.cli.main import run
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.spark.journals.ranges import shared_access
from penstock.spark.journals.transaction_rule import Record
from penstock.spark.journals.transactions import Transactions
from penstock.spark.options import Connection

NAME = "cli/transactions"
OUT = "cli/out"


def test_what_a_driver_left_is_published_and_its_sink_given_away(
    brokers: Brokers, journals: BlockingJournals, capsys: pytest.CaptureFixture[str]
) -> None:
    access = shared_access(Connection(tuple(brokers.addresses), None, TIMEOUT_S))
    transactions = Transactions(access.journals, NAME, replication=1)
    make(journals, OUT)

    def pipeline(*arguments: str) -> int:
        return run(["pipeline", *arguments, "--transactions", NAME, "--broker", brokers.address])

    def commit(number: int) -> None:
        record = Record("shop.orders", "q1", number, {OUT: b"ack %d\n" % number})
        access.run(transactions.commit(record))

    def published() -> bytes:
        return b"".join(bytes(chunk.content) for chunk in journals.read(OUT))

    assert pipeline("finish") == 0
    assert "nothing new is committed" in capsys.readouterr().out
    assert pipeline("adopt", "shop.orders") == 1
    assert f"{NAME} has no sink shop.orders; there are: none" in capsys.readouterr().err
    commit(7)
    assert published() == b""
    assert pipeline("finish") == 0
    assert "published what 1 drivers had committed" in capsys.readouterr().out
    assert published() == b"ack 7\n"
    commit(8)
    assert pipeline("adopt", "shop.orders") == 0
    assert "shop.orders is free; it was at batch 8 of query q1" in capsys.readouterr().err
    assert published() == b"ack 7\nack 8\n"
    assert access.run(transactions.sinks()) == {}


def test_a_pause_which_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["pipeline", "finish", "--every", "0.5"]) != 0
    assert "--every: expected 1 to 86400 seconds" in capsys.readouterr().err
