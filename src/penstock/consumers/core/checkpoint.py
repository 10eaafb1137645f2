"""The checkpoint: what commits with a shard's store, and so decides what has happened. Design: exactly-once.md.

It says how far each source journal was read, with its producers' states, and which ACK intents belong to the messages
published meanwhile. Once it is committed, its intents are as good as written: every restore writes them again.
"""

import msgspec

from penstock.kernel.codec import Codec
from penstock.kernel.errors import MalformedFrame
from penstock.messages.publisher import AckIntents
from penstock.messages.read_state import ReadState

__all__ = ["Checkpoint"]


class _Record(msgspec.Struct, frozen=True, tag="checkpoint-1"):
    sources: dict[str, bytes]
    ack_intents: dict[str, bytes]


_codec = Codec[_Record](_Record)


class Checkpoint(msgspec.Struct, frozen=True):
    """Everything that a shard needs to continue, besides its store."""

    sources: dict[str, ReadState] = {}
    ack_intents: AckIntents = {}

    def encode(self) -> bytes:
        """The one encoding of this checkpoint."""
        sources = {journal: self.sources[journal].encode() for journal in sorted(self.sources)}
        intents = {journal: self.ack_intents[journal] for journal in sorted(self.ack_intents)}
        return _codec.encode(_Record(sources, intents))

    @classmethod
    def decode(cls, data: bytes) -> "Checkpoint":
        """The checkpoint, or MalformedFrame."""
        record = _codec.decode(data)
        try:
            sources = {journal: ReadState.decode(state) for journal, state in record.sources.items()}
        except MalformedFrame as error:
            raise MalformedFrame(f"a checkpoint with a broken source: {error.message}") from None
        return cls(sources, record.ack_intents)
