"""What brokers say to each other over a Replicate stream. Design: journals.md J1, J4, J7, J9.

A stream belongs to one pipeline: it runs from its primary to one peer, in order in both directions, and every message
carries the pipeline's epoch and the life of the journal. The first message opens it.

    PromiseRequest   → PromiseResponse     refuse everything older from now on, and report your content
    AdoptRequest     → AdoptResponse       continue from this point
    ContentRequest                         bytes which a later proposal will cover, or take back
    ProposeRequest   → ProposeResponse     commit, roll, or stay: the Fragment as it is to be now, and the last bytes
    MarkRequest                            every replica has acknowledged up to here
                     → RefuseResponse      the end of the stream: why
"""

from enum import Enum
from typing import Any

import msgspec

from penstock.journals.records.api import Shortage
from penstock.journals.records.epoch import NO_EPOCH, PipelineEpoch
from penstock.journals.records.head import EMPTY_TABLE, HeadTable
from penstock.journals.records.point import Point
from penstock.journals.records.route import Route
from penstock.kernel.ids import Incarnation, Offset, Revision

__all__ = [
    "AdoptRequest",
    "AdoptResponse",
    "ContentRequest",
    "MarkRequest",
    "Message",
    "PromiseRequest",
    "PromiseResponse",
    "ProposeRequest",
    "ProposeResponse",
    "Refusal",
    "RefuseResponse",
]


class Refusal(Enum):
    """Why a peer ends a stream."""

    WRONG_ROUTE = "wrong-route"  # its Route, at a revision not older than ours, is another one
    PROMISED = "promised"  # it has promised a newer epoch
    PROPOSAL_MISMATCH = "proposal-mismatch"  # the proposal does not follow from its content
    OTHER_LIFE = "other-life"  # the journal was deleted, or created again
    NO_ROOM = "no-room"  # it cannot keep the content that came


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """What every message carries."""

    create_revision: Revision
    epoch: PipelineEpoch


class PromiseRequest(Message, frozen=True):
    """Step one of a sync."""

    route: Route


class PromiseResponse(Message, frozen=True):
    """What the peer has. Points end where it counts: at its end, or at its mark if it led the epoch itself."""

    incarnation: Incarnation
    spool_epoch: PipelineEpoch
    mark: Offset
    points: tuple[Point, ...]


class AdoptRequest(Message, frozen=True):
    """Step two of a sync: `point` is where all members continue, or begin a new Fragment if it is empty."""

    point: Point
    head_epoch: PipelineEpoch = NO_EPOCH  # a member with an older Spool is no participant, and drops its content
    table: HeadTable = EMPTY_TABLE
    is_reset: bool = False  # a reset-head, or the first sync of another life: it counts only once it is certified


class AdoptResponse(Message, frozen=True):
    """The peer's Spool ends at the point, and its epoch is this one."""


class ContentRequest(Message, frozen=True):
    """Bytes of an append; `delta` bytes of it came before."""

    delta: int
    content: Any


class ProposeRequest(Message, frozen=True):
    """The Fragment as it is to be. It is answered only if `acknowledge` is set; answers are cumulative.

    With `content` it is two in one: these bytes, after all earlier content, and then the proposal that covers them.
    """

    seq: int
    point: Point
    mark: Offset
    acknowledge: bool = True
    content: Any = b""


class ProposeResponse(Message, frozen=True):
    """Every proposal up to this one was adopted, durably if the journal wants that."""

    seq: int
    shortage: Shortage | None = None  # the peer takes no more content for now


class MarkRequest(Message, frozen=True):
    """The mark, when there is no proposal for it to ride on."""

    mark: Offset


class RefuseResponse(Message, frozen=True):
    """The peer will have none of it, and ends the stream."""

    refusal: Refusal
    revision: Revision  # how far the peer's mirror has come
    promised: PipelineEpoch
    shortage: Shortage | None = None  # with NO_ROOM: what the peer lacks
