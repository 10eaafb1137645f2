"""Effects that a shard asks of its shell, and events that the shell reports.

The shell keeps three rules:

- Appends to one journal take effect in the order of their effects. The shell may repeat an append until the journal
  acknowledges it, but never after it sent a later append to the same journal.
- `Seal` closes the store's transaction. Later changes of the application belong to the next transaction. `CommitShard`
  makes the sealed transaction and its checkpoint durable together, or neither. A fenced store refuses.
- `Restore` sets the fence before it reads. After it, no older process can commit.
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
    "AppendIntent",
    "CommitShard",
    "Consume",
    "Consumed",
    "Failed",
    "Finalize",
    "Finalized",
    "IntentAppended",
    "Noticed",
    "Publication",
    "ReadSource",
    "Restore",
    "Restored",
    "Seal",
    "ShardCommitted",
    "ShardProgress",
    "SourceChunk",
]


class Publication(msgspec.Struct, frozen=True):
    """Messages which the application publishes to a journal."""

    journal: str
    framing: Framing
    prepared: tuple[Any, ...]  # values, as `Framing.prepare` returns them


# Effects


class Restore(Effect, frozen=True):
    """Fence the store and read its checkpoint. Completed by `Restored`."""


class ReadSource(Effect, frozen=True):
    """Read bytes of a journal from `begin`, at most up to `end`, or wait for them. Completed by `SourceChunk`."""

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


class CommitShard(Effect, frozen=True):
    """Commit the sealed transaction. Completed by `ShardCommitted`, or `Failed` by a fence."""

    txn: int


class AppendIntent(Effect, frozen=True):
    """Append frames to a journal. Completed by `IntentAppended`."""

    number: int
    journal: str
    data: bytes


class ShardProgress(Effect, frozen=True):
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


class SourceChunk(Event, frozen=True):
    """Bytes of the journal that a `ReadSource` asked for. They begin later if earlier bytes are gone."""

    journal: str
    offset: Offset
    data: bytes


class Consumed(Event, frozen=True):
    """The application has consumed its messages."""

    publications: tuple[Publication, ...] = ()


class Finalized(Event, frozen=True):
    """The application has finished the transaction."""

    publications: tuple[Publication, ...] = ()


class ShardCommitted(Event, frozen=True):
    """The transaction is durable, checkpoint and all."""

    txn: int


class IntentAppended(Event, frozen=True):
    """The frames are in the journal, at least once, and before `end`."""

    number: int
    end: Offset


class Failed(Event, frozen=True):
    """The shard cannot continue: the application raised, the store was fenced, or a journal is gone."""

    reason: str
