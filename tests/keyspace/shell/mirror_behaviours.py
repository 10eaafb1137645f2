"""What a mirror does on every real KeySpace."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.keyspace.shell.behaviours import WAIT_S, Harness

from penstock.kernel.errors import AlreadyClosed, InternalError, PenstockError
from penstock.kernel.ids import Revision
from penstock.keyspace.core.mirror import MirrorChange
from penstock.keyspace.core.transaction import DeleteKey, PutKey
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace


class MirrorBehaviours:
    """Inherit from it, and give it the fixture `harness`."""

    @pytest.fixture
    async def keyspace(self, harness: Harness) -> KeySpace:
        return await harness.open()

    @pytest.fixture
    def p(self, harness: Harness) -> str:
        return harness.prefix

    @pytest.fixture
    async def mirror(self, harness: Harness) -> AsyncIterator[KeySpaceMirror]:
        async with await KeySpaceMirror.start(await harness.open(), harness.prefix) as mirror:
            yield mirror

    async def test_it_follows_what_others_write(self, keyspace: KeySpace, p: str) -> None:
        await keyspace.transact(then=[PutKey(f"{p}a", b"1")])
        async with await KeySpaceMirror.start(keyspace, p, {p: lambda _, value: int(value)}) as mirror:
            assert [(e.key, e.value) for e in mirror.range(p)] == [(f"{p}a", 1)]
            last = (await keyspace.transact(then=[PutKey(f"{p}b", b"2"), DeleteKey(f"{p}a")])).revision
            async with asyncio.timeout(WAIT_S):
                await mirror.wait_for_revision(last)
            assert [(e.key, e.value) for e in mirror.range(p)] == [(f"{p}b", 2)]
            assert mirror.has_revision(last)

    async def test_observers_see_whole_revisions_once(self, keyspace: KeySpace, mirror: KeySpaceMirror, p: str) -> None:
        """Two keys always change together: no observer, and no reader in between, ever sees them apart."""
        seen: list[MirrorChange] = []

        def observe(applied: MirrorChange) -> None:
            seen.append(applied)
            values = [e.stored.value for e in mirror.range(p)]
            assert len(set(values)) == 1, values
            assert mirror.revision == applied.revision

        mirror.observe(observe)
        for n in range(20):
            last = await keyspace.transact(then=[PutKey(f"{p}a", b"%d" % n), PutKey(f"{p}b", b"%d" % n)])
            async with asyncio.timeout(WAIT_S):
                if n % 3 == 0:
                    await mirror.wait_for_revision(last.revision)
        async with asyncio.timeout(WAIT_S):
            await mirror.wait_for_revision((await keyspace.status()).revision)
        revisions = [applied.revision for applied in seen]
        assert revisions == sorted(set(revisions))
        assert [c.key for c in seen[-1].changes] == [f"{p}a", f"{p}b"]
        last_change = seen[-1].changes[-1].after
        assert last_change is not None
        assert last_change.stored.value == b"19"

    async def test_an_observer_may_stop(self, keyspace: KeySpace, mirror: KeySpaceMirror, p: str) -> None:
        seen: list[Revision] = []
        stop = mirror.observe(lambda applied: seen.append(applied.revision))
        first = (await keyspace.transact(then=[PutKey(f"{p}a", b"")])).revision
        async with asyncio.timeout(WAIT_S):
            await mirror.wait_for_revision(first)
            stop()
            stop()
            await mirror.wait_for_revision((await keyspace.transact(then=[PutKey(f"{p}a", b"")])).revision)
        assert seen == [first]

    async def test_a_revision_which_changed_nothing_here_is_reached_too(self, keyspace: KeySpace, p: str) -> None:
        """Gazette hangs there (gazette.md §1.4): the watch says nothing of other keys."""
        async with await KeySpaceMirror.start(keyspace, f"{p}here/") as mirror:
            other = (await keyspace.transact(then=[PutKey(f"{p}elsewhere", b"")])).revision
            async with asyncio.timeout(WAIT_S):
                await mirror.wait_for_revision(other)
            assert mirror.revision >= other
            assert mirror.range("") == []

    async def test_many_wait_and_some_give_up(self, keyspace: KeySpace, mirror: KeySpaceMirror, p: str) -> None:
        now = mirror.revision
        waiting = [asyncio.ensure_future(mirror.wait_for_revision(Revision(now + n))) for n in (1, 3, 2, 1)]
        far = asyncio.ensure_future(mirror.wait_for_revision(Revision(now + 1_000_000)))
        await asyncio.sleep(0)
        waiting.pop(2).cancel()
        async with asyncio.timeout(WAIT_S):
            for _ in range(3):
                await keyspace.transact(then=[PutKey(f"{p}a", b"")])
            await asyncio.gather(*waiting)
        assert not far.done()
        await mirror.close()
        with pytest.raises(AlreadyClosed):
            await far
        with pytest.raises(AlreadyClosed):
            await mirror.wait_for_revision(Revision(now + 1_000_000))

    async def test_it_follows_across_a_restart(
        self, harness: Harness, keyspace: KeySpace, mirror: KeySpaceMirror, p: str
    ) -> None:
        before = (await keyspace.transact(then=[PutKey(f"{p}a", b"1")])).revision
        await harness.restart()
        after = await (await harness.open()).transact(then=[PutKey(f"{p}b", b"2")])
        async with asyncio.timeout(WAIT_S):
            await mirror.wait_for_revision(after.revision)
        assert [(e.key, e.stored.mod_revision) for e in mirror.range(p)] == [
            (f"{p}a", before),
            (f"{p}b", after.revision),
        ]

    async def test_an_observer_which_fails_ends_the_mirror(self, keyspace: KeySpace, p: str) -> None:
        failures: list[PenstockError] = []
        failed = asyncio.Event()

        def on_failure(error: PenstockError) -> None:
            failures.append(error)
            failed.set()

        def observer(applied: MirrorChange) -> None:
            raise ValueError("no such zone")

        async with await KeySpaceMirror.start(keyspace, p, on_failure=on_failure) as mirror, asyncio.timeout(WAIT_S):
            mirror.observe(observer)
            outcome = await keyspace.transact(then=[PutKey(f"{p}a", b"")])
            await failed.wait()
            with pytest.raises(InternalError, match="no such zone"):
                await mirror.wait_for_revision(Revision(outcome.revision + 1))
        assert [type(error) for error in failures] == [InternalError]
