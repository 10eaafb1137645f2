"""Transactions over several journals: all messages or none, also when the process dies at any step."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import polars
import pytest
from tests.journals.broker.cluster import running_cluster

from penstock.journals.client.journal import Journals
from penstock.journals.client.journal_blocking import BlockingJournals
from penstock.journals.client.named_journal import AsyncJournal
from penstock.journals.client.transactions.commit_journal import TRANSACTIONS, CommitJournal
from penstock.journals.client.transactions.transaction import AsyncJournalTransaction
from penstock.journals.client.transactions.transaction_blocking import JournalTransaction
from penstock.kernel.errors import AlreadyClosed, InvalidArgument, NotFound, Unavailable, Written
from penstock.messages.framing.json_lines import JsonLines

NAMES = ("shop/orders", "shop/payments")
STEPS_MAX = 20
# Makes a transaction, and kills itself before or after its Nth append.
KILLED = """
import asyncio, os, signal, sys
from penstock.journals.client.journal import Journals
from penstock.journals.client.transactions.transaction import AsyncJournalTransaction

address, step, moment = sys.argv[1], int(sys.argv[2]), sys.argv[3]
append, count = Journals.append, 0

async def killing(self, journal, content, **options):
    global count
    count += 1
    mine = count
    if mine == step and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        return await append(self, journal, content, **options)
    finally:
        if mine == step:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    Journals.append = killing
    async with Journals([address]) as journals:
        async with AsyncJournalTransaction(journals) as changes:
            for name in ("shop/orders", "shop/payments"):
                await changes.publish(name, *({"step": step, "moment": moment, "n": n} for n in range(3)))
    print("ended")

asyncio.run(main())
"""


@asynccontextmanager
async def two_journals(folder: Path) -> AsyncIterator[tuple[Any, Journals]]:
    async with running_cluster(folder, 1) as cluster, cluster.client() as journals:
        for name in NAMES:
            await AsyncJournal(journals, name).create()
        yield cluster, journals


async def seen(journals: Journals) -> list[list[Any]]:
    return [[message.value async for message in AsyncJournal(journals, name).read()] for name in NAMES]


async def one_each(journals: Journals, values: dict[str, Any], then: Callable[[], object] = int) -> None:
    async with AsyncJournalTransaction(journals) as changes:
        for name, value in values.items():
            await changes.publish(name, value)
        then()


async def fails(self: CommitJournal, record: Any) -> None:
    raise Unavailable("no broker is the primary of shop/payments now")


async def test_readers_see_all_or_none(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (_, journals):
        async with AsyncJournalTransaction(journals) as changes:
            await changes.publish("shop/orders", {"id": 1}, {"id": 2})
            assert await changes.publish_table("shop/payments", polars.DataFrame({"order": [1, 2]})) == 2
            assert await seen(journals) == [[], []]
        everything = [[{"id": 1}, {"id": 2}], [{"order": 1}, {"order": 2}]]
        assert await seen(journals) == everything
        with pytest.raises(ZeroDivisionError):
            await one_each(journals, {"shop/orders": {"id": 3}, "shop/payments": {"order": 3}}, lambda: 3 // 0)
        with pytest.raises(NotFound):
            await one_each(journals, {"shop/orders": {"id": 4}, "shop/nothing": {"order": 4}})
        async with AsyncJournalTransaction(journals):
            pass
        assert await seen(journals) == everything


async def test_misuse_is_refused(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (_, journals):
        transaction = AsyncJournalTransaction(journals)
        with pytest.raises(AlreadyClosed, match="not open"):
            await transaction.publish("shop/orders", {})
        with pytest.raises(InvalidArgument):
            AsyncJournalTransaction(journals, transactions="no name/")
        async with AsyncJournalTransaction(journals) as changes:
            await changes.publish("shop/orders", {"id": 1})
            with pytest.raises(InvalidArgument, match="one framing"):
                await changes.publish("shop/orders", {"id": 2}, framing=JsonLines())
        assert await seen(journals) == [[{"id": 1}], []]


async def test_one_journal_needs_no_record(tmp_path: Path) -> None:
    async with two_journals(tmp_path) as (_, journals):
        async with AsyncJournalTransaction(journals) as changes:
            await changes.publish("shop/orders", {"id": 1})
        assert await seen(journals) == [[{"id": 1}], []]
        assert not await journals.list(f"name={TRANSACTIONS}")


async def test_a_commit_that_cannot_be_shown_says_so_and_the_next_one_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_journals(tmp_path) as (_, journals):
        with monkeypatch.context() as patched:
            patched.setattr(CommitJournal, "publish", fails)
            with pytest.raises(Unavailable, match="is committed") as failed:
                await one_each(journals, {name: {"id": 1} for name in NAMES})
        assert failed.value.written is Written.YES
        assert await seen(journals) == [[], []]
        async with AsyncJournalTransaction(journals):
            assert await seen(journals) == [[{"id": 1}], [{"id": 1}]]


def without_await(addresses: list[str]) -> None:
    with BlockingJournals(addresses) as journals:
        value = {"n": 0}
        with JournalTransaction(journals) as changes:
            for number in range(2_500):
                value["n"] = number
                changes.publish("shop/orders", value)
            assert changes.publish_table("shop/payments", polars.DataFrame({"n": [1]})) == 1
        with pytest.raises(ZeroDivisionError), JournalTransaction(journals) as changes:
            changes.publish("shop/orders", {"n": 1 // 0})
        with pytest.raises(InvalidArgument, match="cannot be a JSON message"), JournalTransaction(journals) as changes:
            changes.publish("shop/orders", {"n": object()})
        changes = JournalTransaction(journals)
        changes.__enter__()
        changes.publish("shop/orders", {"n": -1})
        changes.publish("shop/nothing", {"n": -1})
        with pytest.raises(NotFound):
            changes.__exit__(None, None, None)


async def test_without_await_it_is_the_same(tmp_path: Path) -> None:

    async with two_journals(tmp_path) as (cluster, journals):
        await asyncio.to_thread(without_await, cluster.addresses)
        orders, payments = await seen(journals)
        assert [value["n"] for value in orders] == list(range(2_500))
        assert payments == [{"n": 1}]


@pytest.mark.timeout(300)
async def test_killed_at_every_step_it_is_seen_as_a_whole_or_not_at_all(tmp_path: Path) -> None:

    async with two_journals(tmp_path) as (cluster, _):
        cases = [(step, moment) for step in range(1, STEPS_MAX) for moment in ("before", "after")]
        fates = []
        for step, moment in cases:
            command = [sys.executable, "-c", KILLED, cluster.addresses[0], str(step), moment]
            ran = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, env={**os.environ, "PYTHONDEVMODE": ""}
            )
            if ran.stdout == "ended\n":
                break
            assert ran.returncode == -signal.SIGKILL, ran.stderr
            async with cluster.client() as next_process:
                async with AsyncJournalTransaction(next_process):
                    pass
                found = [[value for value in values if value["step"] == step] for values in await seen(next_process)]
            mine = [[value["n"] for value in values if value["moment"] == moment] for values in found]
            assert mine in ([[], []], [[0, 1, 2], [0, 1, 2]]), (step, moment)
            fates.append(bool(mine[0]))
        # finish asks for registers; two lots of messages, the record, two acknowledgements
        assert step >= 5
        assert fates == sorted(fates), "a later step has at least what an earlier one had"
        assert {False, True} == set(fates)
