"""A consumer transaction, from its first message to its last ACK.

    RUNNING ──close──▶ FINALIZING ──▶ FLUSHING ──all its messages are appended──▶ COMMITTING ──▶ ACKING ──▶ done

From FLUSHING on it is the *prior* transaction: the next one runs at the same time, but commits only after this one is
done.
"""

from enum import Enum

import msgspec

from penstock.consumers.core.checkpoint import Checkpoint
from penstock.kernel.ids import Instant

__all__ = ["ShardPhase", "ShardTxn"]


class ShardPhase(Enum):
    """The phase of a transaction; see the module's picture."""

    RUNNING = "running"
    FINALIZING = "finalizing"
    FLUSHING = "flushing"
    COMMITTING = "committing"
    ACKING = "acking"


class ShardTxn(msgspec.Struct, eq=False):
    """One transaction."""

    number: int
    began_at: Instant
    phase: ShardPhase = ShardPhase.RUNNING
    consumed: int = 0  # messages
    appends: dict[int, str] = msgspec.field(default_factory=dict)  # asked for, not yet acknowledged: to which journal
    checkpoint: Checkpoint = Checkpoint()
    is_consuming: bool = False  # the application has messages, or finalizes

    @property
    def is_before_acks(self) -> bool:
        """Are its ACKs still to come? Then nothing newer may be appended after the messages that they will
        acknowledge.
        """
        return self.phase in (ShardPhase.FLUSHING, ShardPhase.COMMITTING)
