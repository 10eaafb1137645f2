"""`penstock journals publish`: every line once, at once, and an error says how far it came."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.journals.test_journals import penstock
from tests.cli.pseudo_terminal import CTRL_C, AtTerminal
from tests.journals.broker.cluster import WAIT_S, Cluster, running_cluster

from penstock.journals.client.messages import read_committed
from penstock.journals.records.spec import JournalSpec
from penstock.messages.framing.csv_rows import CsvRows

pytestmark = pytest.mark.timeout(300)  # every command is a process
ORDERS = "shop/orders"
SPEC = JournalSpec(name=ORDERS, replication=1)
PUBLISH = ("journals", "publish", ORDERS)


def lines(numbers: Sequence[int]) -> bytes:
    return b"".join(b'{"n":%d}\n' % number for number in numbers)


async def published(cluster: Cluster) -> list[int]:
    async with cluster.client() as journals:
        return [message.value["n"] async for message in read_committed(journals, ORDERS)]


async def test_every_line_is_published_once_and_in_order(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(SPEC)
        status, out, err = await penstock(cluster, *PUBLISH, stdin=lines(range(5_003)).rstrip(b"\n"))
        assert (status, err, json.loads(out)["messages"]) == (0, "", 5_003)
        assert await published(cluster) == list(range(5_003))


async def test_a_line_from_a_pipe_is_published_at_once(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(SPEC)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "penstock", *PUBLISH, "--broker", cluster.addresses[0],
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        async with asyncio.timeout(WAIT_S):
            reading = read_committed(journals, ORDERS, follow=True)
            for number in range(3):
                process.stdin.write(b'{"n":%d}\n{"n"' % number)
                process.stdin.write(b":-1}\n")
                assert (await anext(reading)).value == {"n": number}
                assert (await anext(reading)).value == {"n": -1}
            process.stdin.close()
            assert await process.wait() == 0


async def test_a_bad_line_says_how_far_it_came_and_the_rest_is_continued(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(SPEC)
        wrong = lines(range(1_500)) + b"\nnonsense\n" + lines(range(1_500, 1_510))
        status, _, err = await penstock(cluster, *PUBLISH, stdin=wrong)
        refusal = json.loads(err)
        assert (status, refusal["written"]) == (2, "yes")
        assert "line 1502 is no JSON object" in refusal["message"]
        assert "1,500 messages are published" in refusal["message"]
        assert refusal["next_step"] == f"penstock journals publish {ORDERS} --from-line 1502"
        right = wrong.replace(b"nonsense", b'{"n":7}')
        status, out, _ = await penstock(cluster, *PUBLISH, "--from-line", "1502", stdin=right)
        assert (status, json.loads(out)["messages"]) == (0, 11)
        assert await published(cluster) == [*range(1_500), 7, *range(1_500, 1_510)]


async def test_a_line_that_the_framing_refuses_is_named(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(SPEC)
        content = lines(range(3)) + b'{"_meta":{"uuid":"x"},"n":9}\n' + lines(range(3, 6))
        status, _, err = await penstock(cluster, *PUBLISH, stdin=content)
        assert (status, json.loads(err)["details"]) == (2, {"line": 4, "next_line": 4, "published": 3})
        assert await published(cluster) == [0, 1, 2]


async def test_a_refused_journal_says_that_no_line_is_published(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        status, _, err = await penstock(cluster, "journals", "publish", "shop/none", stdin=lines(range(5_000)))
        refusal = json.loads(err)
        assert (status, refusal["code"], refusal["written"]) == (1, "not-found", "no")
        assert refusal["details"] | {"next_line": 1, "published": 0} == refusal["details"]
        status, _, err = await penstock(cluster, *PUBLISH, "--from-line", "0")
        assert (status, json.loads(err)["message"]) == (2, "--from-line 0: expected 1 or more")


async def test_records_of_csv_are_continued_at_the_line_where_they_begin(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(SPEC)
        csv = (*PUBLISH, "--framing", "csv")
        wrong = b'a,"1\n2"\nb,5" pipe\n\nc,"3"x\nd,4\n'
        status, _, err = await penstock(cluster, *csv, stdin=wrong)
        refusal = json.loads(err)
        assert (status, refusal["details"]) == (2, {"line": 5, "next_line": 5, "published": 2})
        assert refusal["next_step"].endswith("--framing csv --from-line 5")
        status, out, _ = await penstock(cluster, *csv, "--from-line", "5", stdin=wrong.replace(b'"3"x', b"3"))
        assert (status, json.loads(out)["messages"]) == (0, 2)
        found: list[Any] = [message.value async for message in read_committed(journals, ORDERS, framing=CsvRows())]
        assert found == [["a", "1\n2"], ["b", '5" pipe'], ["c", "3"], ["d", "4"]]


async def test_ctrl_c_ends_a_command_that_reads_a_terminal(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(SPEC)
        at = ("--broker", cluster.addresses[0])
        with AtTerminal("-m", "penstock", *PUBLISH, *at) as terminal:
            terminal.type(lines([1, 2]))
            async with asyncio.timeout(WAIT_S), cluster.client() as journals:
                reading = read_committed(journals, ORDERS, follow=True)
                assert [(await anext(reading)).value["n"] for _ in range(2)] == [1, 2]
            terminal.type(CTRL_C)
            status, said = await asyncio.to_thread(terminal.ended)
            assert (status, said) == (130, "interrupted: 2 messages are published\n")
        for command in (("journals", "append", ORDERS), ("quorum", "append")):
            where = at if command[0] == "journals" else ("--node", "127.0.0.1:9")
            with AtTerminal("-m", "penstock", *command, *where) as terminal:
                await asyncio.to_thread(terminal.type_line, b"never sent")
                terminal.type(CTRL_C)
                assert (await asyncio.to_thread(terminal.ended))[0] == 130
        assert await published(cluster) == [1, 2]
