"""The queue port: one order of records for all members. Design: lake.md L1, L3; queue-based-staging.md.

A queue promises three things: every member reads the same batches in the same order; every accepted batch is read at
least once; reading can begin again after any batch. It does not promise that a put batch arrives: a member that does
not see its record come back puts it again, under the same request id.

Each reader counts positions, from 1, record by record: they are the same for all since the order is. A **cursor** is
the queue's own name for a place between two batches; a checkpoint holds both.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from penstock.kernel.errors import InvalidArgument, LimitExceeded
from penstock.lake.core.staging.proposing.port import Envelope
from penstock.lake.core.staging.records import Record

__all__ = ["RECORD_BYTES_MAX", "START", "Queue", "QueueBatch", "check_record"]

RECORD_BYTES_MAX: Final = 512 << 10  # of one encoded envelope: larger PUTs are cut into several
START: Final = 0  # the cursor before the first batch


_encode = msgspec.msgpack.Encoder().encode


def check_record(record: Record) -> None:
    """Refuse a record that no queue can hold: one that has no bytes, or too many."""
    try:
        size = len(_encode(record))
    except (OverflowError, ValueError, TypeError) as error:
        raise InvalidArgument(f"this cannot be recorded: {error}") from None
    if size > RECORD_BYTES_MAX:
        raise LimitExceeded(
            f"the record of this change has {size} bytes; at most {RECORD_BYTES_MAX} are recorded",
            limit=RECORD_BYTES_MAX,
            next_step="change fewer paths at once",
        )


class QueueBatch(msgspec.Struct, frozen=True):
    """Some records that lie together on the queue."""

    cursor: int  # where to continue after it
    stamp: int  # nanoseconds since 1970, by the sender's clock (L3: nothing that matters for safety reads it)
    envelopes: tuple[Envelope, ...]


class Queue(Protocol):
    """What a member asks of a queue."""

    @property
    def checkpoint_span(self) -> int:
        """The distance, in cursors, between checkpoints: all members take them at the same places."""
        ...

    def put(self, envelope: Envelope) -> None:
        """Hand over a record. Never waits, may be lost."""
        ...

    def read(self, cursor: int) -> AsyncIterator[QueueBatch]:
        """Yield every batch after the cursor, and then new ones. `Compacted` if the queue no longer has them all."""
        ...

    async def close(self) -> None: ...
