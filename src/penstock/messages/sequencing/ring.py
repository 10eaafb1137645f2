"""The ring: the newest pending messages of a journal, so that most commits need no second look at the journal.

It is bounded by messages and by bytes. It evicts the oldest message, of any producer; the message's `Span` then no
longer begins in the ring, and its commit asks for a replay.
"""

from collections import deque
from itertools import repeat

from penstock.messages.message import Message

__all__ = ["Ring", "Span"]


class Span(deque[Message]):
    """The messages of one open span which are in the ring, in order; they are its newest."""

    __slots__ = ()


class Ring:
    """Messages by age. Those of spans which ended stay until they are the oldest, or until they are evicted."""

    __slots__ = ("_entries", "bytes", "bytes_max", "length_max")

    def __init__(self, length_max: int = 8192, bytes_max: int = 64 << 20) -> None:
        self.length_max = length_max
        self.bytes_max = bytes_max
        self.bytes = 0
        self._entries: deque[tuple[Span, Message]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, span: Span, message: Message) -> None:
        """Let a message in, at the cost of the oldest ones."""
        span.append(message)
        self._entries.append((span, message))
        self.bytes += len(message.frame)
        while len(self._entries) > self.length_max or (self.bytes > self.bytes_max and self._entries):
            self._evict()

    def extend(self, span: Span, messages: list[Message]) -> None:
        """Let messages of one span in, as `add` does for each."""
        span.extend(messages)
        self._entries.extend(zip(repeat(span), messages, strict=False))
        self.bytes += sum([len(message.frame) for message in messages])
        while len(self._entries) > self.length_max or (self.bytes > self.bytes_max and self._entries):
            self._evict()

    def release(self) -> None:
        """Release the oldest messages that no span holds any more, after a span ended."""
        entries = self._entries
        while entries:
            span, message = entries[0]
            if span and span[0] is message:
                return
            entries.popleft()
            self.bytes -= len(message.frame)

    def _evict(self) -> None:
        span, message = self._entries.popleft()
        self.bytes -= len(message.frame)
        if span and span[0] is message:
            span.popleft()

    def check(self) -> None:
        assert len(self._entries) <= self.length_max
        assert self.bytes == sum(len(message.frame) for _, message in self._entries)
        assert self.bytes <= self.bytes_max or not self._entries
