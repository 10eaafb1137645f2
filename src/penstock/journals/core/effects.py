"""Events and effects of the append core, in addition to the kernel's. Their contract: `journals/core/__init__.py`."""

from enum import Enum
from typing import Any

from penstock.journals.records.api import Shortage, Status
from penstock.journals.records.epoch import PipelineEpoch
from penstock.journals.records.fragment import Fragment, Sum
from penstock.journals.records.messages import ContentRequest, ProposeRequest
from penstock.journals.records.point import Point
from penstock.journals.records.route import Topology
from penstock.kernel.effects import Effect, Event
from penstock.kernel.errors import LeaseExpired
from penstock.kernel.ids import NodeId, Offset, RequestId, Revision
from penstock.keyspace.core.transaction import Transaction

__all__ = [
    "Alarm",
    "AppendAborted",
    "AwaitRevision",
    "CloseStream",
    "ContentEnded",
    "ContentReceived",
    "ContentRefused",
    "CutSpool",
    "DropSpool",
    "IndexRefreshed",
    "ProposalReceived",
    "Proxy",
    "ReadContent",
    "Retired",
    "RollSpool",
    "RoomChanged",
    "SetAside",
    "ShowMark",
    "StreamClosed",
    "TopologyChanged",
    "Transact",
    "Transacted",
    "TransactionEnd",
    "Upload",
    "WriteContent",
]


# KeySpace


class TopologyChanged(Event, frozen=True):
    """The mirror moved: something of the journal changed, or a revision which was awaited has come."""

    topology: Topology


class AwaitRevision(Effect, frozen=True):
    """Tell `TopologyChanged` as soon as the mirror has this revision, whatever changed by then."""

    revision: Revision


class Transact(Effect, frozen=True):
    """Run a KeySpace transaction. Completed by `Transacted` with the same number."""

    number: int
    transaction: Transaction


class TransactionEnd(Enum):
    """How a transaction ended."""

    DONE = "done"
    LOST = "lost"  # a compare failed: nothing was written
    UNKNOWN = "unknown"  # no answer that helps: it may have been written, or may still be, or must be tried again

    @classmethod
    def of(cls, *, succeeded: bool) -> "TransactionEnd":
        """Return the end of a transaction that the KeySpace answered."""
        return cls.DONE if succeeded else cls.LOST

    @classmethod
    def of_error(cls, code: str) -> "TransactionEnd":
        """Return the end that an error's code stands for.

        LOST makes the replica wait for a change that its mirror will show. Only an expired lease promises one: after
        `unavailable` nothing was written, and nothing will change.
        """
        return cls.LOST if code == LeaseExpired.code else cls.UNKNOWN


class Transacted(Event, frozen=True):
    """A transaction ended; `revision` is its own if it was done."""

    number: int
    end: TransactionEnd
    revision: Revision = Revision(0)


# streams


class ProposalReceived(Event, frozen=True):
    """A proposal of the primary; `sum` is that of our Fragment with all content written since, including the
    proposal's.
    """

    sender: NodeId
    message: ProposeRequest
    sum: Sum


class CloseStream(Effect, frozen=True):
    """End the Replicate stream of that epoch with that broker, after the messages already sent."""

    peer: NodeId
    epoch: PipelineEpoch


class StreamClosed(Event, frozen=True):
    """The Replicate stream of that epoch has ended, or broke: nothing more comes."""

    peer: NodeId
    epoch: PipelineEpoch


# the client's content


class ReadContent(Effect, frozen=True):
    """It is this append's turn: feed its content, chunk by chunk."""

    request: RequestId


class ContentReceived(Event, frozen=True):
    """A chunk of the client's content: anything with a length; it goes through untouched."""

    request: RequestId
    content: Any


class ContentEnded(Event, frozen=True):
    """The client said commit. `content` is the last chunk, if any."""

    request: RequestId
    sum: Sum  # of the Fragment, with all of this append's content
    append_sum: Sum  # of this append's content alone, if it has a txn; else the shell may tell it with the answer
    content: Any = b""


class AppendAborted(Event, frozen=True):
    """The client rolled back, went away, or was too slow; or (`shortage`) this broker has no room for its content."""

    request: RequestId
    reason: str
    shortage: Shortage | None = None


class RoomChanged(Event, frozen=True):
    """This broker cannot keep more content for now, or (None) it can again."""

    shortage: Shortage | None


class ContentRefused(Event, frozen=True):
    """The primary sent content, and there is no room for it here: it was not written."""

    sender: NodeId
    message: ContentRequest | ProposeRequest
    shortage: Shortage


class Proxy(Effect, frozen=True):
    """The append is another broker's: hand the whole request over, and its answer back.

    It goes with `min_revision=revision, may_proxy=False`: the other must know the Route which named it, and then either
    serves or refuses.
    """

    request: RequestId
    to: NodeId
    revision: Revision


# the Spool's files and Fragments


class WriteContent(Effect, frozen=True):
    """Write after the present content, and add it to the running sum."""

    content: Any


class CutSpool(Effect, frozen=True):
    """Drop everything after this point, Fragments begun later included; the running sum is the point's again."""

    point: Point


class RollSpool(Effect, frozen=True):
    """Begin an empty Fragment at this point, with a new running sum. Older Fragments stay until they are named."""

    point: Point


class DropSpool(Effect, frozen=True):
    """Drop all files: their content is no longer needed."""


class Upload(Effect, frozen=True):
    """This Fragment is final: its content may go to the store. Keep it until it is in the store."""

    fragment: Fragment


class SetAside(Effect, frozen=True):
    """An alarm: it is not known whether this content above `mark` was committed. Keep a copy, never upload it."""

    fragment: Fragment
    mark: Offset


class Alarm(Effect, frozen=True):
    """The journal takes no appends until an operator acts: count it, log it, wake readers."""

    status: Status
    reason: str


class ShowMark(Effect, frozen=True):
    """Readers may see everything below the mark, which moved in this epoch."""

    mark: Offset
    epoch: PipelineEpoch


class IndexRefreshed(Event, frozen=True):
    """The stores were listed: Fragments reach up to `end`, and everything below `stored_to` is in one."""

    end: Offset
    stored_to: Offset = Offset(0)


class Retired(Effect, frozen=True):
    """This broker no longer serves the journal, and all it held is decided: the replica ends with its uploads."""
