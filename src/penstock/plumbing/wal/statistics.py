"""What a WAL counts about itself: plain fields, which cost the hot path nothing but an addition per batch."""

from typing import Final

import msgspec

from penstock.plumbing.process.metrics import Tally

__all__ = ["TALLY", "WalStatistics"]


class WalStatistics(msgspec.Struct, gc=False):
    """Counted since it was opened, by the writer's thread; anybody may look."""

    batches: int = 0
    records: int = 0
    bytes: int = 0  # payloads and index
    commit_seconds: float = 0.0  # spent writing batches and waiting for their fdatasync
    jobs: int = 0  # truncations, trims, saved states
    marks: int = 0  # because the log fell idle


TALLY: Final = Tally(
    "wal",
    "folder",
    counters={
        "batches": "Batches written: one write and one fdatasync each.",
        "records": "Records made durable.",
        "bytes": "Bytes made durable, payloads and index.",
        "commit_seconds": "Seconds spent writing batches and waiting for their fdatasync.",
        "jobs": "Truncations, trims and saved states.",
    },
    gauges={},
)
