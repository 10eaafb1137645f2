"""The lost-and-found: transactions which a truncation removed from this node's log. Design: quorum-log.md P8, S17.

They were never committed as far as this node knew; an async one may have been acknowledged. They are lost for good only
when the barrier of the epoch which displaced them has committed: until then another node may still bring them back.
One file per truncation, JSON lines, for people; nothing ever reads it back.
"""

import asyncio
import base64
from collections.abc import Iterable
from pathlib import Path

import msgspec

from penstock.kernel.ids import Offset
from penstock.plumbing.ports.disk import FileSystem
from penstock.plumbing.wal.disk import write_fully
from penstock.quorum.records.effects import KeepLost
from penstock.quorum.records.entry import Entry, Txn

__all__ = ["LostAndFound"]

FILES_MAX = 1_000


class LostAndFound:
    """Keeps lost entries, and counts them. Beyond `FILES_MAX` truncations the oldest files go."""

    def __init__(self, folder: Path, disk: FileSystem) -> None:
        self.folder = folder
        self._disk = disk
        self.transactions = 0  # lost since this process started
        self.bytes = 0

    async def keep(self, effect: KeepLost, entries: Iterable[tuple[Offset, Entry]]) -> None:
        """Write the transactions among the entries down, before they are truncated."""
        lost = [(offset, entry) for offset, entry in entries if isinstance(entry, Txn)]
        if not lost:
            return
        self.transactions += len(lost)
        self.bytes += sum(len(entry.ops) for _, entry in lost)
        await asyncio.get_running_loop().run_in_executor(None, self._write, effect, lost)

    def _write(self, effect: KeepLost, lost: list[tuple[Offset, Txn]]) -> None:
        self._disk.make_folders(self.folder)
        lines = [
            msgspec.json.encode(
                {
                    "epoch": txn.epoch,
                    "offset": offset,
                    "client": txn.client,
                    "seq": txn.seq,
                    "sync": txn.is_sync,
                    "displaced_by_epoch": effect.displaced_by,
                    "ops_base64": base64.b64encode(txn.ops).decode(),
                }
            )
            for offset, txn in lost
        ]
        name = f"{effect.displaced_by:010}-{effect.first:020}.jsonl"
        fd = self._disk.create(self.folder / name)
        try:
            write_fully(self._disk, fd, b"\n".join([*lines, b""]), 0)
        finally:
            self._disk.close(fd)
        for old in [path for path in self._disk.walk(self.folder) if path.suffix == ".jsonl"][:-FILES_MAX]:
            self._disk.remove(old)
