"""Hints in the KeySpace: they only move forward, and their backups lead to the same state."""

from pathlib import Path

import pytest
from tests.consumers.stores.recoverylog.site import LOG, PREFIX, checkpoint, fill, notes, running_site

from penstock.consumers.core.recoverylog.hints import Hints, LogPoint
from penstock.consumers.stores.recoverylog.pruner import plan_pruning
from penstock.kernel.errors import MalformedFrame
from penstock.kernel.ids import Offset
from penstock.keyspace.core.transaction import DeleteKey, PutKey


async def test_hints_which_are_lost_or_damaged_are_replaced_by_their_backups(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        await fill(site, 3)
        written = await fill(site, 3)
        await site.keyspace.transact(then=[PutKey(f"{PREFIX}/primary", b"no hints")])
        with pytest.raises(MalformedFrame):
            await plan_pruning(site.journals, LOG, [site.keeper()])
        store = site.sqlite()
        assert await store.restore() == checkpoint(6)
        assert await notes(store) == written
        await store.close()
        assert len(await site.keeper().all()) >= 2  # the damaged ones are gone
        await site.keyspace.transact(then=[DeleteKey(f"{PREFIX}/primary")])
        again = site.sqlite()
        assert await again.restore() == checkpoint(6)
        await again.close()


async def test_hints_never_move_back(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        older, newer = (Hints(LOG, (), LogPoint(seq_no, 0, Offset(0))) for seq_no in (5, 9))
        keeper = site.keeper()
        assert await keeper.pick() == Hints(LOG)
        assert await keeper.move_on(older)
        assert await keeper.keep(newer)
        assert not await keeper.keep(older)
        assert not await site.keeper().move_on(older)
        assert await site.keeper().pick() == newer
        last = Hints(LOG, (), LogPoint(10, 0, Offset(0)))
        assert await site.keeper().move_on(last)
        assert await keeper.all() == [last, newer]


async def test_for_pruning_all_backups_count_however_many_we_would_keep(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        kept = [Hints(LOG, (), LogPoint(seq_no, 0, Offset(0))) for seq_no in range(1, 6)]
        for hints in kept:
            assert await site.keeper(backups=4).move_on(hints)
        assert await site.keeper(backups=0).all() == kept[::-1]
