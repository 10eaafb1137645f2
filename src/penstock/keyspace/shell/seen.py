"""Seen: how far a KeySpace had come when a member last looked, in a file of the member's. Design: integrity.md D13.

    {member's folder}/seen-keyspace.json    the KeySpace's id and revision, at most ten seconds old

A KeySpace that was put back as it was yesterday, folder and witness alike, has forgotten all later transactions.
Its members do: none serves before it has compared.
"""

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import Final, Self

from penstock.kernel.errors import KeySpaceForgot, PenstockError
from penstock.kernel.formats import SEEN_KEYSPACE
from penstock.keyspace.shell.mirror import KeySpaceMirror
from penstock.keyspace.shell.port import KeySpace
from penstock.plumbing.files.sealed import read_sealed, write_sealed
from penstock.plumbing.ports.disk import FileSystem
from penstock.plumbing.process.logs import get_logger

__all__ = ["SeenKeySpace"]

NOTE_S: Final = 10.0
log = get_logger()


class SeenKeySpace:
    """What one member has seen. Make it with `compare`, before the member serves."""

    def __init__(self, path: Path, disk: FileSystem, store_id: str, revision: int) -> None:
        self._path = path
        self._disk = disk
        self._store_id = store_id
        self._revision = revision
        self._mirror: KeySpaceMirror | None = None
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def compare(cls, folder: Path, disk: FileSystem, keyspace: KeySpace) -> Self:
        """Refuse another KeySpace than the member has seen, and an older one, with `KeySpaceForgot`."""
        path = folder / SEEN_KEYSPACE.where
        seen = await asyncio.to_thread(read_sealed, SEEN_KEYSPACE, path, disk)
        status = await keyspace.status()
        if seen is not None and seen["store_id"] != status.store_id:
            raise _forgot(path, f"this is KeySpace {status.store_id}, and {folder} belongs to {seen['store_id']}")
        if seen is not None and seen["revision"] > status.revision:
            raise _forgot(
                path,
                f"the KeySpace is at revision {status.revision}, and {folder} has seen {seen['revision']}: "
                "an older copy of it was put back",
            )
        return cls(path, disk, status.store_id, status.revision)

    def start(self, mirror: KeySpaceMirror) -> None:
        """Note how far the mirror comes."""
        self._mirror = mirror
        self._task = asyncio.create_task(self._keep_noting(), name="notes the KeySpace")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            await self._note()

    async def _keep_noting(self) -> None:
        await self._note()
        while True:
            await asyncio.sleep(NOTE_S)
            if self._mirror is not None and self._mirror.revision > self._revision:
                await self._note()

    async def _note(self) -> None:
        if self._mirror is not None:
            self._revision = max(self._revision, self._mirror.revision)
        try:
            fields = {"store_id": self._store_id, "revision": self._revision}
            await asyncio.to_thread(partial(write_sealed, SEEN_KEYSPACE, self._path, fields, disk=self._disk))
        except PenstockError as error:  # a full disk: the last note stays, and says less
            log.warning("keyspace not noted", reason=str(error))


def _forgot(path: Path, why: str) -> KeySpaceForgot:
    return KeySpaceForgot(
        why,
        next_step=f"put the newer KeySpace back; or accept the loss, and remove {path}",
        file=str(path),
    )
