"""The answers to waiting clients about their transactions, many clients at a time.

Design: quorum-log.md P6, P7, P8. COMMITTED, ACKNOWLEDGED and COMMITTED_BELOW_LEVEL are the three kinds of OK;
INDETERMINATE may still become anything, and `resolve` tells what; the rest are definite: no effect, ever.

An answer with an offset is about the transaction, if the client said of a repeat that it is one (decision 0107). An
answer without an offset is about this copy alone: nothing of it was written.
"""

from enum import Enum
from typing import Any

from penstock.kernel.effects import Effect
from penstock.kernel.ids import Epoch, Offset, RequestId

__all__ = ["Answers", "Cause", "Fate"]


class Fate(Enum):
    """How a transaction ended, as far as its leader can tell."""

    COMMITTED = "committed"  # it is in the log for good, at the ack level that was asked for
    ACKNOWLEDGED = "acknowledged"  # async: durable on the leader, in order; lost only by an epoch change
    COMMITTED_BELOW_LEVEL = "committed-below-level"  # its ack level above majority was not reached in time
    ABORTED = "aborted"  # rolled back by the log, or never appended: it has no effect, and never will
    INDETERMINATE = "indeterminate"  # it may commit, or not: ask `resolve` with its id
    NOT_LEADER = "not-leader"  # nothing was written: ask the leader
    OVERLOADED = "overloaded"  # nothing was written: the limbo is full
    INVALID = "invalid"  # nothing was written: no ensemble of this size has that ack level
    EXPIRED = "expired"  # a repeat too late: this copy has no effect, and whether an earlier one had is forgotten


class Cause(Enum):
    """Why a transaction ended as it did, where that is not plain (qsync.rst has an error for each of the first two)."""

    NONE = ""
    QUORUM_TIMEOUT = "quorum-timeout"  # no quorum held it in time
    ROLLBACK = "rollback"  # rolled back together with an earlier transaction, whose time-out it was
    FENCED = "fenced"  # its leader was replaced
    NO_ROOM = "no-room"  # it waited for room in the limbo, and its time was over before it was appended


class Answers(Effect, frozen=True):
    """Answer these requests, in this order. Offsets are 0 for transactions which were never appended."""

    fate: Fate
    epoch: Epoch
    requests: tuple[RequestId, ...]
    offsets: tuple[Offset, ...]
    results: tuple[Any, ...] = ()  # the state machine's results, for clients that waited for them
    cause: Cause = Cause.NONE
