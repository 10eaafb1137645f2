"""A quorum log of one node inside this process: what was appended is there when it is opened again."""

from pathlib import Path

from penstock.client.quorum import QuorumLog
from penstock.runtime.keyspace import open_keyspace
from penstock.runtime.quorum.alone import quorum_alone


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
