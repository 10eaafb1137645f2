"""Recovery logs on a real broker: standbys, take-overs, and brokers which are gone for a while."""

import asyncio
from pathlib import Path

import pytest
from tests.consumers.stores.recoverylog.site import LOG, checkpoint, fill, notes, running_site, write

from penstock.consumers.stores.recoverylog import recovery_log
from penstock.consumers.stores.sqlite_store import SqliteStore
from penstock.kernel.errors import Fenced

WAIT_S = 60.0


async def test_a_hot_standby_takes_over_without_playing_the_log_again(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        primary, standby = site.sqlite(), site.sqlite()
        await primary.restore()
        for number in range(200):
            await write(primary, "x" * 2_000, number + 1)
        await standby.standby()
        caught_up = standby.log.played_bytes
        assert caught_up > 400_000
        await write(primary, "written while the standby follows", 201)
        assert await standby.restore() == checkpoint(201)
        assert standby.log.played_bytes - caught_up < 40_000
        assert (await notes(standby))[-1] == "written while the standby follows"
        with pytest.raises(Fenced):
            await write(primary, "by a zombie", 202)
        await write(standby, "by the new one", 202)
        await primary.close()
        await standby.close()


async def test_of_some_which_take_over_at_once_one_commits_and_all_see_what_was(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        written = await fill(site, 5)
        rivals = [site.sqlite() for _ in range(4)]

        all_restored = asyncio.Barrier(len(rivals))

        async def live(rival: SqliteStore, note: str) -> str | None:
            """Restore, and commit once all have restored. None: fenced, at whichever of the two."""
            try:
                assert await rival.restore() == checkpoint(5)
                await all_restored.wait()
            except Fenced:
                await all_restored.wait()
                return None
            try:
                await write(rival, note, 6)
            except Fenced:
                return None
            return note

        async with asyncio.timeout(WAIT_S):
            lives = await asyncio.gather(*(live(each, f"by {number}") for number, each in enumerate(rivals)))
        won = [note for note in lives if note is not None]
        assert len(won) == 1
        for each in rivals:
            await each.close()
        last = site.sqlite()
        assert await last.restore() == checkpoint(6)
        assert await notes(last) == [*written, *won]
        await last.close()


async def test_a_broker_which_restarts_in_between_is_waited_for(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        store = site.sqlite()
        await store.restore()
        await write(store, "before", 1)
        (await store.transaction()).execute("INSERT INTO notes VALUES ('meanwhile')")
        await store.seal(checkpoint(2))
        await site.cluster.stop("b1")
        committing = asyncio.create_task(store.commit())
        await site.cluster.start("b1")
        async with asyncio.timeout(WAIT_S):
            await committing
        await store.close()
        again = site.sqlite()
        assert await again.restore() == checkpoint(2)
        assert await notes(again) == ["before", "meanwhile"]
        await again.close()


async def test_hints_are_kept_and_move_on_as_the_log_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_log, "KEEP_HINTS_BYTES", 20_000)
    monkeypatch.setattr(recovery_log, "MOVE_HINTS_BYTES", 60_000)
    async with running_site(tmp_path) as site:
        store = site.sqlite()
        await store.restore()
        first = await site.keeper().all()
        for number in range(60):
            await write(store, "x" * 2_000, number + 1)
        kept = await site.keeper().all()
        end = (await site.journals.stat(LOG)).write_head
        assert len(kept) == 3
        assert not {each.encode() for each in first} & {each.encode() for each in kept}
        assert end - kept[0].end.offset <= 40_000
        assert kept[0].end.seq_no > kept[1].end.seq_no > kept[2].end.seq_no
        await store.close()
        again = site.sqlite()
        assert await again.restore() == checkpoint(60)
        await again.close()
