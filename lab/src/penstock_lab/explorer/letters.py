"""Messages on their way: any of them may come next, or never; some can no longer matter.

A letter which no node would act upon, now or later, is dropped, because worlds with and without it are the same world.
`is_dead` says which, and each rule says why. One of them gives up a little: a request of an epoch which its sender no
longer leads, to a node which has durably left that epoch, is lost instead of being refused.
"""

from typing import Any

import msgspec

from penstock.kernel.ids import Epoch, NodeId
from penstock.quorum.records.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerResponse,
    BecomeLeaderResponse,
    HeartbeatResponse,
    Reason,
    Refusal,
    Request,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from penstock_lab.explorer.desk import Desk
from penstock_lab.explorer.site import ModelNode

__all__ = ["Letter", "Standing", "is_dead", "lane_of", "standing_of_desk", "standing_of_site"]

LEADERS_REQUESTS = (AddEntryRequest, TruncateRequest, SnapshotRequest)
FOLLOWERS_RESPONSES = (AddEntryResponse, TruncateResponse, SnapshotResponse)
Lane = tuple[NodeId, NodeId, int]
Place = tuple[int, int, int, int]
HEEDED = (Reason.NO_DATA, Reason.MAY_NOT_LEAD)  # the refusals an operator acts upon


class Letter(msgspec.Struct, frozen=True):
    """A message from one party to another."""

    sender: NodeId
    to: NodeId
    message: Any


class Standing(msgspec.Struct, frozen=True):
    """What decides whether a party still cares: a few numbers, which change rarely."""

    epoch: Epoch
    saved_epoch: Epoch  # a crash takes it back to this, and no further
    lead_epoch: Epoch  # 0: it leads no shard
    is_electing: bool = False  # an operator with an election under way
    is_operator: bool = False


def standing_of_site(site: ModelNode) -> Standing:
    node = site.node
    lead_epoch = node.epoch if node.leader is not None else Epoch(0)
    head = site.disk.head.epoch  # a restarted node is at least in the epoch of its log
    return Standing(node.epoch, Epoch(max(site.disk.state.epoch, head)), lead_epoch)


def standing_of_desk(desk: Desk) -> Standing:
    is_electing = desk.operator.election is not None or bool(desk.writes)
    return Standing(desk.epoch, desk.epoch, Epoch(0), is_electing, is_operator=True)


def is_dead(message: Any, sender: Standing, to: Standing) -> bool:
    """Can this message, delivered now or at any later time, change anything?"""
    if to.is_operator:
        return _is_dead_for_operator(message, to)
    epoch: Epoch = message.epoch
    match message:
        case Refusal():
            return to.saved_epoch >= epoch  # names a higher epoch to a node that knows it for good
        case AddEntryResponse() | TruncateResponse() | SnapshotResponse():
            return to.lead_epoch != epoch  # only a leader takes it, and no node leads an epoch again (P9)
        case AddEntryRequest() | TruncateRequest() | SnapshotRequest():
            return to.saved_epoch > epoch and sender.lead_epoch != epoch
        case Request():
            return to.saved_epoch > epoch and sender.epoch >= to.epoch  # its refusal would tell the operator nothing
        case _:
            return False


def _is_dead_for_operator(message: Any, to: Standing) -> bool:
    match message:
        case AddFollowerResponse():
            return True  # operators do not listen to it
        case HeartbeatResponse():
            return False
        case Refusal():
            is_heeded = message.reason in HEEDED and message.request_epoch >= to.epoch
            return message.epoch <= to.epoch and not is_heeded
        case BecomeLeaderResponse():
            return message.epoch < to.epoch or not to.is_electing
        case _:
            return bool(message.epoch < to.epoch)  # the operator has gone on to another epoch


def lane_of(letter: Letter) -> tuple[Lane, Place] | None:
    """The stream this letter is part of, and where in it: entries and their acknowledgements keep their order.

    Not because the core needs it, but because every order is too many: a setup says how many letters may overtake.
    """
    match letter.message:
        case AddEntryRequest(epoch=epoch, stream=stream, previous=previous, entries=entries):
            return (letter.sender, letter.to, 0), (epoch, stream, previous.offset, len(entries))
        case AddEntryResponse(epoch=epoch, stream=stream, head=head, is_behind=is_behind):
            return (letter.sender, letter.to, 1), (epoch, stream, head.offset, int(is_behind))
        case _:
            return None
