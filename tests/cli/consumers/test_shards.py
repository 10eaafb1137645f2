"""`penstock shards`, and `penstock journals publish` and `cat`, against a broker and a consumer of this process."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.journals.test_journals import penstock
from tests.consumers.worker.test_process import Tally, group
from tests.consumers.worker.test_shard_host import LINES, WORDS

from penstock.cli.consumers.consumer import load_application
from penstock.cli.consumers.shard_specs import definition_text, shard_changes_in
from penstock.consumers.client.definition import ShardDefinition
from penstock.consumers.client.shards import ShardChange
from penstock.consumers.library import Application
from penstock.kernel.errors import InvalidArgument

pytestmark = pytest.mark.timeout(300)  # every command is a process
SHARDS = b"""
group: words
shards:
  - {id: count, sources: [words/lines], recovery_log: recovery/count}
"""


async def test_shards_are_applied_run_asked_copied_and_pruned(tmp_path: Path) -> None:
    async with group(tmp_path, Tally(), "c1") as words:
        at = ("--keyspace", str(tmp_path / "keyspace"))
        (tmp_path / "shards.yaml").write_bytes(SHARDS)

        async def shards(*arguments: str) -> Any:
            return json.loads(await penstock_shards(*arguments, *at))

        assert (await shards("apply", str(tmp_path / "shards.yaml")))["shards"] == ["count"]
        published, out, _ = await penstock(
            words.cluster, "journals", "publish", LINES, stdin=b'{"text": "a rose"}\n\n{"text": "a rose is"}\n'
        )
        end = json.loads(out)["end"]
        assert (published, json.loads(out)["messages"]) == (0, 2)
        stat = await shards("stat", "count", "--through", f"{LINES}={end}", "--timeout", "60")
        assert stat["read_through"] == {LINES: end}
        _, out, _ = await penstock(words.cluster, "journals", "cat", WORDS, "--committed", "--limit", "3", "--uuids")
        shown = [line.partition(" ") for line in out.splitlines()]
        assert [json.loads(value)["word"] for _, _, value in shown] == ["a", "rose", "a"]
        assert len({uuid for uuid, _, _ in shown}) == 3
        listed = await shards("list")
        assert [(each["group"], each["id"]) for each in listed] == [("words", "count")]
        copied = await shards("recover", "count", str(tmp_path / "copy"), "--broker", words.cluster.addresses[0])
        assert copied["files"] == ["state.json"]
        assert json.loads((tmp_path / "copy/state.json").read_bytes())["state"] == {"a": 2, "rose": 2, "is": 1}
        pruned = await shards("prune", "count", "--broker", words.cluster.addresses[0])
        assert (pruned["log"], pruned["deleted"]) == ("recovery/count", False)


async def penstock_shards(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "penstock", "shards", *arguments, "--output", "json",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def test_lines_which_are_no_messages_are_refused_by_number(tmp_path: Path) -> None:
    async with group(tmp_path, Tally()) as words:
        status, _, err = await penstock(words.cluster, "journals", "publish", LINES, stdin=b'{"n": 1}\nnonsense\n')
        assert status == 2
        assert "line 2 is no JSON object" in err


async def test_a_consumer_of_a_group_without_shards_is_refused(tmp_path: Path) -> None:
    async with group(tmp_path, Tally()) as words:
        await words.shards.apply([ShardChange(ShardDefinition(id="count", sources={LINES: 0}))])
        (tmp_path / "verses.py").write_text("import penstock\n\nclass Verses(penstock.Application): ...\n")
        run = ("consumer", "run", str(tmp_path / "verses.py"), "--keyspace", str(tmp_path / "keyspace"))
        status, _, err = await penstock(words.cluster, *run)
        refusal = json.loads(err.splitlines()[-1])
        assert (status, refusal["code"]) == (1, "not-found")
        assert refusal["message"] == "group verses has no shards; groups with shards: words"


def test_definitions_are_written_back_as_they_would_be_written() -> None:
    name, changes = shard_changes_in(Path("s.yaml"), SHARDS)
    assert name == "words"
    definition = changes[0].upsert
    assert definition == ShardDefinition(id="count", sources={LINES: 0}, recovery_log="recovery/count")
    assert definition_text(definition, 7)["revision"] == 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[]", "expected `group:`"),
        (b"shards: []", "expected `shards:`"),
        (b"{shards: [{id: a, sources: [j/one]}], color: red}", "unknown field 'color'"),
        (b"{shards: [{id: a, sources: [j/one], standbyes: 2}]}", "standbyes"),
        (b"{shards: [{id: a, sources: [j/one], revision: -3}]}", "revision"),
        (b"{shards: [{id: a}]}", "sources"),
    ],
)
def test_a_file_which_asks_for_nonsense_is_refused(text: bytes, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        shard_changes_in(Path("s.yaml"), text)


def test_an_application_is_found_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "shop_consumers.py"
    file.write_text("import penstock\n\nclass One(penstock.Application): ...\n\nclass Two(penstock.Application): ...\n")
    with pytest.raises(InvalidArgument, match="has 2 applications"):
        load_application(str(file))
    found, name = load_application(f"{file}:Two")
    assert (type(found).__name__, name) == ("Two", "shop_consumers")
    assert isinstance(found, Application)
    with pytest.raises(InvalidArgument, match="expected a class"):
        load_application(f"{file}:penstock")
    with pytest.raises(InvalidArgument, match="there is no file"):
        load_application(str(tmp_path / "nothing.py"))
    with pytest.raises(InvalidArgument, match="there is no module nothing_there"):
        load_application("nothing_there:App")
