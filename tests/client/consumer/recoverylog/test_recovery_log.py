"""Recovery logs on a real broker: standbys, take-overs, hints and what is left of them, pruned logs."""

import asyncio
from pathlib import Path

import pytest
from tests.client.consumer.recoverylog.site import LOG, PREFIX, Site, checkpoint, running_site

from penstock.base.errors import Fenced, MalformedFrame, StorageError
from penstock.base.ids import Offset
from penstock.client.consumer.json_file_store import JsonFileStore
from penstock.client.consumer.recoverylog.player import _checked
from penstock.client.consumer.recoverylog.pruner import plan_pruning, prune
from penstock.client.consumer.sqlite_store import SqliteStore
from penstock.consumer.recoverylog.hints import Hints, Point
from penstock.keyspace.transaction import Delete, Put
from penstock.runtime.journal.fragment_store import FragmentStores

WAIT_S = 60.0


async def write(store: SqliteStore, note: str, offset: int) -> None:
    (await store.transaction()).execute("INSERT INTO notes VALUES (?)", (note,))
    await store.seal(checkpoint(offset))
    await store.commit()


async def notes(store: SqliteStore) -> list[str]:
    return [row[0] for row in (await store.transaction()).execute("SELECT note FROM notes ORDER BY rowid")]


async def fill(site: Site, commits: int, size: int = 1_000) -> list[str]:
    """A life of a store, which ends; what it has committed."""
    store = site.sqlite()
    last = await store.restore()
    offset = last.sources["shop/orders"].offset if last.sources else 0
    for number in range(commits):
        await write(store, f"{offset + number}:{'x' * size}", offset + number + 1)
    written = await notes(store)
    await store.close()
    return written


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


async def test_a_store_is_read_straight_and_only_where_the_hints_lead(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        store = site.json()
        await store.restore()
        for number in range(100):
            (await store.transaction())["notes"] = [f"{number}" * 3_000]
            await store.seal(checkpoint(number + 1))
            await store.commit()
        await store.close()
        for _ in range(2):  # the second finds the hints which the first has kept
            store = site.json()
            assert await store.restore() == checkpoint(100)
            await store.close()
        played = store.log.played_bytes
        end = (await site.journals.stat(LOG)).write_head
        assert end > 500_000
        assert played < end // 2
        await site.stored()
        unhinted = site.json()
        await site.keyspace.transact(then=[Delete(f"{PREFIX}/", is_prefix=True)])
        assert await unhinted.restore() == checkpoint(100)
        assert unhinted.log.played_bytes >= end
        player = unhinted.log._player
        assert player is not None
        assert player._reader.stored_bytes > end // 2
        await unhinted.close()


async def test_without_a_way_to_the_store_brokers_are_read(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        written = await fill(site, 100)
        await site.stored()
        store = site.sqlite(reads_stores=False)
        assert await store.restore() == checkpoint(100)
        assert await notes(store) == written
        await store.close()


async def test_hints_which_are_lost_or_damaged_are_replaced_by_their_backups(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        await fill(site, 3)
        written = await fill(site, 3)
        await site.keyspace.transact(then=[Put(f"{PREFIX}/primary", b"no hints")])
        with pytest.raises(MalformedFrame):
            await plan_pruning(site.journals, LOG, [site.keeper()])
        store = site.sqlite()
        assert await store.restore() == checkpoint(6)
        assert await notes(store) == written
        await store.close()
        assert len(await site.keeper().all()) >= 2  # the damaged ones are gone
        await site.keyspace.transact(then=[Delete(f"{PREFIX}/primary")])
        again = site.sqlite()
        assert await again.restore() == checkpoint(6)
        await again.close()


async def test_hints_never_move_back(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        older, newer = (Hints(LOG, (), Point(seq_no, 0, Offset(0))) for seq_no in (5, 9))
        keeper = site.keeper()
        assert await keeper.pick() == Hints(LOG)
        assert await keeper.move_on(older)
        assert await keeper.keep(newer)
        assert not await keeper.keep(older)
        assert not await site.keeper().move_on(older)
        assert await site.keeper().pick() == newer
        last = Hints(LOG, (), Point(10, 0, Offset(0)))
        assert await site.keeper().move_on(last)
        assert await keeper.all() == [last, newer]


async def test_for_pruning_all_backups_count_however_many_we_would_keep(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        kept = [Hints(LOG, (), Point(seq_no, 0, Offset(0))) for seq_no in range(1, 6)]
        for hints in kept:
            assert await site.keeper(backups=4).move_on(hints)
        assert await site.keeper(backups=0).all() == kept[::-1]


async def test_a_pruned_log_is_played_back_and_nothing_alive_is_pruned(tmp_path: Path) -> None:
    async with running_site(tmp_path, fragment_bytes=8 << 10) as site:
        store = site.json()
        await store.restore()
        for number in range(60):
            (await store.transaction())["notes"] = [f"{number}" * 1_000]
            await store.seal(checkpoint(number + 1))
            await store.commit()
        await store.close()
        for _ in range(3):  # so that the backups, too, are behind most of it
            store = site.json()
            await store.restore()
            await store.close()
        await site.stored()
        planned = await plan_pruning(site.journals, LOG, [site.keeper()])
        assert planned.bytes > 50_000
        assert planned.kept
        before = await site.journals.fragments(LOG)
        assert set(planned.gone) < set(before.fragments), "a dry run removes nothing"
        async with FragmentStores() as stores:
            assert await prune(stores, planned) == planned.bytes
            left = await stores.list(LOG, [planned.gone[0].backing_store])
            assert not {each.content_name for each in left} & {each.content_name for each in planned.gone}
        for host in site.cluster.hosts(LOG).values():
            await host.fragments.refresh()
        last = site.json()
        assert await last.restore() == checkpoint(60)
        assert (await last.transaction())["notes"] == ["59" * 1_000]
        await last.close()


async def test_a_log_which_lacks_what_hints_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.consumer.recoverylog.log_reader.PATIENCE", 1)
    async with running_site(tmp_path, fragment_bytes=8 << 10) as site:
        await fill(site, 40)
        await site.stored()
        known = await site.journals.fragments(LOG)
        stored = [each for each in known.fragments if each.backing_store]
        async with FragmentStores() as stores:
            await stores.delete([stored[1]])
        for host in site.cluster.hosts(LOG).values():
            await host.fragments.refresh()
        store = site.sqlite()
        with pytest.raises(StorageError, match="possible data loss"):
            await store.restore()
        await store.close()
        ahead = site.keeper()
        await ahead.keep(Hints(LOG, (), Point(10**6, 0, Offset(10**9))))
        other = site.sqlite()
        with pytest.raises(StorageError, match="possible data loss"):
            await other.restore()
        await other.close()


async def test_without_hints_nothing_is_pruned(tmp_path: Path) -> None:
    async with running_site(tmp_path, fragment_bytes=8 << 10) as site:
        await fill(site, 40)
        await site.stored()
        await site.keyspace.transact(then=[Delete(f"{PREFIX}/", is_prefix=True)])
        planned = await plan_pruning(site.journals, LOG, [site.keeper()])
        assert planned.gone == ()
        assert planned.kept


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


async def test_a_state_which_is_not_the_applications_is_refused(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        store = site.json()
        await store.restore()
        await store.seal(checkpoint(1))
        await store.commit()
        await store.close()
        other = JsonFileStore(site.log(), lambda: 1)
        with pytest.raises(StorageError, match=r"state\.json is not what the application keeps"):
            await other.restore()
        await other.close()


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".fnodes/1"])
def test_a_log_cannot_lead_out_of_its_folder(path: str) -> None:
    with pytest.raises(StorageError):
        _checked(path)
