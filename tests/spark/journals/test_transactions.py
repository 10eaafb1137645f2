"""The transactions journal on a real broker: one commit for a batch, whoever asks how often."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.journals.broker.cluster import Cluster, read_all, running_cluster

from penstock.journals.client.journal import Journals
from penstock.journals.records.spec import JournalSpec
from penstock.kernel.errors import Fenced, LimitExceeded, NotFound, PreconditionFailed
from penstock.spark.journals.transaction_rule import (
    KEPT,
    NAMED_MAX,
    Decision,
    Record,
    TransactionRegister,
    decide,
    digest_of,
    forgotten,
)
from penstock.spark.journals.transactions import Transactions

NAME = "spark/transactions"
OUT = JournalSpec(name="shop/out", replication=1)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path, 1) as running:
        await running.create(OUT)
        yield running


def batch(number: int, query: str = "q1", ack: bytes = b"", guard: str = "") -> Record:
    return Record("s", query, number, {OUT.name: ack or b"ack %d\n" % number}, guard=guard)


def test_the_rule() -> None:
    last = TransactionRegister("q1", 4, 0)
    assert decide(None, batch(0)) is Decision.COMMIT
    assert decide(None, batch(7)) is Decision.COMMIT  # a checkpoint may change its sink at any batch
    assert decide(last, batch(5)) is Decision.COMMIT
    assert decide(last, batch(4)) is Decision.REPLAY
    for number in (3, 6, 0):
        with pytest.raises(Fenced, match="whose last is 4"):
            decide(last, batch(number))
    for number in (0, 4, 5):
        with pytest.raises(PreconditionFailed, match="belongs to query q1"):
            decide(last, batch(number, "q2"))


def test_batches_chain_by_their_positions() -> None:
    ended = '[{"a":7}]'
    last = TransactionRegister("q1", 4, 0, digest_of(ended))

    def from_(number: int, begins: str, query: str = "q1") -> Record:
        return msgspec.structs.replace(batch(number, query), begins=begins)

    assert decide(last, from_(5, ended)) is Decision.COMMIT
    assert decide(last, from_(5, "")) is Decision.COMMIT  # its begin is unknown
    with pytest.raises(Fenced, match="does not begin where batch 4 ended"):
        decide(last, from_(5, '[{"a":6}]'))
    assert decide(last, from_(0, ended, "q2"), ended) is Decision.COMMIT
    assert decide(last, from_(0, '[{"a":7,"b":0}]', "q2"), ended) is Decision.COMMIT
    for number, begins in ((0, '[{"a":0}]'), (0, ""), (1, ended)):
        with pytest.raises(PreconditionFailed, match="belongs to query q1"):
            decide(last, from_(number, begins, "q2"), ended)


async def test_another_query_may_follow_where_the_last_one_ended(cluster: Cluster) -> None:
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        first = msgspec.structs.replace(batch(3), ends='[{"a":7}]')
        await transactions.commit(first)
        assert await transactions.last("s") == first
        heir = msgspec.structs.replace(batch(0, "q2"), begins='[{"a":7}]', ends='[{"a":9}]')
        assert await transactions.commit(heir) == heir
        with pytest.raises(PreconditionFailed):  # the first query wakes, and continues
            await transactions.commit(msgspec.structs.replace(batch(4), begins='[{"a":7}]'))


async def test_a_batch_is_committed_once_and_replayed_as_it_was_recorded(cluster: Cluster) -> None:
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        assert await transactions.commit(batch(0)) == batch(0)
        assert await transactions.commit(batch(0, ack=b"of another attempt\n")) == batch(0)
        assert await transactions.commit(batch(1)) == batch(1)
        with pytest.raises(Fenced):  # a zombie comes back with the batch before
            await transactions.commit(batch(0))
        with pytest.raises(PreconditionFailed, match="checkpoint was reset"):
            await transactions.commit(batch(0, query="q2"))
        assert {name: each.batch for name, each in (await transactions.sinks()).items()} == {"s": 1}


async def test_a_rewound_plan_is_no_replay(cluster: Cluster) -> None:
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        await transactions.commit(batch(0, guard="aa"))
        assert (await transactions.commit(batch(0, guard="aa", ack=b"x"))).guard == "aa"
        with pytest.raises(PreconditionFailed, match="planned again"):
            await transactions.commit(batch(0, guard="bb"))


async def test_of_two_drivers_one_commits_and_the_other_replays_its_record(cluster: Cluster) -> None:
    """Both read the register before either appends: the second one's check fails, and the rule is asked again."""
    async with Journals(cluster.addresses) as mine, Journals(cluster.addresses) as theirs:
        other = Transactions(theirs, NAME, replication=1)
        await other.commit(batch(0))

        class Slow(Transactions):
            is_first = True

            async def _sinks(self) -> tuple[dict[str, TransactionRegister], int]:
                found = await super()._sinks()
                if self.is_first:
                    self.is_first = False
                    await other.commit(batch(1, ack=b"theirs\n"))
                return found

        recorded = await Slow(mine, NAME, replication=1).commit(batch(1, ack=b"mine\n"))
        assert recorded.intents == {OUT.name: b"theirs\n"}


def test_the_oldest_of_those_which_nobody_named_are_forgotten() -> None:
    txns = {f"nightly-{number}": TransactionRegister("txn", 0, number) for number in range(KEPT["txn"])}
    queries = {f"q{number}": TransactionRegister(f"q{number}", 5, number) for number in range(KEPT["query"])}
    named = {f"sink-{number}": TransactionRegister("q", 5, number) for number in range(NAMED_MAX)}
    everybody = {**named, **queries, **txns}
    assert forgotten(everybody, "nightly-new", "txn") == {"nightly-0": txns["nightly-0"]}
    assert forgotten(everybody, "new", "new") == {"q0": queries["q0"]}
    assert forgotten(everybody, "nightly-3", "txn") == forgotten(everybody, "sink-0", "q") == {}
    with pytest.raises(LimitExceeded, match="names of their own"):
        forgotten(everybody, "another", "q")
    assert forgotten(txns, "another", "q") == {}


async def test_a_txn_which_is_forgotten_makes_room(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KEPT, "txn", 2)
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        for name in ("a", "b", "c"):
            await transactions.commit(Record(name, "txn", 0))
        assert sorted(await transactions.sinks()) == ["b", "c"]


async def test_whoever_comes_can_finish_what_drivers_left(cluster: Cluster) -> None:
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        assert await transactions.finish() == 0  # there is not even a journal, and it is not made
        assert await transactions.sinks() == {}
        await transactions.commit(batch(0))
        await transactions.publish(batch(0))
        await transactions.commit(batch(1))
        await transactions.record(Record("", "unnamed", 0, {OUT.name: b"unnamed\n", "shop/gone": b"nowhere\n"}))
        assert await read_all(journals, OUT.name) == b"ack 0\n"
        assert await transactions.finish() == 2  # the sink's last, and the one which nobody could repeat
        assert await read_all(journals, OUT.name) == b"ack 0\nack 1\nunnamed\n"
        assert await transactions.finish() == 0
        await transactions.commit(batch(2))
        assert await transactions.finish() == 1
        assert await read_all(journals, OUT.name) == b"ack 0\nack 1\nunnamed\nack 2\n"


async def test_two_finishers_at_once(cluster: Cluster) -> None:
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        await transactions.commit(batch(0))
        assert 1 <= sum(await asyncio.gather(transactions.finish(), transactions.finish())) <= 2
        assert await transactions.finish() == 0


async def test_an_adopted_sink_is_finished_and_goes_on_with_another_query(cluster: Cluster) -> None:
    async with Journals(cluster.addresses) as journals:
        transactions = Transactions(journals, NAME, replication=1)
        with pytest.raises(NotFound, match="no sink s"):
            await transactions.adopt("s")
        await transactions.commit(msgspec.structs.replace(batch(3), rows=9))
        adopted = await transactions.adopt("s")
        assert (adopted.query, adopted.batch, adopted.rows) == ("q1", 3, 9)
        assert await read_all(journals, OUT.name) == b"ack 3\n"
        assert await transactions.commit(batch(0, query="q2")) == batch(0, query="q2")
        with pytest.raises(PreconditionFailed):
            await transactions.commit(batch(4))
