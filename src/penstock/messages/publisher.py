"""The Publisher: gives messages their UUIDs, and remembers which journals have some of them pending.

Pure: it returns frames, and the caller appends them. The caller has to keep one rule: it appends the frames for one
journal in the order in which they were made, because a reader takes a smaller clock after a larger one for a duplicate.
So ask for frames only when it is this publisher's turn to append there.

    publisher.committed(journal, framing, values)       each message is committed by itself
    publisher.uncommitted(journal, framing, values)     pending, until …
    publisher.ack_intents()                             … these are appended: a frame per journal with something pending

ACK intents are made before the transaction commits, stored with it, and appended only after it has committed. Appending
them again is harmless. Appending those of the transaction before rolls back all pending messages.
"""

from collections.abc import Sequence
from typing import Any

from penstock.kernel.ids import Clock
from penstock.messages.clock import TICK, ticked, updated
from penstock.messages.framing.framing import Framing
from penstock.messages.uuid import ACK_TXN, CONTINUE_TXN, OUTSIDE_TXN, ProducerId, Uuid, UuidRun

__all__ = ["AckIntents", "Publisher"]

AckIntents = dict[str, bytes]  # journal -> the frame that acknowledges its pending messages


class Publisher:
    """One producer. It is drawn at random for each process, shard assignment and attempt, and never shared."""

    def __init__(self, producer: ProducerId, unix_ns: int) -> None:
        self.producer = producer
        self.clock = updated(Clock(0), unix_ns)
        self._pending: dict[str, Framing] = {}

    def update(self, unix_ns: int) -> None:
        """The world's time: UUIDs from now on carry it. Once per transaction is often enough."""
        self.clock = updated(self.clock, unix_ns)

    def committed(self, journal: str, framing: Framing, values: Sequence[Any]) -> bytes:
        """Frames of messages which are committed once they are appended."""
        return self.committed_prepared(journal, framing, framing.prepare_all(values))

    def committed_prepared(self, journal: str, framing: Framing, prepared: Sequence[Any]) -> bytes:
        """Do as `committed` does, with values that the framing has prepared."""
        assert journal not in self._pending, f"{journal} has messages pending: these would discard them"
        return self._frames(framing, prepared, OUTSIDE_TXN)

    def uncommitted(self, journal: str, framing: Framing, values: Sequence[Any]) -> bytes:
        """Frames of messages which are pending until they are acknowledged."""
        return self.uncommitted_prepared(journal, framing, framing.prepare_all(values))

    def uncommitted_prepared(self, journal: str, framing: Framing, prepared: Sequence[Any]) -> bytes:
        """Do as `uncommitted` does, with values that the framing has prepared."""
        frames = self._frames(framing, prepared, CONTINUE_TXN)
        if frames:
            self._pending.setdefault(journal, framing)
        return frames

    @property
    def pending(self) -> tuple[str, ...]:
        """The journals with something pending."""
        return tuple(sorted(self._pending))

    def ack_intents(self) -> AckIntents:
        """Frames which commit everything pending. A new transaction begins."""
        pending, self._pending = self._pending, {}
        return {journal: pending[journal].acknowledgement(self._next(ACK_TXN)) for journal in sorted(pending)}

    def _frames(self, framing: Framing, prepared: Sequence[Any], flags: int) -> bytes:
        uuids = UuidRun(self.producer, ticked(self.clock), len(prepared), flags)
        frames = framing.frames(prepared, uuids)
        self.clock = Clock(self.clock + len(prepared) * TICK)
        return frames

    def _next(self, flags: int) -> Uuid:
        self.clock = ticked(self.clock)
        return Uuid(self.producer, self.clock, flags)
