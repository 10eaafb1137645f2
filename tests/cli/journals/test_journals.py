"""`penstock journals`, against a broker of this process."""

import asyncio
import io
import json
import os
import sys
from pathlib import Path

import msgspec
from tests.journals.broker.cluster import Cluster, running_cluster

from penstock.cli.journals.journal_verbs import confirms
from penstock.journals.records.labels import LabelSet
from penstock.journals.records.spec import JournalSpec


async def penstock(cluster: Cluster, *arguments: str, stdin: bytes = b"", **environment: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", *arguments, "--broker", cluster.addresses[0], "--output", "json",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )  # fmt: skip
    out, err = await process.communicate(stdin)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


async def test_specs_are_edited_at_the_version_which_was_shown(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        editor = "sed -i s/max_append_rate:.0/max_append_rate:\\ 5000/"
        status, out, err = await penstock(cluster, "journals", "edit", "shop/orders", EDITOR=editor, VISUAL="")
        assert (status, err) == (0, "")
        assert json.loads(out)["journals"] == ["shop/orders"]
        assert (await journals.list())[0].spec.max_append_rate == 5_000
        status, out, _ = await penstock(cluster, "journals", "edit", "shop/orders", EDITOR="true", VISUAL="")
        assert (status, json.loads(out)["journals"]) == (0, [])


async def test_a_refused_append_says_why_and_that_nothing_was_written(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        status, _, err = await penstock(cluster, "journals", "append", "shop/orders", "--offset", "7", stdin=b"x")
        refusal = json.loads(err)["error"] if "error" in json.loads(err) else json.loads(err)
        assert status == 1
        assert refusal["written"] == "no"
        assert "ends at another offset" in refusal["message"]


async def test_a_global_flag_after_append_never_writes_a_register(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        await cluster.create(JournalSpec(name="shop/orders", replication=1))
        for flag in (("--set", "wire.token=me"), ("--set=wire.token=me",)):
            status, out, err = await penstock(cluster, "journals", "append", "shop/orders", *flag, stdin=b"x")
            assert (status, out) == (2, "")
            assert "penstock journals append shop/orders --set-register" in json.loads(err)["next_step"]
            status, out, err = await penstock(cluster, "journals", "append", *flag, "shop/orders", stdin=b"x")
            assert (status, out) == (2, "")
        assert [each.end for each in [await journals.append("shop/orders", b"")]] == [0]
        done, out, _ = await penstock(
            cluster, "--set", "log.level=error", "journals", "append", "shop/orders", "--set-register", "author=me",
            stdin=b"x",
        )  # fmt: skip
        assert (done, json.loads(out)["registers"]) == (0, "author=me")


async def test_a_journal_is_created_and_deleted_by_its_name(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, 1) as cluster, cluster.client() as journals:
        create = ("journals", "create", "shop/orders", "--replication", "1", "--label", "app=shop", "--fsync")
        status, out, _ = await penstock(cluster, *create)
        assert (status, json.loads(out)["journal"]) == (0, "shop/orders")
        labels = LabelSet.of({"app": "shop"})
        expected = JournalSpec(name="shop/orders", replication=1, least=1, labels=labels, fsync=True)
        found = [each.spec for each in await journals.list()]
        assert [msgspec.structs.replace(each, fragment=expected.fragment) for each in found] == [expected]
        status, _, err = await penstock(cluster, *create)
        assert (status, json.loads(err)["code"]) == (1, "precondition-failed")
        assert (await penstock(cluster, *create, "--exists-ok"))[0] == 0
        status, _, err = await penstock(cluster, "journals", "delete", "shop/orders")
        assert (status, json.loads(err)["message"]) == (2, "journals delete: no terminal to ask on; expected --yes")
        assert (await penstock(cluster, "journals", "delete", "shop/orders", "--yes"))[0] == 0
        assert await journals.list() == []
        status, _, err = await penstock(cluster, "journals", "delete", "shop/orders", "--yes")
        assert (status, json.loads(err)["code"]) == (1, "not-found")


def test_a_journal_is_deleted_only_if_its_name_is_typed_again() -> None:
    assert [confirms("shop/orders", io.StringIO(said)) for said in ("shop/orders\n", "shop\n", "")] == [
        True,
        False,
        False,
    ]
