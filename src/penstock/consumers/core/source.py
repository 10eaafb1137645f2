"""A source journal of a shard: reads on demand, one read at a time, so that its memory is bounded."""

from penstock.consumers.core.effects import ReadSource, SourceChunk
from penstock.kernel.ids import Offset
from penstock.messages.message import Message, Replay
from penstock.messages.read_state import ReadState
from penstock.messages.reader import Anomalous, CommittedMessage, CommittedReader, Skipped

__all__ = ["ShardSource"]


class ShardSource:
    """One source: returns committed messages, and requests the bytes that it needs to find more."""

    def __init__(self, reader: CommittedReader, offset: Offset) -> None:
        self.journal = reader.journal
        self.is_mid_span = False  # a transaction of the journal was given out in part
        self.checkpointed = offset
        self._reader = reader
        self._next_at = offset
        self._noticed: list[Skipped | Anomalous] = []
        self._asked: ReadSource | None = None
        self._wanted: Replay | None = None

    def chunk(self, chunk: SourceChunk) -> None:
        """Take the requested bytes."""
        asked, self._asked = self._asked, None
        assert asked is not None, f"{chunk} was not asked for"
        assert chunk.offset >= asked.begin, f"{chunk} begins before the requested offset"
        if asked.end is not None:
            self._wanted = None
            self._reader.replay(chunk.offset, chunk.data)
            return
        self._reader.feed(chunk.offset, chunk.data)
        self._next_at = Offset(chunk.offset + len(chunk.data))

    def take(self) -> tuple[Message, ...]:
        """Committed messages, if some are at hand. ACKs are not among them."""
        while self._wanted is None and (found := self._reader.next()) is not None:
            if isinstance(found, Replay):
                self._wanted = found
            elif not isinstance(found, CommittedMessage):
                self._noticed.append(found)
            if isinstance(found, CommittedMessage):
                self.is_mid_span = not found.is_whole
                messages = tuple([message for message in found.messages if not message.is_ack])
                if messages:
                    return messages
        return ()

    def noticed(self) -> list[Skipped | Anomalous]:
        """Return the problems found since the last call."""
        noticed, self._noticed = self._noticed, []
        return noticed

    def ask(self) -> ReadSource | None:
        """Return the next read, unless it was requested already."""
        if self._asked is not None:
            return None
        wanted = self._wanted
        self._asked = (
            ReadSource(self.journal, self._next_at)
            if wanted is None
            else ReadSource(self.journal, wanted.begin, wanted.end)
        )
        return self._asked

    @property
    def offset(self) -> Offset:
        """Everything before it was given out, or needs not be."""
        return self._reader.sequencer.offset

    @property
    def awaits_ack(self) -> bool:
        """Did a span begin since the last checkpoint which is still open?"""
        return self._reader.sequencer.has_pending(self.checkpointed)

    def checkpoint(self) -> ReadState:
        state = self._reader.state()
        self.checkpointed = state.offset
        return state
