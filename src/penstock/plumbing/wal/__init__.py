"""The write-ahead log: a record is durable when its append returns. See docs/reference/wal.md.

From the outside in: `Wal` on the event loop, with its `WorkQueue` (group commit) and `Reader`; `Writer`, the thread;
`Segments` (append, roll over, truncate, trim); `recovery` (what a folder holds); `Cursor`; the formats of `Segment` and
batch; and the `Disk`.
"""

from penstock.plumbing.wal.disk import Disk, LocalDisk
from penstock.plumbing.wal.options import WalOptions
from penstock.plumbing.wal.records import Records
from penstock.plumbing.wal.recovery import Recovery, TornTail
from penstock.plumbing.wal.state_file import StateFile
from penstock.plumbing.wal.statistics import WalStatistics
from penstock.plumbing.wal.wal import OnDurable, Wal

__all__ = [
    "Disk",
    "LocalDisk",
    "OnDurable",
    "Records",
    "Recovery",
    "StateFile",
    "TornTail",
    "Wal",
    "WalOptions",
    "WalStatistics",
]
