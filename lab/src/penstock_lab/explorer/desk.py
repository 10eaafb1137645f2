"""An operator at work, as one value: its core, and its requests to the KeySpace that have no answer yet.

An operator's timers are steps: a tick may come early (it asks again) or late (whatever it waited for has taken too
long). Reads of the metadata are answered at once; when a write takes place is for the world to say.
"""

from typing import Any

import msgspec

from penstock.kernel.effects import Effect, Event, Reply, Send, SetTimer, TimerFired
from penstock.kernel.ids import Epoch, Instant, NodeId, Revision
from penstock.quorum.core.config import OperatorConfig
from penstock.quorum.core.operator import TICK, Operator
from penstock.quorum.records.metadata import Metadata, MetadataRead, MetadataWritten, ReadMetadata, WriteMetadata

__all__ = ["Cell", "Desk", "DeskStep"]

NOW = Instant(0)
LATE = Instant(1 << 60)


class Cell(msgspec.Struct, frozen=True):
    """The shard's metadata in the KeySpace."""

    metadata: Metadata
    revision: Revision

    def write(self, request: WriteMetadata) -> tuple["Cell", MetadataWritten]:
        """Compare and set. I27: the epoch never falls, under any writer."""
        if request.revision != self.revision:
            return self, MetadataWritten(is_written=False, revision=self.revision)
        before, after = self.metadata.epoch, request.metadata.epoch
        assert after >= before, f"I27: the metadata's epoch falls from {before} to {after}"
        cell = Cell(request.metadata, Revision(self.revision + 1))
        return cell, MetadataWritten(is_written=True, revision=cell.revision)


class DeskStep(msgspec.Struct, frozen=True):
    """What one step led to."""

    desk: "Desk"
    sent: tuple[tuple[NodeId, Any], ...]
    reads: bool  # it wants to read the metadata, now


class Desk:
    """One operator. Never changed once a step is over."""

    __slots__ = ("name", "operator", "writes")

    def __init__(self, name: NodeId, operator: Operator, writes: tuple[WriteMetadata, ...] = ()) -> None:
        self.name = name
        self.operator = operator
        self.writes = writes

    @property
    def epoch(self) -> Epoch:
        """The newest epoch it knows of."""
        metadata = self.operator.metadata
        return metadata.epoch if metadata is not None else Epoch(0)

    def fingerprint(self) -> tuple[Any, ...]:
        """Return all that decides the operator's next action, but for time: late is late."""
        operator = self.operator
        return (self.name, operator.fingerprint(), operator._number, operator._number_trusted, self.writes)

    @classmethod
    def open(cls, name: NodeId, operator_class: type[Operator], config: OperatorConfig) -> DeskStep:
        """A process starts."""
        operator = operator_class(config)
        return cls(name, operator)._after(operator.begin(NOW))

    def step(self, event: Event, now: Instant = NOW) -> DeskStep:
        twin = Desk(self.name, self.operator.copy(), self.writes)
        effects = twin.operator.step(event, now)
        twin.operator.check()
        return twin._after(effects)

    def tick(self, *, is_late: bool) -> DeskStep:
        return self.step(TimerFired(TICK), LATE if is_late else NOW)

    def read(self, cell: Cell) -> DeskStep:
        """The KeySpace answers a read. Let an operator that waited for another one have waited long enough."""
        config = self.operator.config
        return self.step(MetadataRead(cell.metadata, cell.revision), Instant(config.election_ns))

    def written(self, event: MetadataWritten) -> DeskStep:
        """The KeySpace answers the oldest write."""
        return Desk(self.name, self.operator, self.writes[1:]).step(event)

    def _after(self, effects: list[Effect]) -> DeskStep:
        sent: list[tuple[NodeId, Any]] = []
        reads = False
        for effect in effects:
            match effect:
                case Send(to, message):
                    sent.append((to, message))
                case ReadMetadata():
                    reads = True
                case WriteMetadata():
                    self.writes = (*self.writes, effect)
                case SetTimer() | Reply():
                    pass
                case _:
                    raise AssertionError(f"the explorer does not know {effect}")
        return DeskStep(self, tuple(sent), reads)
