"""The JSON file store: `test_stores.py` tests the behaviour of all stores; here is its own."""

from pathlib import Path

import pytest
from tests.consumers.stores.recoverylog.site import checkpoint, running_site

from penstock.consumers.stores.json_file_store import JsonFileStore
from penstock.kernel.errors import StorageError


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
