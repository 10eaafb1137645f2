"""Sweep `scratch/`: uploads in parts that no client finished, and lists of sink batches. Design: integrity.md D12.

    scratch/s3/ID/…        goes seven days after the last byte of this upload came
    scratch/…              goes a day after it was written

Every member of a lake sweeps. Two sweeps at once do no harm, and neither does one that stops half-way.
"""

import asyncio
from collections import defaultdict
from typing import Final

from penstock.kernel.errors import PenstockError
from penstock.plumbing.objects import ObjectStore
from penstock.plumbing.objects.port import ObjectMeta
from penstock.plumbing.ports.ports import Clocks
from penstock.plumbing.process.logs import get_logger

__all__ = ["sweep_now", "sweeping"]

FOLDER: Final = "scratch/"
UPLOADS: Final = "scratch/s3/"
DAY_S: Final = 24 * 3600.0
UPLOAD_DAYS: Final = 7
PAUSE_S: Final = 3600.0

log = get_logger()


async def sweep_now(store: ObjectStore, now: float) -> int:
    """Delete old objects and return their number."""
    groups: defaultdict[str, list[ObjectMeta]] = defaultdict(list)
    async for page in store.list(FOLDER):
        for each in page.objects:
            groups[_group_of(each.key)].append(each)
    old = [
        each.key
        for group, found in groups.items()
        if max(each.modified.timestamp() for each in found) < now - _age_s(group)
        for each in found
    ]
    if old:
        await store.delete(*old)
        log.info("scratch swept", objects=len(old))
    return len(old)


async def sweeping(store: ObjectStore, clock: Clocks) -> None:
    """Sweep every hour, until cancelled."""
    while True:
        try:
            await sweep_now(store, clock.time_ns() / 1e9)
        except PenstockError as error:
            log.warning("scratch not swept", reason=str(error))
        await asyncio.sleep(PAUSE_S)


def _group_of(key: str) -> str:
    """Objects of one upload go together."""
    return UPLOADS + key[len(UPLOADS) :].partition("/")[0] if key.startswith(UPLOADS) else key


def _age_s(group: str) -> float:
    return UPLOAD_DAYS * DAY_S if group.startswith(UPLOADS) else DAY_S
