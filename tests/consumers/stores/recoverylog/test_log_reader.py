"""Reading logs: straight from the store where that can be, and only where the hints lead."""

from pathlib import Path

from tests.consumers.stores.recoverylog.site import LOG, PREFIX, checkpoint, fill, notes, running_site

from penstock.keyspace.core.transaction import DeleteKey


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
        await site.keyspace.transact(then=[DeleteKey(f"{PREFIX}/", is_prefix=True)])
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
