"""Playing back: what a log lacks is not passed over in silence, and nothing leads out of the folder."""

from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.consumers.stores.recoverylog.site import LOG, fill, running_site, write

from penstock.consumers.core.recoverylog.hints import Hints, LogPoint
from penstock.consumers.stores.recoverylog.log_reader import LogReader
from penstock.consumers.stores.recoverylog.player import Player, _checked
from penstock.journals.storage.fragment_store import FragmentStores
from penstock.kernel.errors import StorageError
from penstock.kernel.ids import Offset


async def test_a_log_which_lacks_what_hints_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.consumers.stores.recoverylog.log_reader.PATIENCE", 1)
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
        await ahead.keep(Hints(LOG, (), LogPoint(10**6, 0, Offset(10**9))))
        other = site.sqlite()
        with pytest.raises(StorageError, match="possible data loss"):
            await other.restore()
        await other.close()


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", ".fnodes/1"])
def test_a_log_cannot_lead_out_of_its_folder(path: str) -> None:
    with pytest.raises(StorageError):
        _checked(path)


async def test_a_copy_has_the_files_and_fences_nobody(tmp_path: Path) -> None:
    async with running_site(tmp_path) as site:
        store = site.sqlite()
        await store.restore()
        await write(store, "first", 1)
        player = Player(await site.keeper().pick(), tmp_path / "copy", LogReader(site.journals, LOG))
        await player.copy()
        assert [path.name for path in (tmp_path / "copy").iterdir()] == ["state.db"]
        with closing(apsw.Connection(str(tmp_path / "copy" / "state.db"))) as copied:
            assert list(copied.execute("SELECT note FROM notes")) == [("first",)]
        await write(store, "second", 2)
        await store.close()
