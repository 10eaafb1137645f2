"""The write-ahead log: what is appended is durable when the append returns. See docs/reference/wal.md.

From the outside in: `Wal` on the event loop, with its `WorkQueue` (group commit) and `Reader`; `Writer`, the thread;
`Segments` (append, roll over, truncate, trim); `recovery` (what a folder holds); `Cursor`; the formats of `Segment` and
batch; and the `Disk`.
"""

from penstock.runtime.wal.disk import Disk, LocalDisk
from penstock.runtime.wal.options import WalOptions
from penstock.runtime.wal.records import Records
from penstock.runtime.wal.recovery import Recovery, TornTail
from penstock.runtime.wal.state_file import StateFile
from penstock.runtime.wal.statistics import WalStatistics
from penstock.runtime.wal.wal import OnDurable, Wal

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
