"""A quorum log of one node inside this process: what was appended is there when it is opened again."""

from pathlib import Path

import pytest

from penstock.kernel.errors import Unavailable
from penstock.keyspace.shell import open_keyspace
from penstock.quorum.client.quorum import QuorumLog
from penstock.quorum.operator.alone import quorum_alone


async def test_it_keeps_what_it_was_given(tmp_path: Path) -> None:
    found: list[bytes] = []
    for count in (1, 2):  # the second time on another port: the operator is told where the node is now
        async with (
            await open_keyspace(f"embedded://{tmp_path}/keyspace") as keyspace,
            quorum_alone(tmp_path, keyspace, "main") as alone,
            QuorumLog([alone.node], "main") as log,
        ):
            await log.append(b"%d" % count, timeout=20)
            found = [txn.ops async for _, txn in log.subscribe(follow=False, is_gapless=True)]
    assert found == [b"1", b"2"]


async def test_who_cannot_run_says_what_to_do_about_it(tmp_path: Path) -> None:
    async with (
        await open_keyspace(f"embedded://{tmp_path}/keyspace") as keyspace,
        quorum_alone(tmp_path, keyspace, "main") as alone,
        QuorumLog([alone.node], "main") as log,
    ):
        for _ in range(3):
            await log.append(b"0" * 100, timeout=20)
    segment = next((tmp_path / "n1" / "shards" / "main" / "log").glob("*.wal"))
    content = segment.read_bytes()
    at = content.index(b"0" * 100)
    segment.write_bytes(content[:at] + b"1" + content[at + 1 :])
    async with (
        await open_keyspace(f"embedded://{tmp_path}/keyspace") as keyspace,
        quorum_alone(tmp_path, keyspace, "main") as alone,
        QuorumLog([alone.node], "main") as log,
    ):
        with pytest.raises(Unavailable, match="is damaged at byte") as told:
            await log.read(b"", timeout=4)
    assert told.value.next_step == "keep the folder for inspection, and restore this node from its peers or a backup"
