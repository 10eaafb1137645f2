"""Options of committed data: how much is held in memory, and how much runs at once."""

import os

import msgspec

from penstock.kernel.errors import InvalidArgument
from penstock.lake.core.committed.boundary import CHUNKING, Chunking
from penstock.lake.core.committed.leaves.cut import LEAF_CUT, LeafCut
from penstock.lake.core.committed.leaves.spans import JOB_ROWS

__all__ = ["TreeOptions"]


class TreeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults suit a server which shares its machine with others."""

    cache_bytes_max: int = 256 << 20  # of decoded ranges and metaranges
    threads_max: int = msgspec.field(default_factory=lambda: os.cpu_count() or 1)  # for work on rows
    jobs_per_thread_max: int = 4  # of a build: while one is at its rows, others are read and written
    reads_in_flight_max: int = 8  # ranges of one lookup
    writes_in_flight_max: int = 4  # calls of the store, with many objects each
    chunking: Chunking = CHUNKING  # of format 2; part of the format: the same for everyone who uses a repository
    leaf_cut: LeafCut = LEAF_CUT  # the same of format 3
    job_rows: int = JOB_ROWS  # touched rows of one job of a build

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name not in ("chunking", "leaf_cut") and getattr(self, name) < 1:
                raise InvalidArgument(f"option {name} of committed data is {getattr(self, name)}")
