"""What a shard asks of its shell, and what the shell tells it.

Three rules are the shell's to keep:

- Appends to one journal take place in the order in which they were asked for. Each may be repeated until it is
  acknowledged (appends are at least once), but not after a later one to the same journal was sent.
- `Seal` closes the store's transaction: what the application changes from then on belongs to the next one. `Commit`
  makes the sealed one durable, together with its checkpoint, or not at all; a store which was fenced refuses.
- `Restore` places the fence before it reads: after it, no older process can commit.
"""

from typing import Any

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import Offset
from penstock.messages.framing.framing import Framing
from penstock.messages.message import Message
from penstock.messages.reader import Anomalous, Skipped

__all__ = [
    "Append",
    "Appended",
    "Chunk",
    "Commit",
    "Committed",
    "Consume",
    "Consumed",
    "Failed",
    "Finalize",
    "Finalized",
    "Noticed",
    "Progress",
    "Publication",
    "Read",
    "Restore",
    "Restored",
    "Seal",
]


class Publication(msgspec.Struct, frozen=True):
    """Messages which the application publishes to a journal."""

    journal: str
    framing: Framing
    prepared: tuple[Any, ...]  # values, as `Framing.prepare` returns them


# Effects


class Restore(Effect, frozen=True):
    """Fence the store and read its checkpoint. Completed by `Restored`."""


class Read(Effect, frozen=True):
    """Bytes of a journal from `begin` on, as many as are at hand, up to `end` if there is one. Completed by `Chunk`.

    Where there are none yet, it waits for them.
    """

    journal: str
    begin: Offset
    end: Offset | None = None


class Consume(Effect, frozen=True):
    """Let the application consume committed messages, in the store's open transaction. Completed by `Consumed`."""

    txn: int
    journal: str
    messages: tuple[Message, ...]


class Finalize(Effect, frozen=True):
    """Let the application finish the transaction. Completed by `Finalized`."""

    txn: int


class Seal(Effect, frozen=True):
    """Close the store's transaction, with this checkpoint in it."""

    txn: int
    checkpoint: Checkpoint


class Commit(Effect, frozen=True):
    """Commit the sealed transaction. Completed by `Committed`, or `Failed` by a fence."""

    txn: int


class Append(Effect, frozen=True):
    """Append frames to a journal. Completed by `Appended`."""

    number: int
    journal: str
    data: bytes


class Progress(Effect, frozen=True):
    """Everything before these offsets has taken its full effect. Readers that wait for their own writes need it."""

    read_through: dict[str, Offset]


class Noticed(Effect, frozen=True):
    """Something was wrong with a source and was passed over. For people."""

    journal: str
    found: Skipped | Anomalous


# Events


class Restored(Event, frozen=True):
    """The store is fenced, and this is its checkpoint: an empty one, if it is new."""

    checkpoint: Checkpoint


class Chunk(Event, frozen=True):
    """Bytes of the journal, in answer to `Read`. It begins behind `Read.begin` where the bytes between are gone."""

    journal: str
    offset: Offset
    data: bytes


class Consumed(Event, frozen=True):
    """The application has consumed its messages."""

    publications: tuple[Publication, ...] = ()


class Finalized(Event, frozen=True):
    """The application has finished the transaction."""

    publications: tuple[Publication, ...] = ()


class Committed(Event, frozen=True):
    """The transaction is durable, checkpoint and all."""

    txn: int


class Appended(Event, frozen=True):
    """The frames are in the journal, at least once, and before `end`."""

    number: int
    end: Offset


class Failed(Event, frozen=True):
    """The shard cannot continue: the application raised, the store was fenced, or a journal is gone."""

    reason: str
