"""Pruning on a real broker: the rest is played back, and a pruner without knowledge removes nothing."""

from pathlib import Path

from tests.consumers.stores.recoverylog.site import LOG, PREFIX, checkpoint, fill, running_site

from penstock.consumers.stores.recoverylog.pruner import plan_pruning, prune
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.keyspace.core.transaction import DeleteKey


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


async def test_without_hints_nothing_is_pruned(tmp_path: Path) -> None:
    async with running_site(tmp_path, fragment_bytes=8 << 10) as site:
        await fill(site, 40)
        await site.stored()
        await site.keyspace.transact(then=[DeleteKey(f"{PREFIX}/", is_prefix=True)])
        planned = await plan_pruning(site.journals, LOG, [site.keeper()])
        assert planned.gone == ()
        assert planned.kept
