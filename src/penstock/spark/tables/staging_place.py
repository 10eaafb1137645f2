"""Where tasks and drivers write the files of a batch: the lake's own store, or the lake. Design: spark-2.md S10, S11.

A bucket is the same from every host, and is used if the process has keys for it. A folder may be another one on the
host of a task: it is used only if it holds the lake's mark. Else the bytes go through the lake's server. A process
opens a store once. Failures that may pass are tried again for a minute.
"""

import time
from typing import Any, Final

import msgspec

from penstock.kernel.errors import NotFound, StorageError
from penstock.lake.client.lake import LakeUrl
from penstock.lake.records.sink_batch import STORE_MARK, SinkPlace, list_key
from penstock.plumbing.objects import ObjectStore, open_store
from penstock.plumbing.process.loop_thread import LoopThread
from penstock.plumbing.process.per_process import PerProcess
from penstock.spark.shared.store_access import can_open
from penstock.spark.tables.lake_access import FIRST_WAIT_S, PATIENCE_S, WAIT_S_MAX, LakeAccess

__all__ = ["StagingPlace", "place_of"]

_stores: Final[PerProcess[dict[str, ObjectStore]]] = PerProcess(dict)
_seen: Final[PerProcess[dict[tuple[str, str], bool]]] = PerProcess(dict)


class StagingPlace(msgspec.Struct, frozen=True):
    """A branch's place for new files, and the lake to ask. Travels to tasks."""

    place: SinkPlace
    access: LakeAccess
    api: str  # of the branch

    @property
    def sees_store(self) -> bool:
        """Return True if this host's folder is the lake's, or if this process has keys for the lake's bucket."""
        if not self.place.mark:
            return can_open(self.place.store)
        key, seen = (self.place.store, self.place.mark), _seen.get()
        if key not in seen:
            seen[key] = _mark(self.place.store) == self.place.mark
        return seen[key]

    def put_file(self, address: str, data: memoryview) -> None:
        """Write a staged file, durably."""
        if self.sees_store:
            _put(self.place.store, self.place.folder + address, data)
        else:
            self.access.send(f"{self.api}/sinks/staged/{address}", data)

    def put_list(self, id_: str, data: bytes) -> None:
        """Write the list of a batch, durably."""
        if self.sees_store:
            _put(self.place.store, list_key(id_), data)
        else:
            self.access.send(f"{self.api}/sinks/lists/{id_}", data)


def place_of(access: LakeAccess, target: LakeUrl) -> StagingPlace:
    """Return where files for a branch go now."""
    found = msgspec.convert(access.ask("GET", f"{target.branch_api}/sinks/place"), SinkPlace)
    return StagingPlace(found, access, target.branch_api)


def _mark(store_url: str) -> str:
    async def read() -> str:
        async with open_store(store_url) as store:
            return bytes((await store.get(STORE_MARK)).data).decode("utf-8", "replace")

    try:
        return LoopThread.shared().run(read())
    except (NotFound, StorageError):
        return ""


def _put(store_url: str, key: str, data: Any) -> None:
    end, wait_s = time.monotonic() + PATIENCE_S, FIRST_WAIT_S
    while True:
        try:
            LoopThread.shared().run(_put_once(store_url, key, data))
            return
        except StorageError as error:
            if not error.retryable or time.monotonic() + wait_s > end:
                raise
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, WAIT_S_MAX)


async def _put_once(store_url: str, key: str, data: Any) -> None:
    stores = _stores.get()
    if store_url not in stores:
        stores[store_url] = open_store(store_url)
    await stores[store_url].put(key, data)
