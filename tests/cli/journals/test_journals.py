"""`penstock journals`, against a broker of this process."""

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.journals.broker.cluster import Cluster, running_cluster

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
