"""A shard's metadata: the only thing operators share. Design: quorum-log.md P9, P11; log-replication.md.

It lives in the KeySpace and changes by compare-and-set only, on the revision it was read at. Its epoch never falls
(I27). Which operator wrote an epoch is known to that operator alone, and only in that run of its process.
"""

from enum import Enum

import msgspec

from penstock.kernel.effects import Effect, Event
from penstock.kernel.ids import Epoch, NodeId, Revision
from penstock.quorum.records.member import Ensemble, Member
from penstock.quorum.records.messages import Change
from penstock.quorum.records.reconfiguration import Phase, Reconfiguration, fencing_ensemble, final_ensemble

__all__ = ["Metadata", "MetadataRead", "MetadataWritten", "PeerLost", "ReadMetadata", "Status", "WriteMetadata"]


class Status(Enum):
    """The activity in a shard, by its metadata."""

    ELECTION = "election"
    STEADY_STATE = "steady-state"
    RECONFIGURATION = "reconfiguration"


class Metadata(msgspec.Struct, frozen=True):
    """A shard. At its creation: an ensemble, epoch 0, in election."""

    ensemble: Ensemble
    epoch: Epoch = Epoch(0)
    status: Status = Status.ELECTION
    leader: Member | None = None
    reconfiguration: Reconfiguration | None = None
    is_formed: bool = False  # it had a leader: from then on a node without data needs a snapshot

    @property
    def committing(self) -> Change | None:
        """The change an election must complete."""
        reconfiguration = self.reconfiguration
        is_committing = reconfiguration is not None and reconfiguration.phase is Phase.COMMIT
        return reconfiguration.change if reconfiguration is not None and is_committing else None

    @property
    def final_ensemble(self) -> Ensemble:
        """The ensemble an election ends with."""
        return final_ensemble(self.ensemble, self.committing)

    @property
    def fencing_ensemble(self) -> Ensemble:
        """Everybody an election sends a fence to."""
        return fencing_ensemble(self.ensemble, self.committing)

    # the next versions

    def in_election(self, epoch: Epoch) -> "Metadata":
        """A new epoch. A change in COMMIT is kept, for it may be half done; one in PREPARE is dropped."""
        kept = self.reconfiguration if self.committing is not None else None
        return msgspec.structs.replace(self, epoch=epoch, status=Status.ELECTION, leader=None, reconfiguration=kept)

    def elected(self, leader: Member) -> "Metadata":
        return Metadata(self.final_ensemble, self.epoch, Status.STEADY_STATE, leader, None, is_formed=True)

    def preparing(self, change: Change) -> "Metadata":
        return msgspec.structs.replace(
            self,
            epoch=Epoch(self.epoch + 1),
            status=Status.RECONFIGURATION,
            reconfiguration=Reconfiguration(change, Phase.PREPARE),
        )

    def committing_change(self) -> "Metadata":
        assert self.reconfiguration is not None
        committing = msgspec.structs.replace(self.reconfiguration, phase=Phase.COMMIT)
        return msgspec.structs.replace(self, reconfiguration=committing)

    def reconfigured(self) -> "Metadata":
        assert self.leader is not None
        return self.elected(self.leader)


# What an operator's shell tells it of its connections.


class PeerLost(Event, frozen=True):
    """The connection to a node was closed, or the node's address refuses connections: no process listens there."""

    node: NodeId
    is_refused: bool


# The operator's port to the KeySpace.


class ReadMetadata(Effect, frozen=True):
    """Read the shard's metadata. Completed by `MetadataRead`."""


class MetadataRead(Event, frozen=True):
    """The metadata, at this revision. None: there is no such shard."""

    metadata: Metadata | None
    revision: Revision


class WriteMetadata(Effect, frozen=True):
    """Replace the metadata if it is still at `revision`. Completed by `MetadataWritten`, whatever happens."""

    metadata: Metadata
    revision: Revision


class MetadataWritten(Event, frozen=True):
    """Whether it was replaced, for certain; if so, its new revision. A lost answer counts as "no": read again."""

    is_written: bool
    revision: Revision
