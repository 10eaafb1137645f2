"""The mirror on the embedded KeySpace, where a test can make a watch lose its place."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.keyspace.shell.behaviours import WAIT_S
from tests.keyspace.shell.embedded.harness import EmbeddedHarness
from tests.keyspace.shell.mirror_behaviours import MirrorBehaviours

from penstock.kernel.errors import KeySpaceForgot, PenstockError
from penstock.kernel.ids import Revision
from penstock.keyspace.core.mirror import MirrorChange
from penstock.keyspace.core.transaction import DeleteKey, PutKey
from penstock.keyspace.shell.embedded.options import EmbeddedOptions
from penstock.keyspace.shell.embedded.store import EmbeddedKeySpace
from penstock.keyspace.shell.mirror import KeySpaceMirror


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[EmbeddedHarness]:
    async with AsyncExitStack() as opened:
        yield EmbeddedHarness(tmp_path / "keyspace", opened)


class TestBehaviours(MirrorBehaviours):
    """See mirror_behaviours.py."""


async def test_it_reads_anew_when_its_place_was_compacted_away(harness: EmbeddedHarness) -> None:
    deaf = await EmbeddedKeySpace.open(harness.folder, EmbeddedOptions(poll_ms=600_000), clock=harness.clock)
    async with deaf, await KeySpaceMirror.start(deaf, "") as mirror, asyncio.timeout(WAIT_S):
        seen: list[MirrorChange] = []
        mirror.observe(seen.append)
        first = (await deaf.transact(then=[PutKey("a", b"1"), PutKey("b", b"1")])).revision
        await mirror.wait_for_revision(first)
        for name in os.listdir(harness.folder / "wake"):  # no wake-up reaches it now
            (harness.folder / "wake" / name).unlink()
        other = await harness.open()
        await other.transact(then=[DeleteKey("a"), PutKey("c", b"1")])
        last = (await other.transact(then=[PutKey("a", b"2")])).revision
        await other.compact(last)
        assert mirror.revision == first
        after = (await deaf.transact(then=[PutKey("d", b"1")])).revision  # now it learns how far it is behind
        await mirror.wait_for_revision(after)
        assert [e.stored for e in mirror.range("")] == list((await other.range("")).entries)
        assert [applied.is_resync for applied in seen] == [False, True]
        assert [(c.key, c.is_another_life) for c in seen[1].changes] == [("a", True), ("c", False), ("d", False)]


async def test_a_removed_store_ends_the_mirror(harness: EmbeddedHarness) -> None:
    failures: list[PenstockError] = []
    keyspace = await harness.open()
    async with (
        await KeySpaceMirror.start(keyspace, "", on_failure=failures.append) as mirror,
        asyncio.timeout(WAIT_S),
    ):
        (harness.folder / "store.sqlite").unlink()
        with pytest.raises(KeySpaceForgot, match="removed"):
            await mirror.wait_for_revision(Revision(1_000))
    assert [type(error) for error in failures] == [KeySpaceForgot]
